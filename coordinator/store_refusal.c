#include "coordinator/store_sql.h"

void store_refusal_add(struct store *s, const struct store_refusal *r)
{
	store_sql_write(s,
		"INSERT INTO refusal (at_s, member, round, shard, code, what, text)"
		" VALUES (?, ?, ?, ?, ?, ?, ?)",
		"nunuutt", r->at_s, r->member, r->round, r->shard, (uint32_t)r->code, r->what,
		r->text);
	store_sql_write(s, "DELETE FROM refusal WHERE n <= (SELECT max(n) FROM refusal) - ?", "u",
		(uint32_t)STORE_REFUSALS);
	store_sql_write(s,
		"INSERT INTO refusal_count VALUES (?, 1)"
		" ON CONFLICT (code) DO UPDATE SET count = count + 1",
		"u", (uint32_t)r->code);
}

enum err store_refusal_list(struct store *s, store_refusal_fn *fn, void *arg, struct why *why)
{
	struct store_sql q = store_sql_query(s,
		"SELECT at_s, member, round, shard, code, what, text FROM refusal ORDER BY n DESC",
		"");
	while (store_sql_next(&q)) {
		struct store_refusal r = {.at_s = store_sql_u64(&q, 0),
			.member = store_sql_u32(&q, 1),
			.round = store_sql_u64(&q, 2),
			.shard = store_sql_u32(&q, 3),
			.code = (enum err)store_sql_u32(&q, 4)};
		store_sql_text(&q, 5, r.what, sizeof r.what);
		store_sql_text(&q, 6, r.text, sizeof r.text);
		fn(arg, &r);
	}
	return store_sql_end(&q, why);
}

enum err store_refusal_counts(
	struct store *s, store_refusal_count_fn *fn, void *arg, struct why *why)
{
	struct store_sql q =
		store_sql_query(s, "SELECT code, count FROM refusal_count ORDER BY code", "");
	while (store_sql_next(&q))
		fn(arg, (enum err)store_sql_u32(&q, 0), store_sql_u64(&q, 1));
	return store_sql_end(&q, why);
}
