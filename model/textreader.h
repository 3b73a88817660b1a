/*
 * Text files, in the given order as one text, in stretches that end where a piece does: what is
 * made of the stretches one by one is what would be made of the whole text.  Memory does not grow
 * with the text.
 */
#ifndef MODEL_TEXTREADER_H
#define MODEL_TEXTREADER_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "model/split.h"

struct textreader {
	const char *const *paths; /* borrowed */
	size_t n_paths;
	size_t next; /* file to open */
	int fd;      /* -1: none open */
	uint64_t at, total;
	uint8_t *window;
};

/* Looks at the files: ERR_usage for one that is no regular file, ERR_range when all are empty.
 * Release after a failure too. */
enum err textreader_init(
	struct textreader *r, const char *const *paths, size_t n_paths, struct why *why) MUST_CHECK;
void textreader_release(struct textreader *r); /* idempotent */
void textreader_rewind(struct textreader *r);

typedef enum err textreader_sink(void *arg, const uint8_t *bytes, size_t n);
/* Gives the next `bytes` bytes to sink, the first failure of which ends the walk.  ERR_truncated
 * when the files have fewer. */
enum err textreader_walk(struct textreader *r, enum split rule, uint64_t bytes,
	textreader_sink *sink, void *arg, struct why *why) MUST_CHECK;

#endif
