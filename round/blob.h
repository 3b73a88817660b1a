/*
 * Blobs: files named by their SHA-256 in one folder.  A blob appears whole or not at all; what is
 * being fetched is kept as HASH.part and can be gone on with.  Names are 64 hex digits and nothing
 * else, so that no name from outside leads anywhere.  The folder has a cap on its bytes (blobs and
 * parts together).  One thread at a time; the folder belongs to one process.
 */
#ifndef ROUND_BLOB_H
#define ROUND_BLOB_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"

#define BLOB_MAX (1ull << 48) /* bytes that one may claim to have */

struct blob_store;

/* Makes the folder when it is missing; foreign names in it are left alone.  cap 0: none. */
enum err blob_open(
	const char *dir, uint64_t cap, struct blob_store **out, struct why *why) MUST_CHECK;
void blob_close(struct blob_store *s); /* NULL-safe; parts stay for the next time */

/* ERR_full beyond the cap.  Putting what is there already is no mistake and writes nothing. */
enum err blob_put(struct blob_store *s, const void *bytes, size_t n, struct hash *name,
	struct why *why) MUST_CHECK;
/* Takes over a finished file on the same file system (it is gone from path on success). */
enum err blob_adopt(
	struct blob_store *s, const char *path, struct hash *name, struct why *why) MUST_CHECK;

bool blob_has(const struct blob_store *s, const struct hash *name);
/* ERR_missing. */
enum err blob_size(const struct blob_store *s, const struct hash *name, uint64_t *size) MUST_CHECK;
/* The content, verified against its name, a NUL after it; caller frees.  ERR_missing, ERR_toobig
 * beyond max, ERR_hash: damaged on disk, and then it is removed, so that it is fetched anew. */
enum err blob_get(struct blob_store *s, const struct hash *name, size_t max, uint8_t **bytes,
	size_t *n, struct why *why) MUST_CHECK;
/* Verified in place, without reading it into memory.  Errors as blob_get. */
enum err blob_verify(struct blob_store *s, const struct hash *name, struct why *why) MUST_CHECK;
/* Its file, whether or not it is there; caller frees. */
char *blob_path(const struct blob_store *s, const struct hash *name);
enum err blob_remove(struct blob_store *s, const struct hash *name, struct why *why) MUST_CHECK;

/* Names in ascending order, caller frees. */
enum err blob_list(
	const struct blob_store *s, struct hash **names, size_t *count, struct why *why) MUST_CHECK;
uint64_t blob_total(const struct blob_store *s); /* bytes of blobs and parts */

/* ---- fetching */
struct blob_part;

/* Starts, or goes on with, the download of a blob of size bytes; the store outlives it.  ERR_exists
 * when the blob is there, ERR_toobig beyond BLOB_MAX, ERR_full beyond the cap or the disk, ERR_busy
 * when it is open already. */
enum err blob_part_open(struct blob_store *s, const struct hash *name, uint64_t size,
	struct blob_part **out, struct why *why) MUST_CHECK;
uint64_t blob_part_have(const struct blob_part *p); /* bytes so far: where to go on */
/* The next bytes; ERR_toobig beyond size. */
enum err blob_part_put(
	struct blob_part *p, const void *bytes, size_t n, struct why *why) MUST_CHECK;
/* All there and true: it becomes a blob.  ERR_truncated keeps the part; ERR_hash removes it.  Ends
 * p in every case. */
enum err blob_part_commit(struct blob_part *p, struct why *why) MUST_CHECK;
void blob_part_close(struct blob_part *p); /* keeps what there is; NULL-safe */

#endif
