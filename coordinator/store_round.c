#include "coordinator/store_sql.h"

void store_round_add(struct store *s, const struct store_round *r)
{
	store_sql_write(s, "INSERT INTO round VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		"nnnuuunnnnrr", r->round, r->tokens, r->total_tokens, r->members, r->dropped,
		r->merged, r->bytes_up, r->bytes_down, r->closed_s, r->took_ns, r->nats_per_token,
		r->nats_per_byte);
}

enum err store_round_list(struct store *s, const struct store_range *range, store_round_fn *fn,
	void *arg, struct why *why)
{
	struct store_sql q = store_sql_query(s,
		"SELECT round, tokens, members, dropped, bytes_up, bytes_down, closed_s, took_ns,"
		" total_tokens, nats_per_token, nats_per_byte, merged FROM round WHERE round > ? "
		"ORDER BY "
		"round LIMIT ?",
		"nu", range->after, range->limit);
	while (store_sql_next(&q)) {
		struct store_round r = {.round = store_sql_u64(&q, 0),
			.tokens = store_sql_u64(&q, 1),
			.members = store_sql_u32(&q, 2),
			.dropped = store_sql_u32(&q, 3),
			.bytes_up = store_sql_u64(&q, 4),
			.bytes_down = store_sql_u64(&q, 5),
			.closed_s = store_sql_u64(&q, 6),
			.took_ns = store_sql_u64(&q, 7),
			.total_tokens = store_sql_u64(&q, 8),
			.nats_per_token = store_sql_real(&q, 9),
			.nats_per_byte = store_sql_real(&q, 10),
			.merged = store_sql_u32(&q, 11)};
		fn(arg, &r);
	}
	return store_sql_end(&q, why);
}

enum err store_round_total(struct store *s, struct store_round_sum *out, struct why *why)
{
	struct store_sql q = store_sql_query(s,
		"SELECT count(*), sum(members), sum(bytes_up), sum(bytes_down), sum(merged) FROM "
		"round",
		"");
	*out = (struct store_round_sum){0};
	if (store_sql_next(&q))
		*out = (struct store_round_sum){store_sql_u64(&q, 0), store_sql_u64(&q, 1),
			store_sql_u64(&q, 2), store_sql_u64(&q, 3), store_sql_u64(&q, 4)};
	return store_sql_end(&q, why);
}
