#include "kernels/cpu/vec.h"

#ifdef __x86_64__
static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const struct vec *cpu_vec_at(size_t i)
{
	const struct vec *can[3];
	size_t n = 0;
	__builtin_cpu_init();
	if (has_avx2() && has_avx512())
		can[n++] = &cpu_vec_avx512;
	if (has_avx2())
		can[n++] = &cpu_vec_avx2;
	can[n++] = &cpu_vec_plain;
	return i < n ? can[i] : NULL;
}
#else
const struct vec *cpu_vec_at(size_t i)
{
	return i == 0 ? &cpu_vec_plain : NULL;
}
#endif
