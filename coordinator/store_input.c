#include "coordinator/store_sql.h"

void store_input_add(struct store *s, uint64_t sequence, const struct hash *blob)
{
	store_sql_write(s, "INSERT OR IGNORE INTO input VALUES (?, ?)", "nh", sequence, blob);
}

enum err store_input_count(struct store *s, uint64_t sequence, uint64_t *n, struct why *why)
{
	struct store_sql q =
		store_sql_query(s, "SELECT COUNT(*) FROM input WHERE sequence = ?", "n", sequence);
	*n = store_sql_next(&q) ? store_sql_u64(&q, 0) : 0;
	return store_sql_end(&q, why);
}

void store_input_remove(struct store *s, uint64_t to)
{
	store_sql_write(s, "DELETE FROM input WHERE sequence <= ?", "n", to);
}

enum err store_input_list(
	struct store *s, uint64_t to, store_input_fn *fn, void *arg, struct why *why)
{
	struct store_sql q = store_sql_query(
		s, "SELECT blob FROM input WHERE sequence <= ? ORDER BY sequence", "n", to);
	while (store_sql_next(&q)) {
		struct hash blob;
		store_sql_bytes(&q, 0, blob.b, sizeof blob.b);
		fn(arg, &blob);
	}
	return store_sql_end(&q, why);
}
