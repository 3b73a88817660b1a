#include "coordinator/store_sql.h"

void store_loss_add(struct store *s, const struct store_loss *l)
{
	store_sql_write(s, "INSERT OR REPLACE INTO loss VALUES (?, ?, ?, ?, ?, ?, ?)", "nnrrnun",
		l->round, l->tokens, l->nats_per_token, l->nats_per_byte, l->measured, l->member,
		l->at_s);
}

enum err store_loss_list(struct store *s, store_loss_fn *fn, void *arg, struct why *why)
{
	struct store_sql q = store_sql_query(s,
		"SELECT round, tokens, nats_per_token, nats_per_byte, measured, member, at_s"
		" FROM loss ORDER BY round",
		"");
	while (store_sql_next(&q)) {
		struct store_loss l = {.round = store_sql_u64(&q, 0),
			.tokens = store_sql_u64(&q, 1),
			.nats_per_token = store_sql_real(&q, 2),
			.nats_per_byte = store_sql_real(&q, 3),
			.measured = store_sql_u64(&q, 4),
			.member = store_sql_u32(&q, 5),
			.at_s = store_sql_u64(&q, 6)};
		fn(arg, &l);
	}
	return store_sql_end(&q, why);
}
