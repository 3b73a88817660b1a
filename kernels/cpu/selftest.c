#include <math.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu.h"
#include "kernels/exec.h"

/*
 * One training step of three tiny models, which have every op in them, here and by the definition.
 * The sizes reach both the whole registers and the rests, a second block of attention, and both
 * ways of a convolution with its columns.
 */
#define TOKENS 98
#define IMAGES 2
#define SIDE 12
#define CLASSES 7

static const struct model_config gpt = {.builder = "gpt",
	.layers = 1,
	.width = 36,
	.heads = 2,
	.context = TOKENS,
	.vocab = 69,
	.tied = true,
	.n_shards = 1};

static const struct model_config llama = {.builder = "llama",
	.layers = 1,
	.width = 24,
	.heads = 4,
	.kv_heads = 2,
	.hidden = 20,
	.context = TOKENS,
	.vocab = 19,
	.n_shards = 1};

static enum err build_gpt(struct graph **g, struct why *why)
{
	return graph_build(&gpt, 1, TOKENS, g, why);
}

static enum err build_llama(struct graph **g, struct why *why)
{
	return graph_build(&llama, 1, 33, g, why);
}

static uint32_t param(
	struct graph *g, const char *name, struct shape s, enum init_kind init, float std)
{
	return graph_param(g, 0, name, &s, init, std);
}

static uint32_t convolve(
	struct graph *g, const char *name, uint32_t x, struct shape kernel, const struct node *how)
{
	const uint32_t in[] = {x, param(g, name, kernel, INIT_normal, 0.3f)};
	return graph_node(g, 0, OP_conv2d, in, 2, how);
}

static uint32_t normalise(struct graph *g, uint32_t x, uint32_t channels)
{
	const struct shape s = shape_make(1, channels, 1, 1, 1);
	const struct node how = {.eps = 1e-3f, .momentum = 0.1f};
	const uint32_t in[] = {x, param(g, "gain", s, INIT_one, 0),
		param(g, "bias", s, INIT_zero, 0), graph_buffer(g, 0, "mean", &s, INIT_zero),
		graph_buffer(g, 0, "var", &s, INIT_one)};
	return graph_node(g, 0, OP_batchnorm, in, 5, &how);
}

/* Kinks come first, where the values are the images' own, and none is near one: a rounding must not
 * decide to which side a gradient goes. */
static enum err build_images(struct graph **out, struct why *why)
{
	struct graph *g = *out = graph_new(IMAGES, 1);
	if (!g)
		return ERR_nomem;
	const struct shape images = shape_make(4, IMAGES, 3, SIDE, SIDE);
	const struct shape targets = shape_make(1, IMAGES, 1, 1, 1);
	g->images_in = graph_input(g, "images", &images, DTYPE_real);
	g->targets_in = graph_input(g, "targets", &targets, DTYPE_token);
	uint32_t in[2] = {g->images_in, param(g, "shift", images, INIT_zero, 0)};
	uint32_t x = graph_node(g, 0, OP_add, in, 2, NULL);
	x = graph_node(g, 0, OP_relu, &x, 1, NULL);
	x = graph_node(g, 0, OP_maxpool, &x, 1, &(struct node){.window = 3, .stride = 1, .pad = 1});
	x = convolve(
		g, "conv", x, shape_make(4, 8, 3, 3, 3), &(struct node){.stride = 1, .pad = 1});
	x = normalise(g, x, 8);
	x = convolve(g, "plain", x, shape_make(4, 18, 8, 1, 1), &(struct node){.stride = 1});
	x = convolve(
		g, "down", x, shape_make(4, 5, 18, 3, 3), &(struct node){.stride = 2, .pad = 1});
	in[0] = graph_node(g, 0, OP_global_average, &x, 1, NULL);
	in[1] = param(g, "head", shape_make(2, CLASSES, 5, 1, 1), INIT_normal, 0.5f);
	g->logits = in[0] = graph_node(g, 0, OP_linear, in, 2, NULL);
	in[1] = g->targets_in;
	g->loss = graph_node(g, 0, OP_cross_entropy, in, 2, NULL);
	return graph_finish(g, why);
}

/* With an eps that keeps what is divided by it smooth. */
static const struct params_step adamw = {.lr = 0.01,
	.beta1 = 0.9,
	.beta2 = 0.95,
	.eps = 0.01,
	.weight_decay = 0.1,
	.clip = 1,
	.step = 1};

enum { GRAD, MOVED, RESULTS };

struct result {
	double loss, norm;
	float *at[RESULTS]; /* gradient, and parameters after the step */
};

static enum err train(const struct graph *g, struct params *p, struct result *r, struct why *why)
{
	enum { PIXELS = IMAGES * 3 * SIDE * SIDE, PRIME = 7919 };
	int32_t tokens[TOKENS], targets[TOKENS];
	int32_t vocab = (int32_t)shape_last(&g->tensors[g->logits].shape);
	float images[PIXELS]; /* no two alike, none at 0 */
	for (int32_t i = 0; i < TOKENS; i++) {
		tokens[i] = i * 7 % vocab;
		targets[i] = i == 3 ? -1 : i * 5 % vocab;
	}
	for (uint32_t i = 0; i < PIXELS; i++)
		images[i] = (float)((i * PRIME) % PIXELS) / (PIXELS / 2) - 0.999f;
	struct exec *x = NULL;
	enum err e = params_init(p, g, 1);
	if (!e)
		e = exec_new(g, p, EXEC_train, &x, why);
	if (!e)
		e = exec_whole(x,
			&(struct exec_batch){
				.tokens = tokens, .targets = targets, .images = images},
			&r->loss, why);
	exec_free(x);
	uint64_t n = g->shard_params[0];
	for (int i = 0; i < RESULTS && !e; i++) {
		r->at[i] = alloc_try(n, sizeof *r->at[i]);
		e = r->at[i] ? ERR_OK : ERR_nomem;
		if (!e && i == MOVED)
			e = params_adamw(p, &adamw, &r->norm, why);
		if (!e)
			params_read(p, 0, i == MOVED ? PARAMS_value : PARAMS_grad, 0, n, r->at[i]);
	}
	return e;
}

static enum err step(const struct graph *g, const struct backend *b, struct device *d,
	struct result *r, struct why *why)
{
	const struct params_config config = {
		.backend = b, .device = d, .graph = g, .training = true};
	struct params *p = NULL;
	enum err e = params_new(&config, &p, why);
	if (!e)
		e = train(g, p, r, why);
	params_free(p);
	return e;
}

static enum err differs(const char *what, double here, double there, struct why *why)
{
	char blas[64];
	blas_describe(blas, sizeof blas);
	return err_why(why, ERR_unsupported,
		"cpu: self-test failed, %s is %g and must be %g: %s computes wrongly on this "
		"processor; install another CBLAS, or use the backend ref",
		what, here, there, blas);
}

static enum err compare_one(
	const char *what, double here, double there, double bound, struct why *why)
{
	/* Written so that NaN differs from everything. */
	return fabs(here - there) <= bound ? ERR_OK : differs(what, here, there, why);
}

static enum err compare(const struct graph *g, const struct result *here,
	const struct result *there, struct why *why)
{
	enum err e = compare_one("the loss", here->loss, there->loss, 1e-5, why);
	for (uint32_t i = 0; i < g->n_tensors && !e; i++) {
		const struct tensor *t = &g->tensors[i];
		uint64_t n = t->role == TENSOR_param ? shape_count(&t->shape) : 0;
		for (uint64_t k = t->offset; k < t->offset + n && !e; k++) {
			e = compare_one(
				t->name, here->at[MOVED][k], there->at[MOVED][k], 1e-5, why);
			double bound = 1e-4 * there->norm / sqrt((double)g->shard_params[0]);
			if (!e && !t->buffer)
				e = compare_one(t->name, here->at[GRAD][k], there->at[GRAD][k],
					bound + 1e-4 * fabs(there->at[GRAD][k]), why);
		}
	}
	return e ? e : compare_one("the norm", here->norm, there->norm, 1e-4 * there->norm, why);
}

struct pair {
	const struct backend *ref;
	struct device *here, *there;
};

static enum err try_graph(const struct pair *p, const struct graph *g, struct why *why)
{
	struct result here = {0}, there = {0};
	enum err e = step(g, p->ref, p->there, &there, why);
	if (!e)
		e = step(g, &cpu_backend, p->here, &here, why);
	if (!e)
		e = compare(g, &here, &there, why);
	for (int i = 0; i < RESULTS; i++) {
		free(here.at[i]);
		free(there.at[i]);
	}
	return e;
}

enum err cpu_selftest(struct device *d, struct why *why)
{
	enum err (*const build[])(struct graph **, struct why *) = {
		build_gpt, build_llama, build_images};
	struct pair p = {.ref = backend_find("ref"), .here = d};
	enum err e = p.ref->open(&(struct backend_config){0}, &p.there, why);
	for (size_t i = 0; i < sizeof build / sizeof *build && !e; i++) {
		struct graph *g = NULL;
		e = build[i](&g, why);
		if (!e)
			e = try_graph(&p, g, why);
		graph_free(g);
	}
	p.ref->close(p.there);
	return e == ERR_nomem ? err_why(why, e, "cpu: out of memory in the self-test") : e;
}
