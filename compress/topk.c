#include "compress/topk.h"

#ifdef __x86_64__
const struct topk *topk_at(size_t i)
{
	const struct topk *can[3];
	size_t n = 0;
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("popcnt"))
		can[n++] = &topk_avx512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt"))
		can[n++] = &topk_avx2;
	can[n++] = &topk_plain;
	return i < n ? can[i] : NULL;
}
#else
const struct topk *topk_at(size_t i)
{
	return i == 0 ? &topk_plain : NULL;
}
#endif

uint32_t topk_select(const float *v, uint32_t n, uint32_t k, uint32_t least, uint16_t *place)
{
	return topk_at(0)->select(v, n, k, least, place);
}
