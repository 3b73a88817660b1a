#include "coordinator/store_sql.h"

void store_contribution_add(struct store *s, const struct store_contribution *c)
{
	store_sql_write(s, "INSERT INTO contribution VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		"uunnnhhunh", c->shard, c->peer, c->round, c->sequences, c->bytes, &c->id, &c->blob,
		c->via, c->tokens, &c->planes);
}

void store_contribution_move(struct store *s, const struct store_contribution *c)
{
	store_sql_write(s,
		"UPDATE contribution SET bytes = ?, blob = ?, via = ? WHERE shard = ? AND peer = ?",
		"nhuuu", c->bytes, &c->blob, c->via, c->shard, c->peer);
}

void store_contribution_remove(struct store *s, uint32_t peer)
{
	store_sql_write(s, "DELETE FROM contribution WHERE peer = ?", "u", peer);
}

void store_contribution_clear(struct store *s)
{
	store_sql_write(s, "DELETE FROM contribution", "");
}

enum err store_contribution_list(
	struct store *s, store_contribution_fn *fn, void *arg, struct why *why)
{
	struct store_sql q = store_sql_query(s,
		"SELECT shard, peer, round, sequences, bytes, id, blob, via, tokens, planes"
		" FROM contribution ORDER BY shard, peer",
		"");
	while (store_sql_next(&q)) {
		struct store_contribution c = {.shard = store_sql_u32(&q, 0),
			.peer = store_sql_u32(&q, 1),
			.round = store_sql_u64(&q, 2),
			.sequences = store_sql_u64(&q, 3),
			.bytes = store_sql_u64(&q, 4),
			.via = store_sql_u32(&q, 7),
			.tokens = store_sql_u64(&q, 8)};
		store_sql_bytes(&q, 5, c.id.b, sizeof c.id.b);
		store_sql_bytes(&q, 6, c.blob.b, sizeof c.blob.b);
		store_sql_bytes(&q, 9, c.planes.b, sizeof c.planes.b);
		fn(arg, &c);
	}
	return store_sql_end(&q, why);
}
