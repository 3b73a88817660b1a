#include "coordinator/store_sql.h"

#define COLUMNS \
	"SELECT id, created_s, expires_s, uses, revoked," \
	" (SELECT count(*) FROM invite_key k WHERE k.id = invite.id) FROM invite"

static struct store_invite read_one(const struct store_sql *q)
{
	struct store_invite i = {.created_s = store_sql_u64(q, 1),
		.expires_s = store_sql_u64(q, 2),
		.uses = store_sql_u32(q, 3),
		.revoked = store_sql_u32(q, 4),
		.used = store_sql_u32(q, 5)};
	store_sql_text(q, 0, i.id, sizeof i.id);
	return i;
}

void store_invite_add(struct store *s, const struct store_invite *i)
{
	store_sql_write(s, "INSERT INTO invite VALUES (?, ?, ?, ?, ?)", "tnnuu", i->id,
		i->created_s, i->expires_s, i->uses, (uint32_t)i->revoked);
}

enum err store_invite_find(
	struct store *s, const char *id, struct store_invite *out, struct why *why)
{
	struct store_sql q = store_sql_query(s, COLUMNS " WHERE id = ?", "t", id);
	bool found = store_sql_next(&q);
	if (found)
		*out = read_one(&q);
	enum err err = store_sql_end(&q, why);
	return err ? err : found ? ERR_OK : ERR_missing;
}

enum err store_invite_bound(struct store *s, const char *id, const uint8_t key[static STORE_KEY],
	bool *bound, struct why *why)
{
	struct store_sql q = store_sql_query(
		s, "SELECT 1 FROM invite_key WHERE id = ? AND key = ?", "tk", id, key);
	*bound = store_sql_next(&q);
	return store_sql_end(&q, why);
}

void store_invite_use(struct store *s, const char *id, const uint8_t key[static STORE_KEY])
{
	store_sql_write(s, "INSERT OR IGNORE INTO invite_key VALUES (?, ?)", "tk", id, key);
}

void store_invite_revoke(struct store *s, const char *id)
{
	store_sql_write(s, "UPDATE invite SET revoked = 1 WHERE id = ?", "t", id);
}

enum err store_invite_list(struct store *s, store_invite_fn *fn, void *arg, struct why *why)
{
	struct store_sql q = store_sql_query(s, COLUMNS " ORDER BY created_s, id", "");
	while (store_sql_next(&q)) {
		struct store_invite i = read_one(&q);
		fn(arg, &i);
	}
	return store_sql_end(&q, why);
}
