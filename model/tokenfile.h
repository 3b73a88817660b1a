/*
 * A token shard: the ids of one stretch of text as a file.
 *
 *   8 bytes "SHOALTOK", u32 version, u32 width, u64 count, then count ids of width bytes
 *
 * Little-endian; width is 1 for a vocabulary of at most 256 ids, 2 up to 65536, else
 * 4.  The SHA-256 of the whole
 * is the shard's name.
 */
#ifndef MODEL_TOKENFILE_H
#define MODEL_TOKENFILE_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

#define TOKENFILE_VERSION 1
#define TOKENFILE_HEAD 24u

struct tokenfile {
	uint32_t width;
	uint64_t count;
	const uint8_t *ids; /* borrowed from the bytes; not aligned */
};

uint32_t tokenfile_width(uint32_t vocab); /* 1, 2 or 4 */
/* Appends the file's bytes to out (check buf_ok); every id must fit in width bytes. */
void tokenfile_write(struct buf *out, uint32_t width, const uint32_t *ids, size_t n);
/* Checks head and length; name is what the sentence calls the file. */
enum err tokenfile_parse(const char *name, const void *bytes, size_t n, struct tokenfile *out,
	struct why *why) MUST_CHECK;
/* n ids from first on; the range must lie within count.  Ids of width 4 from 2^31 up come out
 * negative. */
void tokenfile_ids(const struct tokenfile *f, uint64_t first, size_t n, int32_t *out);

#endif
