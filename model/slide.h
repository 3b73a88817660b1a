/* How many places a window takes as it slides over one dimension. */
#ifndef MODEL_SLIDE_H
#define MODEL_SLIDE_H
#include <stdint.h>
#include "base/err.h"

#define SLIDE_MAX (1u << 16) /* of stride and pad */

/* (size + 2 pad - window) / stride + 1; ERR_range when it does not fit once, or stride is 0. */
static inline enum err slide(
	uint32_t size, uint32_t window, uint32_t stride, uint32_t pad, uint32_t *places)
{
	uint64_t room = (uint64_t)size + 2 * (uint64_t)pad;
	if (!window || !stride || stride > SLIDE_MAX || pad > SLIDE_MAX || room < window)
		return ERR_range;
	*places = (uint32_t)((room - window) / stride + 1);
	return ERR_OK;
}

#endif
