/*
 * The fast CPU backend as a device: its self-test must notice a loop that computes wrongly, its
 * norm must tell what is not finite, and opening it survives a lack of memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "base/alloc.h"
#include "kernels/cpu/cpu.h"

static void wrong_gelu(float *to, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = x[i] > 0 ? x[i] : 0;
}

static float wrong_dot(const float *x, const float *w, size_t n)
{
	return cpu_vec_plain.dot(x, w, n) + 0.01f;
}

static void wrong_adamw(const struct vec_moments *at, const struct vec_adamw *k, size_t n)
{
	struct vec_adamw other = *k;
	other.decay = 1;
	cpu_vec_plain.adamw(at, &other, n);
}

static void a_wrong_loop_is_noticed(void **state)
{
	(void)state;
	struct device *d = NULL;
	struct why why = {0};
	assert_int_equal(
		cpu_backend.open(&(struct backend_config){.threads = 1}, &d, &why), ERR_OK);
	assert_int_equal(cpu_selftest(d, &why), ERR_OK);
	struct vec wrong[3];
	for (int i = 0; i < 3; i++)
		wrong[i] = cpu_vec_plain;
	wrong[0].gelu = wrong_gelu;
	wrong[1].dot = wrong_dot;
	wrong[2].adamw = wrong_adamw;
	for (int i = 0; i < 3; i++) {
		d->vec = &wrong[i];
		assert_int_equal(cpu_selftest(d, &why), ERR_unsupported);
		assert_non_null(strstr(why.text, "self-test"));
	}
	for (size_t i = 0; cpu_vec_at(i); i++) {
		d->vec = cpu_vec_at(i);
		assert_int_equal(cpu_selftest(d, &why), ERR_OK);
	}
	cpu_backend.close(d);
}

static void norm_tells_what_is_not_finite(void **state)
{
	(void)state;
	struct device *d = NULL;
	struct view v = {0};
	struct why why = {0};
	float x[40] = {0};
	assert_int_equal(
		cpu_backend.open(&(struct backend_config){.threads = 2}, &d, &why), ERR_OK);
	assert_int_equal(cpu_backend.alloc(d, sizeof x, &v.mem), ERR_OK);
	x[37] = NAN;
	cpu_backend.write(d, v.mem, 0, x, sizeof x);
	assert_true(isnan(cpu_backend.norm2(d, v, 40)));
	assert_true(cpu_backend.norm2(d, v, 37) == 0);
	x[37] = -INFINITY;
	cpu_backend.write(d, v.mem, 0, x, sizeof x);
	assert_true(isinf(cpu_backend.norm2(d, v, 40)));
	cpu_backend.free(d, v.mem);
	cpu_backend.close(d);
}

static void describes_itself(void **state)
{
	(void)state;
	struct device *d = NULL;
	struct why why = {0};
	char text[200];
	assert_int_equal(
		cpu_backend.open(&(struct backend_config){.threads = 2}, &d, &why), ERR_OK);
	cpu_backend.describe(d, text, sizeof text);
	assert_int_equal(strncmp(text, "cpu: 2 threads, ", 16), 0);
	assert_non_null(strstr(text, cpu_vec_at(0)->isa));
	cpu_backend.close(d);
}

static void open_survives_failed_allocations(void **state)
{
	(void)state;
	for (long n = 1;; n++) {
		struct device *d = NULL;
		struct why why = {0};
		alloc_fail_at(n);
		enum err e = cpu_backend.open(&(struct backend_config){.threads = 2}, &d, &why);
		bool tried = alloc_tries() >= n;
		alloc_fail_at(0);
		if (!tried) {
			assert_int_equal(e, ERR_OK);
			cpu_backend.close(d);
			return;
		}
		assert_int_equal(e, ERR_nomem);
		assert_null(d);
		assert_true(why.text[0] != 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrong_loop_is_noticed),
		cmocka_unit_test(norm_tells_what_is_not_finite),
		cmocka_unit_test(describes_itself),
		cmocka_unit_test(open_survives_failed_allocations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
