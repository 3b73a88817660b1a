#include "coordinator/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "coordinator/store_sql.h"

#define APPLICATION 0x53484f4c /* "SHOL" */
#define BUSY_MS 10000

static const char schema[] =
	"CREATE TABLE fact (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE member (number INTEGER PRIMARY KEY, sign BLOB NOT NULL UNIQUE,"
	" curve BLOB NOT NULL UNIQUE, name TEXT NOT NULL, version TEXT NOT NULL,"
	" joined_s INTEGER NOT NULL, removed INTEGER NOT NULL);"
	"CREATE TABLE invite (id TEXT PRIMARY KEY, created_s INTEGER NOT NULL,"
	" expires_s INTEGER NOT NULL, uses INTEGER NOT NULL, revoked INTEGER NOT NULL);"
	"CREATE TABLE invite_key (id TEXT NOT NULL, key BLOB NOT NULL, PRIMARY KEY (id, key))"
	" WITHOUT ROWID;"
	"CREATE TABLE plan (member INTEGER PRIMARY KEY, round INTEGER NOT NULL,"
	" steps INTEGER NOT NULL, spans BLOB NOT NULL, listed BLOB NOT NULL);"
	"CREATE TABLE contribution (shard INTEGER NOT NULL, peer INTEGER NOT NULL,"
	" round INTEGER NOT NULL, sequences INTEGER NOT NULL, bytes INTEGER NOT NULL,"
	" id BLOB NOT NULL, blob BLOB NOT NULL, via INTEGER NOT NULL, tokens INTEGER NOT NULL,"
	" planes BLOB NOT NULL, PRIMARY KEY (shard, peer)) WITHOUT ROWID;"
	"CREATE TABLE entry (sequence INTEGER PRIMARY KEY, round INTEGER NOT NULL,"
	" shard INTEGER NOT NULL, count INTEGER NOT NULL, hash BLOB NOT NULL, state BLOB NOT NULL,"
	" record BLOB NOT NULL, bytes INTEGER NOT NULL, entry BLOB NOT NULL);"
	"CREATE TABLE input (sequence INTEGER NOT NULL, blob BLOB NOT NULL,"
	" PRIMARY KEY (sequence, blob)) WITHOUT ROWID;"
	"CREATE TABLE round (round INTEGER PRIMARY KEY, tokens INTEGER NOT NULL,"
	" total_tokens INTEGER NOT NULL,"
	" members INTEGER NOT NULL, dropped INTEGER NOT NULL, merged INTEGER NOT NULL,"
	" bytes_up INTEGER NOT NULL,"
	" bytes_down INTEGER NOT NULL, closed_s INTEGER NOT NULL, took_ns INTEGER NOT NULL,"
	" nats_per_token REAL NOT NULL, nats_per_byte REAL NOT NULL);"
	"CREATE TABLE loss (round INTEGER PRIMARY KEY, tokens INTEGER NOT NULL,"
	" nats_per_token REAL NOT NULL, nats_per_byte REAL NOT NULL, measured INTEGER NOT NULL,"
	" member INTEGER NOT NULL, at_s INTEGER NOT NULL);"
	"CREATE TABLE refusal (n INTEGER PRIMARY KEY AUTOINCREMENT, at_s INTEGER NOT NULL,"
	" member INTEGER NOT NULL, round INTEGER NOT NULL, shard INTEGER NOT NULL,"
	" code INTEGER NOT NULL, what TEXT NOT NULL, text TEXT NOT NULL);"
	"CREATE TABLE refusal_count (code INTEGER PRIMARY KEY, count INTEGER NOT NULL);"
	"CREATE TABLE snapshot (round INTEGER PRIMARY KEY, sequence INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL, head BLOB NOT NULL, blob BLOB NOT NULL);";

/* From layout 2: what was contributed to the open round is all here. */
static const char from_2[] =
	"ALTER TABLE contribution ADD COLUMN via INTEGER NOT NULL DEFAULT 4294967295;"
	"ALTER TABLE contribution ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE contribution ADD COLUMN planes BLOB NOT NULL DEFAULT x'';";

static enum err execute(struct store *s, const char *sql, struct why *why)
{
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
	return rc == SQLITE_OK ? ERR_OK : store_sql_why(s, rc, why);
}

static enum err pragma(struct store *s, const char *name, uint64_t *v, struct why *why)
{
	char sql[64];
	snprintf(sql, sizeof sql, "PRAGMA %s", name);
	struct store_sql q = store_sql_query(s, sql, "");
	*v = store_sql_next(&q) ? store_sql_u64(&q, 0) : 0;
	return store_sql_end(&q, why);
}

/* In one transaction: a process that dies here, or a second one that does it too, leaves no half
 * of it.  from: the layout that is there, 0 for none. */
static enum err make(struct store *s, uint64_t from, struct why *why)
{
	char mark[128];
	snprintf(mark, sizeof mark, "PRAGMA application_id = %d; PRAGMA user_version = %d;",
		APPLICATION, STORE_SCHEMA);
	enum err err = execute(s, "BEGIN IMMEDIATE", why);
	uint64_t version = 0;
	if (!err)
		err = pragma(s, "user_version", &version, why);
	if (!err && version == from)
		err = execute(s, from ? from_2 : schema, why);
	if (!err && version == from)
		err = execute(s, mark, why);
	if (!err)
		return execute(s, "COMMIT", why);
	sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return err;
}

static enum err check(struct store *s, struct why *why)
{
	uint64_t application, version, tables;
	enum err err = pragma(s, "application_id", &application, why);
	if (!err)
		err = pragma(s, "user_version", &version, why);
	if (!err)
		err = pragma(s, "schema_version", &tables, why);
	if (!err && !application && !version && !tables)
		return make(s, 0, why);
	if (!err && application != APPLICATION)
		return err_why(why, ERR_magic, "%s is another program's database", s->path);
	if (!err && version == STORE_SCHEMA_OLDEST)
		return make(s, version, why);
	if (!err && version != STORE_SCHEMA)
		return err_why(why, ERR_version,
			"%s has layout %llu, this shoal-coordinator knows layouts %d to %d: use "
			"the version that wrote it",
			s->path, (unsigned long long)version, STORE_SCHEMA_OLDEST, STORE_SCHEMA);
	return err;
}

enum err store_open(const char *path, struct store **out, struct why *why)
{
	struct store *s = alloc_must_zero(1, sizeof *s);
	s->path = alloc_must_strdup(path);
	*out = NULL;
	int rc = sqlite3_open_v2(path, &s->db,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
	enum err err = rc == SQLITE_OK ? ERR_OK : store_sql_why(s, rc, why);
	if (!err)
		sqlite3_busy_timeout(s->db, BUSY_MS);
	if (!err)
		err = check(s, why);
	/* Only now: switching the journal writes to the file, which might not be ours. */
	if (!err)
		err = execute(s,
			"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
			"PRAGMA wal_autocheckpoint = 1000",
			why);
	if (err) {
		store_close(s);
		return err;
	}
	*out = s;
	return ERR_OK;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	sqlite3_close(s->db);
	free(s->path);
	free(s);
}

/* ---- transactions */

void store_begin(struct store *s)
{
	s->failed = (struct why){0};
	store_sql_write(s, "BEGIN IMMEDIATE", "");
}

enum err store_commit(struct store *s, struct why *why)
{
	store_sql_write(s, "COMMIT", "");
	struct why failed = s->failed;
	if (failed.code) {
		store_rollback(s);
		return err_why(why, failed.code, "%s", failed.text);
	}
	return ERR_OK;
}

void store_rollback(struct store *s)
{
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	s->failed = (struct why){0};
}

/* ---- facts */

void store_put(struct store *s, const char *name, const void *bytes, size_t n)
{
	store_sql_write(s, "INSERT OR REPLACE INTO fact VALUES (?, ?)", "tb", name, bytes, n);
}

void store_put_number(struct store *s, const char *name, uint64_t v)
{
	char text[24];
	int n = snprintf(text, sizeof text, "%llu", (unsigned long long)v);
	store_put(s, name, text, (size_t)n);
}

enum err store_get(struct store *s, const char *name, uint8_t **bytes, size_t *n, struct why *why)
{
	struct store_sql q = store_sql_query(s, "SELECT value FROM fact WHERE name = ?", "t", name);
	enum err found = ERR_missing;
	*bytes = NULL;
	if (store_sql_next(&q)) {
		*n = (size_t)sqlite3_column_bytes(q.st, 0);
		*bytes = *n <= STORE_FACT_MAX ? alloc_try(*n + 1, 1) : NULL;
		found = *bytes ? ERR_OK : ERR_nomem;
		if (*bytes)
			store_sql_bytes(&q, 0, *bytes, *n);
	}
	enum err err = store_sql_end(&q, why);
	if (err) {
		free(*bytes);
		*bytes = NULL;
	}
	return err ? err : found;
}

enum err store_get_number(
	struct store *s, const char *name, uint64_t fallback, uint64_t *v, struct why *why)
{
	uint8_t *bytes;
	size_t n;
	*v = fallback;
	enum err err = store_get(s, name, &bytes, &n, why);
	if (!err)
		*v = strtoull((const char *)bytes, NULL, 10);
	free(bytes);
	return err == ERR_missing ? ERR_OK : err;
}
