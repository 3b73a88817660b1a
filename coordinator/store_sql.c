#include "coordinator/store_sql.h"
#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* Also where SQLite does not say it as such: its shared memory is a file beside the others. */
static bool is_full(const struct store *s, int rc)
{
	const int at = s->db ? sqlite3_system_errno(s->db) : 0;
	return (rc & 0xff) == SQLITE_FULL ||
	       ((rc & 0xff) == SQLITE_IOERR && (at == ENOSPC || at == EDQUOT));
}

enum err store_sql_why(const struct store *s, int rc, struct why *why)
{
	const char *said = s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc);
	if (is_full(s, rc))
		return err_why(why, ERR_full,
			"the disk of %s is full: free some space; all that was committed is there",
			s->path);
	switch (rc & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_why(why, ERR_busy,
			"%s is held by another process for too long: is a second program writing "
			"to it?",
			s->path);
	case SQLITE_NOTADB:
		return err_why(why, ERR_magic, "%s is not a coordinator's database", s->path);
	case SQLITE_CORRUPT:
		return err_why(why, ERR_hash, "%s is damaged (%s): put back a backup of the folder",
			s->path, said);
	case SQLITE_PERM:
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
	case SQLITE_AUTH:
		return err_why(why, ERR_permission,
			"cannot write %s (%s): check the folder and its owner", s->path, said);
	case SQLITE_NOMEM: return err_why(why, ERR_nomem, "out of memory");
	case SQLITE_CONSTRAINT: return err_why(why, ERR_exists, "already in %s: %s", s->path, said);
	default: return err_why(why, ERR_io, "%s: %s", s->path, said);
	}
}

static int bind_one(sqlite3_stmt *st, int at, char kind, va_list *args)
{
	const void *bytes;
	switch (kind) {
	case 'n': return sqlite3_bind_int64(st, at, (sqlite3_int64)va_arg(*args, uint64_t));
	case 'u': return sqlite3_bind_int64(st, at, va_arg(*args, uint32_t));
	case 'r': return sqlite3_bind_double(st, at, va_arg(*args, double));
	case 't': return sqlite3_bind_text(st, at, va_arg(*args, const char *), -1, SQLITE_STATIC);
	case 'h':
		return sqlite3_bind_blob(st, at, va_arg(*args, const struct hash *)->b,
			sizeof(struct hash), SQLITE_STATIC);
	case 'k':
		return sqlite3_bind_blob(
			st, at, va_arg(*args, const uint8_t *), STORE_KEY, SQLITE_STATIC);
	default:
		bytes = va_arg(*args, const void *);
		/* NULL would bind SQL's NULL instead of no bytes */
		return sqlite3_bind_blob64(
			st, at, bytes ? bytes : "", va_arg(*args, size_t), SQLITE_STATIC);
	}
}

static int prepare(
	struct store *s, const char *sql, const char *fmt, va_list *args, sqlite3_stmt **st)
{
	int rc = sqlite3_prepare_v2(s->db, sql, -1, st, NULL);
	for (int i = 0; rc == SQLITE_OK && fmt[i]; i++)
		rc = bind_one(*st, i + 1, fmt[i], args);
	return rc;
}

void store_sql_write(struct store *s, const char *sql, const char *fmt, ...)
{
	if (s->failed.code)
		return;
	sqlite3_stmt *st = NULL;
	va_list args;
	va_start(args, fmt);
	int rc = prepare(s, sql, fmt, &args, &st);
	va_end(args);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc != SQLITE_DONE && rc != SQLITE_ROW)
		store_sql_why(s, rc, &s->failed);
	sqlite3_finalize(st);
}

bool store_sql_ready(struct store *s, const struct buf *b)
{
	if (!buf_ok(b) && !s->failed.code)
		err_why(&s->failed, ERR_nomem, "%s: no memory for what is to be stored", s->path);
	return buf_ok(b);
}

struct store_sql store_sql_query(struct store *s, const char *sql, const char *fmt, ...)
{
	struct store_sql q = {.store = s};
	va_list args;
	va_start(args, fmt);
	q.rc = prepare(s, sql, fmt, &args, &q.st);
	va_end(args);
	return q;
}

bool store_sql_next(struct store_sql *q)
{
	if (q->rc == SQLITE_OK || q->rc == SQLITE_ROW)
		q->rc = sqlite3_step(q->st);
	return q->rc == SQLITE_ROW;
}

enum err store_sql_end(struct store_sql *q, struct why *why)
{
	bool well = q->rc == SQLITE_DONE || q->rc == SQLITE_ROW || q->rc == SQLITE_OK;
	enum err err = well ? ERR_OK : store_sql_why(q->store, q->rc, why);
	sqlite3_finalize(q->st);
	q->st = NULL;
	return err;
}

uint64_t store_sql_u64(const struct store_sql *q, int column)
{
	return (uint64_t)sqlite3_column_int64(q->st, column);
}

uint32_t store_sql_u32(const struct store_sql *q, int column)
{
	return (uint32_t)sqlite3_column_int64(q->st, column);
}

double store_sql_real(const struct store_sql *q, int column)
{
	return sqlite3_column_double(q->st, column);
}

void store_sql_bytes(const struct store_sql *q, int column, void *out, size_t n)
{
	const void *bytes = sqlite3_column_blob(q->st, column);
	size_t have = (size_t)sqlite3_column_bytes(q->st, column);
	memset(out, 0, n);
	if (bytes)
		memcpy(out, bytes, have < n ? have : n);
}

void store_sql_text(const struct store_sql *q, int column, char *out, size_t room)
{
	store_sql_bytes(q, column, out, room);
	out[room - 1] = 0;
}
