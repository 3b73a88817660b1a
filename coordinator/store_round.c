#include "coordinator/store_sql.h"

void store_round_add(struct store *s, const struct store_round *r)
{
	store_sql_write(s, "INSERT INTO round VALUES (?, ?, ?, ?, ?, ?, ?, ?)", "nnuunnnn",
		r->round, r->tokens, r->members, r->dropped, r->bytes_up, r->bytes_down,
		r->closed_s, r->took_ns);
}

enum err store_round_list(struct store *s, const struct store_range *range, store_round_fn *fn,
	void *arg, struct why *why)
{
	struct store_sql q = store_sql_query(s,
		"SELECT round, tokens, members, dropped, bytes_up, bytes_down, closed_s, took_ns"
		" FROM round WHERE round > ? ORDER BY round LIMIT ?",
		"nu", range->after, range->limit);
	while (store_sql_next(&q)) {
		struct store_round r = {.round = store_sql_u64(&q, 0),
			.tokens = store_sql_u64(&q, 1),
			.members = store_sql_u32(&q, 2),
			.dropped = store_sql_u32(&q, 3),
			.bytes_up = store_sql_u64(&q, 4),
			.bytes_down = store_sql_u64(&q, 5),
			.closed_s = store_sql_u64(&q, 6),
			.took_ns = store_sql_u64(&q, 7)};
		fn(arg, &r);
	}
	return store_sql_end(&q, why);
}
