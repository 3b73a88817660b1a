/*
 * The one container for everything binary that is saved (snapshots, a peer's local state):
 *
 *   8 bytes "SHOALSTA", u32 version, u32 length of meta, kind (16 bytes, zero-padded), run id (32)
 *   meta, a JSON object
 *   sections: name (64 bytes, zero-padded), u64 length, bytes
 *   end: 64 zero bytes, u64 number of sections
 *   SHA-256 of all before
 *
 * Little-endian.  Meta and each section are padded with zeros to a multiple of 8, so that arrays in
 * a mapped file are aligned.  Written through a temporary name; every length is checked on reading.
 *
 * Codes of a refusal, each with a sentence: ERR_magic (another kind of file), ERR_version,
 * ERR_truncated, ERR_hash (damaged), ERR_wrong_run, ERR_syntax (whole, but not well-formed).
 */
#ifndef MODEL_STATEFILE_H
#define MODEL_STATEFILE_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"

#define STATEFILE_VERSION 1
#define STATEFILE_KIND_MAX 16
#define STATEFILE_NAME_MAX 64
#define STATEFILE_META_MAX (1u << 20)
#define STATEFILE_SECTIONS_MAX 65536u

/* ---- writing */
struct statefile_out;

struct statefile_head {
	const char *kind; /* 1 to STATEFILE_KIND_MAX characters */
	struct hash run;
	const json_t *meta; /* an object; borrowed */
};

enum err statefile_create(const char *path, const struct statefile_head *head,
	struct statefile_out **out, struct why *why) MUST_CHECK;
/* Starts a section of n bytes, which the following puts must fill. */
enum err statefile_section(
	struct statefile_out *f, const char *name, uint64_t n, struct why *why) MUST_CHECK;
enum err statefile_put(
	struct statefile_out *f, const void *bytes, size_t n, struct why *why) MUST_CHECK;
/* A section at once. */
enum err statefile_add(struct statefile_out *f, const char *name, const void *bytes, size_t n,
	struct why *why) MUST_CHECK;
/* ERR_state when a section is not filled; f is gone in any case. */
enum err statefile_commit(struct statefile_out *f, struct why *why) MUST_CHECK;
void statefile_discard(struct statefile_out *f); /* NULL-safe */

/* ---- reading */
struct statefile;

struct statefile_section {
	char name[STATEFILE_NAME_MAX + 1];
	const uint8_t *bytes; /* 8-byte aligned in a mapped file */
	size_t len;
};

/* kind must be equal; run may be NULL: any. */
enum err statefile_open(const char *path, const char *kind, const struct hash *run,
	struct statefile **out, struct why *why) MUST_CHECK;
/* From memory; bytes are borrowed, name is what the sentences call them. */
struct statefile_bytes {
	const char *name;
	const uint8_t *bytes;
	size_t len;
};
enum err statefile_parse(const struct statefile_bytes *from, const char *kind,
	const struct hash *run, struct statefile **out, struct why *why) MUST_CHECK;
void statefile_close(struct statefile *s); /* NULL-safe */

const char *statefile_kind(const struct statefile *s);
struct hash statefile_run(const struct statefile *s);
const json_t *statefile_meta(const struct statefile *s); /* an object, lives as long as s */
size_t statefile_count(const struct statefile *s);
const struct statefile_section *statefile_at(const struct statefile *s, size_t i);
/* A section by name; ERR_missing when there is none, ERR_shape when it has not len bytes. */
enum err statefile_find(const struct statefile *s, const char *name, size_t len,
	const uint8_t **bytes, struct why *why) MUST_CHECK;

/* ---- series: DIR/PREFIX-NUMBER.state */
struct statefile_series {
	const char *dir, *prefix, *kind;
	const struct hash *run; /* may be NULL */
};

/* The path of one file; caller frees. */
char *statefile_path(const struct statefile_series *series, uint64_t number);
/* Opens the one with the highest number that is whole, of the kind and of the run.  Those passed
 * over are named in passed, a line each with the reason.  ERR_missing when there is no file at all;
 * when there are only bad ones, the code and sentence of the newest.  A file that cannot be read at
 * all (ERR_io, ERR_permission, ERR_nomem) is not passed over. */
enum err statefile_open_newest(const struct statefile_series *series, struct statefile **out,
	uint64_t *number, struct buf *passed, struct why *why) MUST_CHECK;
/* Removes what writers of the series that were killed left; for the folder's owner at start. */
void statefile_sweep(const struct statefile_series *series);
/* Removes all but the keep highest numbers; failure to remove is not an error. */
void statefile_prune(const struct statefile_series *series, size_t keep);

#endif
