#include "tests/help_kernels.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "base/rng.h"

struct help_kernels help_kernels_open(const char *backend)
{
	struct help_kernels k = {.backend = backend_find(backend)};
	struct why why = {0};
	assert_non_null(k.backend);
	if (k.backend->open(&(struct backend_config){.threads = 2}, &k.device, &why))
		fail_msg("%s", why.text);
	return k;
}

void help_kernels_close(struct help_kernels *k)
{
	k->backend->close(k->device);
}

void help_kernels_read(const struct help_kernels *k, struct view from, uint64_t n, double *to)
{
	size_t size = k->backend->real_size;
	if (size == sizeof *to) {
		k->backend->read(k->device, from.mem, from.at * size, to, n * size);
		return;
	}
	float *narrow = alloc_must_zero(n + 1, sizeof *narrow);
	k->backend->read(k->device, from.mem, from.at * size, narrow, n * size);
	for (uint64_t i = 0; i < n; i++)
		to[i] = (double)narrow[i];
	free(narrow);
}

void help_kernels_write(
	const struct help_kernels *k, struct view to, uint64_t n, const double *from)
{
	size_t size = k->backend->real_size;
	if (size == sizeof *from) {
		k->backend->write(k->device, to.mem, to.at * size, from, n * size);
		return;
	}
	float *narrow = alloc_must_zero(n + 1, sizeof *narrow);
	for (uint64_t i = 0; i < n; i++)
		narrow[i] = (float)from[i];
	k->backend->write(k->device, to.mem, to.at * size, narrow, n * size);
	free(narrow);
}

struct view help_kernels_alloc(const struct help_kernels *k, uint64_t n)
{
	struct view v = {0};
	enum err e = k->backend->alloc(k->device, n * k->backend->real_size, &v.mem);
	assert_int_equal(e, ERR_OK);
	return v;
}

struct params *help_kernels_params(const struct help_kernels *k, const struct graph *g,
	const uint32_t *shards, uint32_t n_shards, uint64_t seed)
{
	const struct params_config config = {.backend = k->backend,
		.device = k->device,
		.graph = g,
		.shards = shards,
		.n_shards = n_shards,
		.training = true};
	struct params *p = NULL;
	struct why why = {0};
	if (params_new(&config, &p, &why))
		fail_msg("%s", why.text);
	assert_int_equal(params_init(p, g, seed), ERR_OK);
	return p;
}

struct exec *help_kernels_exec(const struct graph *g, struct params *p, enum exec_mode mode)
{
	struct exec *x = NULL;
	struct why why = {0};
	if (exec_new(g, p, mode, &x, &why))
		fail_msg("%s", why.text);
	return x;
}

double *help_kernels_part(
	const struct help_kernels *k, const struct params *p, uint32_t shard, enum params_part part)
{
	uint64_t n = params_count(p, shard);
	double *to = alloc_must_zero(n + 1, sizeof *to);
	help_kernels_read(k, params_view(p, shard, part, 0), n, to);
	return to;
}

int32_t *help_kernels_tokens(const struct graph *g, uint64_t seed)
{
	uint64_t n = (uint64_t)g->batch * g->seq;
	uint32_t vocab = shape_last(&g->tensors[g->logits].shape);
	int32_t *tokens = alloc_must_zero(n, sizeof *tokens);
	for (uint64_t i = 0; i < n; i++)
		tokens[i] = (int32_t)rng_below(seed, 77, i, vocab);
	return tokens;
}

void *help_kernels_images(const struct help_kernels *k, const struct graph *g, uint64_t seed)
{
	uint64_t n = shape_count(&g->tensors[g->images_in].shape);
	double *wide = alloc_must_zero(n, sizeof *wide);
	float *narrow = alloc_must_zero(n, sizeof *narrow);
	for (uint64_t i = 0; i < n; i++) {
		wide[i] = rng_normal(seed, 78, i);
		narrow[i] = (float)wide[i];
	}
	bool is_wide = k->backend->real_size == sizeof *wide;
	free(is_wide ? (void *)narrow : (void *)wide);
	return is_wide ? (void *)wide : (void *)narrow;
}

double help_kernels_distance(const double *a, const double *b, uint64_t n)
{
	double off = 0, size = 0;
	for (uint64_t i = 0; i < n; i++) {
		off += (a[i] - b[i]) * (a[i] - b[i]);
		size += b[i] * b[i];
	}
	return off > 0 || isnan(off) ? sqrt(off / size) : 0;
}
