#include "kernels/cpu/cpu.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/plugin.h"
#include "model/attention_form.h"

static void cpu_close(struct device *d)
{
	if (!d)
		return;
	product_close(&d->products);
	pool_free(d->pool);
	arena_release(&d->scratch);
	arena_release(&d->halves);
	free(d);
}

/* A plug-in that spoils an op is given up, and CBLAS tried. */
static enum err selftest(struct device *d, struct why *why)
{
	enum err e = cpu_selftest(d, why);
	if (e != ERR_unsupported || !d->products.plugin)
		return e;
	product_drop_plugin(&d->products, why->text);
	return cpu_selftest(d, why);
}

static enum err prepare(
	struct device *d, const struct backend_config *config, const char *plugin, struct why *why)
{
	d->vec = cpu_vec_at(0);
	d->pool = pool_new(config->threads);
	unsigned threads = pool_threads(d->pool);
	/* One more for the plug-in, which dies where its library gets no memory for code. */
	if (!blas_has_room(threads + 1))
		return err_why(why, ERR_nomem,
			"cpu: out of memory: the address space has no room for the buffers of %u "
			"threads; allow more (ulimit -v) or fewer threads (--threads)",
			threads);
	product_open(&d->products, plugin, threads);
	if (arena_init(&d->scratch, threads * CPU_SCRATCH * sizeof(float)))
		return err_why(why, ERR_nomem, "cpu: out of memory for %u threads", threads);
	enum err e = selftest(d, why);
	d->wants_bf16 = config->precision == PRECISION_bf16;
	d->bf16 = !e && d->wants_bf16 && d->products.has_bf16;
	/* Address space: what no call needs is never touched. */
	if (d->bf16 && arena_init(&d->halves, CPU_HALF_AREAS * (size_t)CPU_HALF_AREA * 2))
		return err_why(why, ERR_nomem, "cpu: out of memory for products in bf16");
	return e;
}

enum err cpu_open_with(const struct backend_config *config, const char *plugin, struct device **out,
	struct why *why)
{
	struct device *d = alloc_try(1, sizeof *d);
	if (!d)
		return err_why(why, ERR_nomem, "cpu: out of memory for the device");
	enum err err = prepare(d, config, plugin, why);
	if (err) {
		cpu_close(d);
		return err;
	}
	*out = d;
	return ERR_OK;
}

static enum err cpu_open(const struct backend_config *config, struct device **out, struct why *why)
{
	char plugin[PATH_MAX];
	return cpu_open_with(config, plugin_find(plugin, sizeof plugin), out, why);
}

static enum err cpu_alloc(struct device *d, size_t bytes, struct mem **out)
{
	(void)d;
	struct mem *m = alloc_try(1, sizeof *m);
	if (!m)
		return ERR_nomem;
	enum err err = arena_init(&m->arena, bytes);
	if (err) {
		free(m);
		return err;
	}
	*out = m;
	return ERR_OK;
}

static void cpu_free(struct device *d, struct mem *m)
{
	(void)d;
	if (m)
		arena_release(&m->arena);
	free(m);
}

static void cpu_write(struct device *d, struct mem *to, size_t at, const void *from, size_t bytes)
{
	(void)d;
	if (bytes)
		memcpy(to->arena.base + at, from, bytes);
}

static void cpu_read(struct device *d, const struct mem *from, size_t at, void *to, size_t bytes)
{
	(void)d;
	if (bytes)
		memcpy(to, from->arena.base + at, bytes);
}

static void cpu_zero_bytes(struct device *d, struct mem *m, size_t at, size_t bytes)
{
	(void)d;
	memset(m->arena.base + at, 0, bytes);
}

static void (*const kernels[OP_COUNT])(struct device *d, const struct kernel_call *c) = {
#define X(id, name) [OP_##name] = cpu_##name,
	OP_LIST(X)
#undef X
};

/* All of the list.  The library counts rows and columns in ints; a block of attention must fit in
 * scratch. */
static bool cpu_supports(const struct device *d, const struct graph *g, const struct node *n)
{
	(void)d;
	if (n->op == OP_attention && attention_form(g, n).size > CPU_HEAD_MAX)
		return false;
	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct shape *s = &g->tensors[n->in[i]].shape;
		if (shape_rows(s) > INT32_MAX || shape_last(s) > INT32_MAX)
			return false;
	}
	return true;
}

static void cpu_run(struct device *d, const struct kernel_call *call)
{
	kernels[call->node->op](d, call);
}

static uint64_t cpu_own(const struct device *d)
{
	return d->scratch.size + d->halves.size;
}

static void cpu_describe(const struct device *d, char *out, size_t size)
{
	char products[256];
	product_describe(&d->products, products, sizeof products);
	unsigned threads = pool_threads(d->pool);
	const char *precision = "";
	if (d->bf16)
		precision = ", products in bf16";
	else if (d->wants_bf16)
		precision = ", products in float32 (no bf16 here)";
	snprintf(out, size, "cpu: %u thread%s, %s, %s%s", threads, threads == 1 ? "" : "s",
		d->vec->isa, products, precision);
}

const struct backend cpu_backend = {
	.name = "cpu",
	.real_size = sizeof(float),
	.open = cpu_open,
	.close = cpu_close,
	.alloc = cpu_alloc,
	.free = cpu_free,
	.write = cpu_write,
	.read = cpu_read,
	.zero = cpu_zero_bytes,
	.supports = cpu_supports,
	.run = cpu_run,
	.norm2 = cpu_norm2,
	.adamw = cpu_adamw,
	.own = cpu_own,
	.describe = cpu_describe,
};
