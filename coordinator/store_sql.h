/* SQLite for the store's own files: bind by a format, step, read columns. */
#ifndef COORDINATOR_STORE_SQL_H
#define COORDINATOR_STORE_SQL_H
#include <sqlite3.h>
#include "coordinator/store.h"

struct store {
	sqlite3 *db;
	char *path;
	struct why failed; /* the first failure in it; code ERR_OK: none */
};

/* In fmt one letter each: n uint64_t, u uint32_t, r double, t text, h const struct hash *,
 * k const uint8_t[STORE_KEY], b const void * and size_t.  The bytes must live until the statement
 * has run. */

/* A statement of a transaction without result; its failure is kept for store_commit. */
void store_sql_write(struct store *s, const char *sql, const char *fmt, ...);

/* The same for bytes that were put together first: a buffer that has failed fails the
 * transaction, instead of storing less. */
bool store_sql_ready(struct store *s, const struct buf *b);

/* A query.  while (store_sql_next(&q)) read columns; return store_sql_end(&q, why); */
struct store_sql {
	struct store *store;
	sqlite3_stmt *st;
	int rc;
};
struct store_sql store_sql_query(struct store *s, const char *sql, const char *fmt, ...);
bool store_sql_next(struct store_sql *q);
enum err store_sql_end(struct store_sql *q, struct why *why) MUST_CHECK;

uint64_t store_sql_u64(const struct store_sql *q, int column);
uint32_t store_sql_u32(const struct store_sql *q, int column);
double store_sql_real(const struct store_sql *q, int column);
/* Shorter values are filled with zeros, longer ones cut. */
void store_sql_bytes(const struct store_sql *q, int column, void *out, size_t n);
void store_sql_text(const struct store_sql *q, int column, char *out, size_t room);

/* A sentence for what SQLite says. */
enum err store_sql_why(const struct store *s, int rc, struct why *why);

#endif
