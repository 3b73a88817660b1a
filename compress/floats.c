#include "compress/floats.h"

/* Sixteen bytes are a register of SSE2 and of NEON, which every processor here has. */
typedef uint32_t lanes __attribute__((vector_size(16)));
#define LANES (sizeof(lanes) / sizeof(uint32_t))

bool floats_all_finite(const float *v, size_t n)
{
	// What must be added to the smallest magnitude that is not finite to reach the sign's bit.
	const uint32_t rest = 0x80000000u - FLOATS_INFINITE;
	lanes a = {0}, b = {0};
	size_t i = 0;
	for (; i + 2 * LANES <= n; i += 2 * LANES) {
		lanes x, y;
		memcpy(&x, v + i, sizeof x);
		memcpy(&y, v + i + LANES, sizeof y);
		a |= (x & 0x7fffffffu) + rest;
		b |= (y & 0x7fffffffu) + rest;
	}
	a |= b;
	uint32_t reached = a[0] | a[1] | a[2] | a[3];
	for (; i < n; i++)
		reached |= floats_magnitude(v[i]) + rest;
	return reached < 0x80000000u;
}
