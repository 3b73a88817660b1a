/*
 * The plug-in shoal-onednn.so: oneDNN's products for the cpu backend, by kernels/cpu/provider.h.
 * Debian's library computes with OpenMP, so each of our threads that comes here first says that it
 * wants no others: then no thread of libgomp is ever started, and none spins.
 */
#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include "kernels/cpu/provider.h"
#include "kernels/onednn/kept.h"

struct library {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	unsigned threads;
	struct kept_table tables[]; /* one of each thread */
};

/* For what fails only without memory. */
static void must(dnnl_status_t status)
{
	if (status == dnnl_success)
		return;
	fprintf(stderr, "shoal: oneDNN fails with status %d: out of memory?\n", (int)status);
	abort();
}

/* ---- shapes */

static dnnl_memory_desc_t strided(
	dnnl_data_type_t type, uint64_t rows, uint64_t columns, uint64_t step, bool turned)
{
	dnnl_memory_desc_t md;
	const dnnl_dims_t dims = {(int64_t)rows, (int64_t)columns};
	const dnnl_dims_t strides = {turned ? 1 : (int64_t)step, turned ? (int64_t)step : 1};
	must(dnnl_memory_desc_init_by_strides(&md, 2, dims, type, strides));
	return md;
}

static void set_memory(struct kept *k, int which, const dnnl_memory_desc_t *md, dnnl_engine_t e)
{
	must(dnnl_memory_create(&k->memory[which], md, e, DNNL_MEMORY_NONE));
}

static dnnl_primitive_desc_t product_desc(const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b,
	const dnnl_memory_desc_t *c, bool add, dnnl_engine_t e)
{
	dnnl_matmul_desc_t desc;
	dnnl_primitive_attr_t attr;
	dnnl_post_ops_t ops;
	dnnl_primitive_desc_t pd;
	must(dnnl_matmul_desc_init(&desc, a, b, NULL, c));
	must(dnnl_primitive_attr_create(&attr));
	must(dnnl_post_ops_create(&ops));
	if (add) {
		must(dnnl_post_ops_append_sum(ops, 1));
		must(dnnl_primitive_attr_set_post_ops(attr, ops));
	}
	must(dnnl_primitive_desc_create(&pd, &desc, attr, e, NULL));
	dnnl_post_ops_destroy(ops);
	dnnl_primitive_attr_destroy(attr);
	return pd;
}

static void make_float32(struct kept *k, dnnl_engine_t e)
{
	const struct kept_key *y = &k->key;
	dnnl_memory_desc_t a = strided(dnnl_f32, y->m, y->k, y->a_step, y->a_turned);
	dnnl_memory_desc_t b = strided(dnnl_f32, y->k, y->n, y->b_step, y->b_turned);
	dnnl_memory_desc_t c = strided(dnnl_f32, y->m, y->n, y->c_step, false);
	dnnl_primitive_desc_t pd = product_desc(&a, &b, &c, y->add, e);
	must(dnnl_primitive_create(&k->primitive, pd));
	dnnl_primitive_desc_destroy(pd);
	set_memory(k, KEPT_A, &a, e);
	set_memory(k, KEPT_B, &b, e);
	set_memory(k, KEPT_C, &c, e);
}

/* The library's own order of a second factor [k,n].  It is asked for with a fixed number of rows
 * of the first, so that one packing serves any. */
static dnnl_memory_desc_t packed(uint64_t k, uint64_t n, dnnl_engine_t e)
{
	enum { ROWS = 256 };
	dnnl_memory_desc_t a = strided(dnnl_bf16, ROWS, k, k, false), b;
	dnnl_memory_desc_t c = strided(dnnl_f32, ROWS, n, n, false);
	const dnnl_dims_t dims = {(int64_t)k, (int64_t)n};
	must(dnnl_memory_desc_init_by_tag(&b, 2, dims, dnnl_bf16, dnnl_format_tag_any));
	dnnl_primitive_desc_t pd = product_desc(&a, &b, &c, false, e);
	b = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
	dnnl_primitive_desc_destroy(pd);
	if (dnnl_memory_desc_get_size(&b) > provider_packed(k, n) * sizeof(uint16_t)) {
		fputs("shoal: oneDNN packs into more memory than was promised\n", stderr);
		abort();
	}
	return b;
}

static void make_bf16(struct kept *k, dnnl_engine_t e)
{
	const struct kept_key *y = &k->key;
	dnnl_memory_desc_t a = strided(dnnl_bf16, y->m, y->k, y->a_step, false);
	dnnl_memory_desc_t b = packed(y->k, y->n, e);
	dnnl_memory_desc_t c = strided(dnnl_f32, y->m, y->n, y->n, false);
	dnnl_primitive_desc_t pd = product_desc(&a, &b, &c, false, e);
	must(dnnl_primitive_create(&k->primitive, pd));
	dnnl_primitive_desc_destroy(pd);
	set_memory(k, KEPT_A, &a, e);
	set_memory(k, KEPT_B, &b, e);
	set_memory(k, KEPT_C, &c, e);
}

static void make_reorder(struct kept *k, const dnnl_memory_desc_t *from,
	const dnnl_memory_desc_t *to, dnnl_engine_t e)
{
	dnnl_primitive_desc_t pd;
	must(dnnl_reorder_primitive_desc_create(&pd, from, e, to, e, NULL));
	must(dnnl_primitive_create(&k->primitive, pd));
	dnnl_primitive_desc_destroy(pd);
	set_memory(k, KEPT_A, from, e);
	set_memory(k, KEPT_C, to, e);
}

static void make_pack(struct kept *k, dnnl_engine_t e)
{
	const struct kept_key *y = &k->key;
	dnnl_memory_desc_t from = strided(dnnl_bf16, y->k, y->n, y->b_step, y->b_turned);
	dnnl_memory_desc_t to = packed(y->k, y->n, e);
	make_reorder(k, &from, &to, e);
}

static void make_turn(struct kept *k, dnnl_engine_t e)
{
	const struct kept_key *y = &k->key;
	dnnl_memory_desc_t from = strided(dnnl_bf16, y->n, y->m, y->a_step, true);
	dnnl_memory_desc_t to = strided(dnnl_bf16, y->n, y->m, y->m, false);
	make_reorder(k, &from, &to, e);
}

/* ---- running them */

static _Thread_local bool alone; /* this thread has told OpenMP so */

static struct kept *find(
	struct library *l, unsigned thread, const struct kept_key *key, kept_make_fn *make)
{
	if (!alone) {
		omp_set_num_threads(1);
		alone = true;
	}
	return kept_find(&l->tables[thread], key, make, l->engine);
}

static dnnl_exec_arg_t arg(struct kept *k, int which, int name, const void *at)
{
	must(dnnl_memory_set_data_handle(k->memory[which], (void *)(uintptr_t)at));
	return (dnnl_exec_arg_t){name, k->memory[which]};
}

static void multiply(struct library *l, struct kept *k, const void *a, const void *b, void *c)
{
	const dnnl_exec_arg_t args[] = {arg(k, KEPT_A, DNNL_ARG_SRC, a),
		arg(k, KEPT_B, DNNL_ARG_WEIGHTS, b), arg(k, KEPT_C, DNNL_ARG_DST, c)};
	must(dnnl_primitive_execute(k->primitive, l->stream, 3, args));
}

static void reorder(struct library *l, struct kept *k, const void *from, void *to)
{
	const dnnl_exec_arg_t args[] = {
		arg(k, KEPT_A, DNNL_ARG_FROM, from), arg(k, KEPT_C, DNNL_ARG_TO, to)};
	must(dnnl_primitive_execute(k->primitive, l->stream, 2, args));
}

static void onednn_product(struct library *l, unsigned thread, const struct product *p)
{
	const struct kept_key key = {.kind = KEPT_float32,
		.m = p->m,
		.n = p->n,
		.k = p->k,
		.a_step = p->a.step,
		.b_step = p->b.step,
		.c_step = p->c_step,
		.a_turned = p->a.turned,
		.b_turned = p->b.turned,
		.add = p->add};
	multiply(l, find(l, thread, &key, make_float32), p->a.at, p->b.at, p->c);
}

static void onednn_half_product(struct library *l, unsigned thread, const struct half_product *p)
{
	const struct kept_key key = {
		.kind = KEPT_bf16, .m = p->m, .n = p->n, .k = p->k, .a_step = p->a_step};
	multiply(l, find(l, thread, &key, make_bf16), p->a, p->b, p->c);
}

static void onednn_pack(struct library *l, unsigned thread, const struct half_matrix *b, uint64_t k,
	uint64_t n, uint16_t *to)
{
	const struct kept_key key = {
		.kind = KEPT_pack, .n = n, .k = k, .b_step = b->step, .b_turned = b->turned};
	reorder(l, find(l, thread, &key, make_pack), b->at, to);
}

static void onednn_turn(struct library *l, unsigned thread, const struct half_matrix *from,
	uint64_t rows, uint64_t columns, uint16_t *to)
{
	const struct kept_key key = {
		.kind = KEPT_turn, .m = rows, .n = columns, .a_step = from->step};
	reorder(l, find(l, thread, &key, make_turn), from->at, to);
}

/* ---- life */

static bool onednn_has_bf16(const struct library *l)
{
	(void)l;
	/* Without the instruction oneDNN would compute it, more slowly than float32. */
	switch (dnnl_get_effective_cpu_isa()) {
	case dnnl_cpu_isa_avx512_core_bf16:
	case dnnl_cpu_isa_avx512_core_amx: return true;
	default: return false;
	}
}

static void onednn_describe(const struct library *l, char *out, size_t size)
{
	const dnnl_version_t *v = dnnl_version();
	const char *bf16 = onednn_has_bf16(l) ? ", bf16" : "";
	if (dnnl_get_effective_cpu_isa() == dnnl_cpu_isa_avx512_core_amx)
		bf16 = ", bf16 by AMX";
	snprintf(out, size, "oneDNN %d.%d.%d%s", v->major, v->minor, v->patch, bf16);
}

static void onednn_close(struct library *l)
{
	for (unsigned i = 0; i < l->threads; i++)
		kept_release(&l->tables[i]);
	dnnl_stream_destroy(l->stream);
	dnnl_engine_destroy(l->engine);
	free(l);
}

static struct library *onednn_open(unsigned threads, char *why, size_t size)
{
	struct library *l = calloc(1, sizeof *l + threads * sizeof l->tables[0]);
	if (!l) {
		snprintf(why, size, "out of memory for oneDNN");
		return NULL;
	}
	l->threads = threads;
	dnnl_status_t s = dnnl_engine_create(&l->engine, dnnl_cpu, 0);
	if (!s)
		s = dnnl_stream_create(&l->stream, l->engine, dnnl_stream_default_flags);
	if (s) {
		snprintf(why, size, "oneDNN does not start on this processor (status %d)", (int)s);
		dnnl_engine_destroy(l->engine);
		free(l);
		return NULL;
	}
	return l;
}

__attribute__((visibility("default"))) provider_fn shoal_provider;

const struct provider *shoal_provider(void)
{
	static const struct provider onednn = {
		.abi = PROVIDER_ABI,
		.size = sizeof onednn,
		.open = onednn_open,
		.close = onednn_close,
		.describe = onednn_describe,
		.has_bf16 = onednn_has_bf16,
		.product = onednn_product,
		.pack = onednn_pack,
		.half_product = onednn_half_product,
		.turn = onednn_turn,
	};
	return &onednn;
}
