#include "model/shape.h"
#include <stdio.h>
#include <string.h>

struct shape shape_make(uint32_t rank, uint32_t d0, uint32_t d1, uint32_t d2, uint32_t d3)
{
	struct shape s = {rank, {d0, d1, d2, d3}};
	for (uint32_t i = rank; i < SHAPE_RANK; i++)
		s.dim[i] = 1;
	return s;
}

uint64_t shape_count(const struct shape *s)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < s->rank; i++)
		if (__builtin_mul_overflow(n, s->dim[i], &n))
			return UINT64_MAX;
	return n;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
	return a->rank == b->rank && !memcmp(a->dim, b->dim, sizeof a->dim);
}

uint32_t shape_last(const struct shape *s)
{
	return s->rank ? s->dim[s->rank - 1] : 1;
}

uint64_t shape_rows(const struct shape *s)
{
	return s->rank ? shape_count(s) / s->dim[s->rank - 1] : 1;
}

void shape_text(const struct shape *s, char out[static SHAPE_TEXT])
{
	size_t at = 0;
	out[at++] = '[';
	for (uint32_t i = 0; i < s->rank; i++)
		at += (size_t)snprintf(out + at, SHAPE_TEXT - at, i ? ",%u" : "%u", s->dim[i]);
	out[at++] = ']';
	out[at] = 0;
}
