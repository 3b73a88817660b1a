#include "coordinator/store_sql.h"

#define COLUMNS "SELECT sequence, round, shard, count, hash, state, record, bytes, entry FROM entry"

static struct store_entry read_one(const struct store_sql *q)
{
	struct store_entry e = {.sequence = store_sql_u64(q, 0),
		.round = store_sql_u64(q, 1),
		.shard = store_sql_u32(q, 2),
		.count = store_sql_u32(q, 3),
		.bytes = store_sql_u64(q, 7),
		.entry = sqlite3_column_blob(q->st, 8),
		.entry_len = (size_t)sqlite3_column_bytes(q->st, 8)};
	store_sql_bytes(q, 4, e.hash.b, sizeof e.hash.b);
	store_sql_bytes(q, 5, e.state.b, sizeof e.state.b);
	store_sql_bytes(q, 6, e.record.b, sizeof e.record.b);
	return e;
}

void store_entry_add(struct store *s, const struct store_entry *e)
{
	store_sql_write(s, "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", "nnuuhhhnb",
		e->sequence, e->round, e->shard, e->count, &e->hash, &e->state, &e->record,
		e->bytes, e->entry, e->entry_len);
}

enum err store_entry_list(struct store *s, const struct store_range *range, store_entry_fn *fn,
	void *arg, struct why *why)
{
	struct store_sql q =
		store_sql_query(s, COLUMNS " WHERE sequence > ? ORDER BY sequence LIMIT ?", "nu",
			range->after, range->limit);
	while (store_sql_next(&q)) {
		struct store_entry e = read_one(&q);
		fn(arg, &e);
	}
	return store_sql_end(&q, why);
}

enum err store_entry_find(
	struct store *s, uint64_t sequence, struct store_entry *out, struct why *why)
{
	struct store_sql q = store_sql_query(s, COLUMNS " WHERE sequence = ?", "n", sequence);
	bool found = store_sql_next(&q);
	if (found)
		*out = read_one(&q);
	out->entry = NULL;
	out->entry_len = 0;
	enum err err = store_sql_end(&q, why);
	return err ? err : found ? ERR_OK : ERR_missing;
}
