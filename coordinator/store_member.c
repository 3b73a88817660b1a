#include "coordinator/store_sql.h"

void store_member_put(struct store *s, const struct store_member *m)
{
	store_sql_write(s,
		"INSERT INTO member VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (number) DO UPDATE SET"
		" curve = excluded.curve, name = excluded.name, version = excluded.version,"
		" removed = excluded.removed",
		"ukkttnu", m->number, m->sign, m->curve, m->name, m->version, m->joined_s,
		(uint32_t)m->removed);
}

enum err store_member_list(struct store *s, store_member_fn *fn, void *arg, struct why *why)
{
	struct store_sql q = store_sql_query(s,
		"SELECT number, sign, curve, name, version, joined_s, removed FROM member"
		" ORDER BY number",
		"");
	while (store_sql_next(&q)) {
		struct store_member m = {.number = store_sql_u32(&q, 0),
			.joined_s = store_sql_u64(&q, 5),
			.removed = store_sql_u32(&q, 6)};
		store_sql_bytes(&q, 1, m.sign, sizeof m.sign);
		store_sql_bytes(&q, 2, m.curve, sizeof m.curve);
		store_sql_text(&q, 3, m.name, sizeof m.name);
		store_sql_text(&q, 4, m.version, sizeof m.version);
		fn(arg, &m);
	}
	return store_sql_end(&q, why);
}
