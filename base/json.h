/*
 * Reading JSON from the outside with jansson: bounded, strict, every mistake collected with its
 * path. A json_in walks one object; the getters note what is missing, mistyped or out of range and
 * go on, so that a caller reads everything and then asks once.  Unknown members are mistakes too.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

/* The document, caller decrefs.  At most max bytes, nesting at most 64, duplicates refused; the
 * sentence names line and column. */
enum err json_parse(
	const void *bytes, size_t n, size_t max, json_t **out, struct why *why) MUST_CHECK;
/* The one text that is hashed and signed: members sorted, no spaces.  Caller frees; NULL when there
 * is no memory. */
char *json_canonical(const json_t *doc);

struct json_in {
	const json_t *object;
	const char *path; /* of this object, "" at the top */
	struct buf
		*mistakes; /* one line each: "train.lr: must be a number from 0 to 1, is \"x\"" */
	const char *seen[64];
	size_t n_seen;
};

/* Start on an object; path and mistakes are borrowed.  Anything but an object is a mistake; NULL
 * (which json_get_object gives when there is none) is silent, and every getter then gives its
 * fallback or zero.  json_verdict says at the end whether all was well. */
void json_in_init(struct json_in *in, const json_t *object, const char *path, struct buf *mistakes);
void json_mistake(struct json_in *in, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Required when fallback is NULL, else optional with that value.  A wrong one is a
 * mistake and gives the fallback, or least (false, "") when there is none. */
int64_t json_get_int(
	struct json_in *in, const char *name, int64_t least, int64_t most, const int64_t *fallback);
double json_get_real(
	struct json_in *in, const char *name, double least, double most, const double *fallback);
bool json_get_flag(struct json_in *in, const char *name, const bool *fallback);
/* Borrowed from the document; "" when missing or wrong. */
const char *json_get_text(
	struct json_in *in, const char *name, size_t max_len, const char *fallback);
/* The index of the text in names (NULL-terminated); 0 when wrong. */
size_t json_get_choice(
	struct json_in *in, const char *name, const char *const *names, const char *fallback);
struct hash json_get_hash(struct json_in *in, const char *name, bool required);
const json_t *json_get_object(
	struct json_in *in, const char *name, bool required); /* NULL when absent */
const json_t *json_get_array(struct json_in *in, const char *name, size_t max_items, bool required);
/* Notes every member that was not asked for. */
void json_in_finish(struct json_in *in);
/* What all that was noted comes to, once everything is read: ERR_OK when that is nothing, else
 * ERR_syntax with "WHAT: one mistake; the next"; ERR_nomem when there was no room to note any. */
enum err json_verdict(const struct buf *mistakes, const char *what, struct why *why) MUST_CHECK;

#endif
