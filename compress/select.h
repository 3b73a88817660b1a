/*
 * Which values of a chunk are kept.  Wire numbers: append only.  One row and one file,
 * select_NAME.c, each.
 *
 *   all        every value
 *   topk       the k of largest magnitude
 *   randk      k at places that only (seed, chunk) decide, so that no places are sent
 *   threshold  those of at least threshold times the chunk's root mean square, the k largest of
 *              them where there are more
 *
 * topk and threshold never keep a zero or a subnormal value, so that they may keep fewer than k.
 * Pure, any thread, the same places on every machine.
 */
#ifndef COMPRESS_SELECT_H
#define COMPRESS_SELECT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SELECT_LIST(X) X(1, all) X(2, topk) X(3, randk) X(4, threshold)

enum select {
#define X(number, name) SELECT_##name = number,
	SELECT_LIST(X)
#undef X
};

#define SELECT_CHUNK_MAX 65536u

struct select_from {
	const float *v; /* the chunk's values, finite; NULL for a row that does not look at them */
	uint32_t len;   /* 1 to SELECT_CHUNK_MAX */
	uint32_t k;     /* 1 to len */
	size_t chunk;   /* its number */
	float threshold;
	uint64_t seed;
};

struct select_row {
	const char *name;
	bool sends_places; /* and how many there are */
	bool takes_k, takes_threshold, takes_seed;
	/* The places kept, ascending, into place (room for k); returns how many.  NULL: all. */
	uint32_t (*choose)(const struct select_from *from, uint16_t *place);
};

#define X(number, name) extern const struct select_row select_##name;
SELECT_LIST(X)
#undef X

/* The row of a number; NULL when there is none. */
const struct select_row *select_row(uint32_t number);

#endif
