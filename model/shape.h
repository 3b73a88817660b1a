/* The shape of a tensor: up to four dimensions, the last one contiguous. */
#ifndef MODEL_SHAPE_H
#define MODEL_SHAPE_H
#include <stdbool.h>
#include <stdint.h>

#define SHAPE_RANK 4
#define SHAPE_TEXT 64

struct shape {
	uint32_t rank, dim[SHAPE_RANK]; /* dim beyond rank is 1 */
};

struct shape shape_make(uint32_t rank, uint32_t d0, uint32_t d1, uint32_t d2, uint32_t d3);
uint64_t shape_count(const struct shape *s); /* elements; UINT64_MAX when they are too many */
bool shape_equal(const struct shape *a, const struct shape *b);
/* Elements of the last dimension, and how many such rows there are. */
uint32_t shape_last(const struct shape *s);
uint64_t shape_rows(const struct shape *s);
void shape_text(const struct shape *s, char out[static SHAPE_TEXT]); /* "[4,64,768]" */

#endif
