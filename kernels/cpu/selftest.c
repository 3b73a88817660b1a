#include <math.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu.h"
#include "kernels/exec.h"

/*
 * One training step of a tiny model, which has every op in it, here and by the definition.  The
 * sizes reach both the whole registers and the rests, and a second block of attention.
 */
#define TOKENS 98
#define VOCAB 69

static const struct model_config model = {.builder = "gpt",
	.layers = 1,
	.width = 36,
	.heads = 2,
	.context = TOKENS,
	.vocab = VOCAB,
	.tied = true,
	.n_shards = 1};

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
	int32_t tokens[TOKENS], targets[TOKENS];
	for (int32_t i = 0; i < TOKENS; i++) {
		tokens[i] = i * 7 % VOCAB;
		targets[i] = i == 3 ? -1 : i * 5 % VOCAB;
	}
	struct exec *x = NULL;
	enum err e = params_init(p, g, 1);
	if (!e)
		e = exec_new(g, p, EXEC_train, &x, why);
	if (!e)
		e = exec_whole(x, &(struct exec_batch){.tokens = tokens, .targets = targets},
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
			if (!e)
				e = compare_one(t->name, here->at[GRAD][k], there->at[GRAD][k],
					bound + 1e-4 * fabs(there->at[GRAD][k]), why);
		}
	}
	return e ? e : compare_one("the norm", here->norm, there->norm, 1e-4 * there->norm, why);
}

enum err cpu_selftest(struct device *d, struct why *why)
{
	const struct backend *ref = backend_find("ref");
	struct result here = {0}, there = {0};
	struct device *ref_device = NULL;
	struct graph *g = NULL;
	enum err e = graph_build(&model, 1, TOKENS, &g, why);
	if (!e)
		e = ref->open(&(struct backend_config){0}, &ref_device, why);
	if (!e)
		e = step(g, ref, ref_device, &there, why);
	if (!e)
		e = step(g, &cpu_backend, d, &here, why);
	if (!e)
		e = compare(g, &here, &there, why);
	for (int i = 0; i < RESULTS; i++) {
		free(here.at[i]);
		free(there.at[i]);
	}
	ref->close(ref_device);
	graph_free(g);
	return e == ERR_nomem ? err_why(why, e, "cpu: out of memory in the self-test") : e;
}
