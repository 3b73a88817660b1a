#include "coordinator/store_sql.h"

void store_snapshot_add(struct store *s, const struct store_snapshot *p)
{
	store_sql_write(s, "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?, ?)", "nnnhh",
		p->round, p->sequence, p->bytes, &p->head, &p->blob);
}

void store_snapshot_remove(struct store *s, uint64_t round)
{
	store_sql_write(s, "DELETE FROM snapshot WHERE round = ?", "n", round);
}

enum err store_snapshot_list(struct store *s, store_snapshot_fn *fn, void *arg, struct why *why)
{
	struct store_sql q = store_sql_query(s,
		"SELECT round, sequence, bytes, head, blob FROM snapshot ORDER BY round DESC", "");
	while (store_sql_next(&q)) {
		struct store_snapshot p = {.round = store_sql_u64(&q, 0),
			.sequence = store_sql_u64(&q, 1),
			.bytes = store_sql_u64(&q, 2)};
		store_sql_bytes(&q, 3, p.head.b, sizeof p.head.b);
		store_sql_bytes(&q, 4, p.blob.b, sizeof p.blob.b);
		fn(arg, &p);
	}
	return store_sql_end(&q, why);
}
