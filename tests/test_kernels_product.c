/*
 * Matrix products by either library and in either precision against the definition in double:
 * every direction of "linear" at sizes that fit no tile, and the same bits for any number of
 * threads; plug-ins that must be refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/plugin.h"

struct setting {
	bool plugin, bf16;
	unsigned threads;
};

static const char *plugin_path(void)
{
	static char path[PATH_MAX];
	return plugin_find(path, sizeof path);
}

static struct device *open_cpu(struct setting s)
{
	struct device *d = NULL;
	struct why why = {0};
	const struct backend_config config = {
		.threads = s.threads, .precision = s.bf16 ? PRECISION_bf16 : PRECISION_float32};
	if (cpu_open_with(&config, s.plugin ? plugin_path() : NULL, &d, &why))
		fail_msg("%s", why.text);
	return d;
}

static void need_plugin(bool bf16)
{
	if (!plugin_path())
		skip();
	struct device *d = open_cpu((struct setting){.plugin = true, .threads = 1});
	bool has = !bf16 || d->products.has_bf16;
	assert_non_null(d->products.plugin);
	cpu_backend.close(d);
	if (!has)
		skip();
}

/* ---- one linear, forward and backward, on any backend */

struct dims {
	uint32_t rows, in, out;
	bool bias, again; /* again: gradients are added to what is there */
};

enum { Y, GRAD_X, GRAD_WEIGHT, GRAD_BIAS, RESULTS };

struct result {
	double *at[RESULTS];
	size_t n[RESULTS];
};

static double made_up(size_t i, unsigned seed, bool positive)
{
	uint32_t mixed = ((uint32_t)i * 7 + seed) * 2654435761u;
	double x = (double)(float)(mixed >> 8) / (1 << 23) - 1;
	return positive ? fabs(x) : x;
}

static struct view place(
	const struct backend *b, struct device *d, size_t n, unsigned seed, bool positive)
{
	struct view v = {0};
	assert_int_equal(b->alloc(d, n * b->real_size, &v.mem), ERR_OK);
	double *wide = alloc_must(n * sizeof *wide);
	float *narrow = alloc_must(n * sizeof *narrow);
	for (size_t i = 0; i < n; i++) {
		wide[i] = made_up(i, seed, positive);
		narrow[i] = (float)wide[i];
	}
	b->write(d, v.mem, 0, b->real_size == sizeof *wide ? (void *)wide : (void *)narrow,
		n * b->real_size);
	free(wide);
	free(narrow);
	return v;
}

static double *fetch(const struct backend *b, struct device *d, struct view v, size_t n)
{
	double *wide = alloc_must(n * sizeof *wide);
	float *narrow = alloc_must(n * sizeof *narrow);
	bool doubles = b->real_size == sizeof *wide;
	b->read(d, v.mem, 0, doubles ? (void *)wide : (void *)narrow, n * b->real_size);
	for (size_t i = 0; i < n && !doubles; i++)
		wide[i] = (double)narrow[i];
	free(narrow);
	return wide;
}

static struct graph *graph_of(const struct dims *m)
{
	struct graph *g = graph_new(1, m->rows);
	const struct shape x = shape_make(3, 1, m->rows, m->in, 1);
	const struct shape w = shape_make(2, m->out, m->in, 1, 1);
	const struct shape b = shape_make(1, m->out, 1, 1, 1);
	uint32_t in[3] = {graph_input(g, "x", &x, DTYPE_real), graph_input(g, "w", &w, DTYPE_real),
		graph_input(g, "b", &b, DTYPE_real)};
	graph_node(g, 0, OP_linear, in, m->bias ? 3 : 2, NULL);
	return g;
}

/* positive: of the magnitudes of the same numbers, which gives what rounding is measured by. */
static struct result compute(
	const struct backend *b, struct device *d, const struct dims *m, bool positive)
{
	struct graph *g = graph_of(m);
	size_t x = (size_t)m->rows * m->in, w = (size_t)m->out * m->in,
	       y = (size_t)m->rows * m->out;
	const size_t inputs[] = {x, w, m->out};
	struct kernel_call c = {.graph = g, .node = &g->nodes[0], .train = true};
	struct result r = {.n = {y, x, w, m->bias ? m->out : 0}};
	struct view of[RESULTS];
	for (unsigned i = 0; i < (m->bias ? 3 : 2); i++)
		c.in[i] = place(b, d, inputs[i], i + 1, positive);
	c.out = of[Y] = place(b, d, y, 9, positive);
	b->run(d, &c);
	r.at[Y] = fetch(b, d, c.out, y);
	struct kernel_call back = c;
	back.backward = true;
	back.out = (struct view){0};
	back.grad_out = place(b, d, y, 5, positive);
	back.accumulate = m->again ? 7 : 0;
	for (unsigned i = 0; i < (m->bias ? 3 : 2); i++)
		back.grad_in[i] = of[GRAD_X + i] = place(b, d, inputs[i], i + 11, positive);
	b->run(d, &back);
	for (unsigned i = 0; i < (m->bias ? 3 : 2); i++) {
		r.at[GRAD_X + i] = fetch(b, d, back.grad_in[i], inputs[i]);
		b->free(d, back.grad_in[i].mem);
		b->free(d, c.in[i].mem);
	}
	b->free(d, c.out.mem);
	b->free(d, back.grad_out.mem);
	graph_free(g);
	return r;
}

static void result_release(struct result *r)
{
	for (int i = 0; i < RESULTS; i++)
		free(r->at[i]);
}

/* ---- against the definition */

static const struct dims sizes[] = {{1, 1, 1, true, false}, {1, 70, 130, true, false},
	{65, 1, 7, false, true}, {3, 200, 5, true, true}, {300, 70, 130, false, false},
	{257, 131, 333, true, true}, {64, 1100, 97, true, false}, {97, 96, 4200, false, true},
	{1030, 65, 200, true, true}};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Errors relative to the sum of the magnitudes that are added up.  float32's own grows as the
 * square root of the number of terms, half a unit (6e-8) each: 4e-6 at the 4200 of the longest
 * here. Rounding both factors to bfloat16 gives at most 2^-8 and a little. */
#define FLOAT32_BOUND 4e-6
#define BF16_BOUND (1.02 / 256)

static void compare(struct setting how, const struct dims *m, double bound)
{
	static const char *const names[] = {"y", "grad x", "grad weight", "grad bias"};
	struct why why = {0};
	struct device *wide = NULL, *d = open_cpu(how);
	assert_int_equal(
		ref64_backend.open(&(struct backend_config){.threads = 1}, &wide, &why), ERR_OK);
	struct result is = compute(&cpu_backend, d, m, false);
	struct result must = compute(&ref64_backend, wide, m, false);
	struct result size = compute(&ref64_backend, wide, m, true);
	for (int i = 0; i < RESULTS; i++)
		for (size_t k = 0; k < is.n[i]; k++)
			if (!(fabs(is.at[i][k] - must.at[i][k]) <= bound * size.at[i][k]))
				fail_msg("%ux%ux%u: %s[%zu] is %.9g and must be %.9g", m->rows,
					m->in, m->out, names[i], k, is.at[i][k], must.at[i][k]);
	result_release(&is);
	result_release(&must);
	result_release(&size);
	ref64_backend.close(wide);
	cpu_backend.close(d);
}

static void float32_by_cblas(void **state)
{
	(void)state;
	for (int i = 0; i < SIZES; i++)
		compare((struct setting){.threads = 2}, &sizes[i], FLOAT32_BOUND);
}

static void float32_by_the_plugin(void **state)
{
	(void)state;
	need_plugin(false);
	for (int i = 0; i < SIZES; i++)
		compare((struct setting){.plugin = true, .threads = 2}, &sizes[i], FLOAT32_BOUND);
}

static void bf16_by_the_plugin(void **state)
{
	(void)state;
	need_plugin(true);
	for (int i = 0; i < SIZES; i++)
		compare((struct setting){true, true, 2}, &sizes[i], BF16_BOUND);
}

/* What is computed in bf16 differs from float32, or nothing was. */
static void bf16_is_bf16(void **state)
{
	(void)state;
	need_plugin(true);
	const struct dims m = {257, 131, 333, true, false};
	struct result r[2];
	for (int i = 0; i < 2; i++) {
		struct device *d = open_cpu((struct setting){true, i == 1, 1});
		r[i] = compute(&cpu_backend, d, &m, false);
		cpu_backend.close(d);
	}
	for (int i = Y; i < GRAD_BIAS; i++)
		assert_int_not_equal(memcmp(r[0].at[i], r[1].at[i], r[0].n[i] * sizeof(double)), 0);
	assert_memory_equal(
		r[0].at[GRAD_BIAS], r[1].at[GRAD_BIAS], r[0].n[GRAD_BIAS] * sizeof(double));
	result_release(&r[0]);
	result_release(&r[1]);
}

static void same_bits(bool plugin, bool bf16)
{
	for (int i = 4; i < SIZES; i++) {
		struct result first = {0};
		for (unsigned threads = 1; threads <= 3; threads++) {
			struct device *d = open_cpu((struct setting){plugin, bf16, threads});
			struct result r = compute(&cpu_backend, d, &sizes[i], false);
			cpu_backend.close(d);
			if (threads == 1) {
				first = r;
				continue;
			}
			for (int k = 0; k < RESULTS; k++)
				if (first.n[k])
					assert_memory_equal(
						r.at[k], first.at[k], first.n[k] * sizeof(double));
			result_release(&r);
		}
		result_release(&first);
	}
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
	(void)state;
	same_bits(false, false);
}

static void also_by_the_plugin(void **state)
{
	(void)state;
	need_plugin(false);
	same_bits(true, false);
}

static void also_in_bf16(void **state)
{
	(void)state;
	need_plugin(true);
	same_bits(true, true);
}

/* ---- rounding */

static uint16_t nearest(float x)
{
	if (isnan(x))
		return 0;
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	uint32_t rest = bits & 0xffff, up = bits >> 16;
	return (uint16_t)(up + (rest > 0x8000 || (rest == 0x8000 && up & 1)));
}

static void to_bf16_rounds_to_nearest_even(void **state)
{
	(void)state;
	enum { N = 4099 };
	static float x[N];
	static uint16_t y[N + 1];
	for (size_t i = 0; i < N; i++) {
		uint32_t bits = (uint32_t)i * 2654435761u;
		bits = i % 3 ? bits : (bits & 0xffff0000u) | 0x8000u; /* ties */
		memcpy(&x[i], &bits, sizeof bits);
	}
	x[N - 1] = NAN;
	x[N - 2] = INFINITY;
	x[N - 3] = 1e-40f;
	for (size_t v = 0; cpu_vec_at(v); v++) {
		y[N] = 0x1234;
		cpu_vec_at(v)->to_bf16(y, x, N);
		assert_int_equal(y[N], 0x1234);
		for (size_t i = 0; i < N; i++)
			if (isnan(x[i]))
				assert_true((y[i] & 0x7f80) == 0x7f80 && (y[i] & 0x7f));
			else
				assert_int_equal(y[i], nearest(x[i]));
	}
}

/* ---- plug-ins that are not taken */

static void refused(const char *path, const char *reason)
{
	struct device *d = NULL;
	struct why why = {0};
	char text[400];
	const struct backend_config config = {.threads = 1, .precision = PRECISION_bf16};
	assert_int_equal(cpu_open_with(&config, path, &d, &why), ERR_OK);
	cpu_backend.describe(d, text, sizeof text);
	if (d->products.plugin || !strstr(text, reason) || !strstr(text, "no bf16 here"))
		fail_msg("%s: %s", path ? path : "none", text);
	cpu_backend.close(d);
}

static void what_is_no_plugin_is_refused_with_a_reason(void **state)
{
	(void)state;
	char path[] = "/tmp/shoal-plugin-XXXXXX", other[PATH_MAX];
	refused(NULL, "no libexec/shoal/");
	refused("/nonexistent/shoal-onednn.so", "No such file");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	refused(path, "cut off or damaged");
	assert_int_equal(write(fd, "garbage, and enough of it to have a header\n", 43), 43);
	for (int i = 0; i < 100; i++)
		assert_int_equal(write(fd, path, sizeof path), sizeof path);
	close(fd);
	refused(path, "cut off or damaged");
	unlink(path);
	ssize_t n = readlink("/proc/self/exe", other, sizeof other - 1);
	assert_true(n > 0);
	other[n] = 0;
	assert_true(snprintf(strrchr(other, '/'), 32, "/plugin_wrong.so") < 32);
	refused(other, "of another version");
}

/* ---- a library that computes wrongly */

static void wrong_product(struct library *l, unsigned thread, const struct product *p)
{
	(void)l;
	(void)thread;
	for (uint64_t i = 0; i < p->m; i++)
		memset(p->c + i * p->c_step, 0, p->n * sizeof *p->c);
}

static void wrong_describe(const struct library *l, char *out, size_t size)
{
	(void)l;
	snprintf(out, size, "liar 1.0");
}

static void a_library_that_computes_wrongly_is_noticed(void **state)
{
	(void)state;
	char why[200];
	const struct provider liar = {.product = wrong_product, .describe = wrong_describe};
	assert_false(plugin_check(&liar, NULL, why, sizeof why));
	assert_string_equal(why, "liar 1.0 computes wrongly in float32");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(float32_by_cblas),
		cmocka_unit_test(float32_by_the_plugin),
		cmocka_unit_test(bf16_by_the_plugin),
		cmocka_unit_test(bf16_is_bf16),
		cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
		cmocka_unit_test(also_by_the_plugin),
		cmocka_unit_test(also_in_bf16),
		cmocka_unit_test(to_bf16_rounds_to_nearest_even),
		cmocka_unit_test(what_is_no_plugin_is_refused_with_a_reason),
		cmocka_unit_test(a_library_that_computes_wrongly_is_noticed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
