/* shoal-peer bench: the devices of this machine and how many tokens per second each trains on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/program.h"
#include "base/rng.h"
#include "base/signal.h"
#include "kernels/exec.h"
#include "model/op.h"
#include "peer/command.h"
#include "model/spec.h"

#define RUNS_MAX 101
#define WORDS_MAX 64
/* Plain loops make more than this, in FLOP/s. */
#define REF_SPEED 1e9

static struct {
	int64_t threads, runs;
	uint64_t seconds;
} opt;

static const struct option_row rows[] = {
	{"threads", OPTION_int, &opt.threads, "0", 0, 1024,
		"compute threads; 0: one per core allowed here"},
	{"runs", OPTION_int, &opt.runs, "15", 3, RUNS_MAX,
		"timed steps at most; the median is told"},
	{"seconds", OPTION_seconds, &opt.seconds, "10s", 1, 3600,
		"stop timing a device after so long"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-peer bench [SPEC [PATH=VALUE ...]]\n\nTimes training steps of SPEC's model (else of "
	"a 10 M parameter GPT) on every device.\nPATH=VALUE changes a member of the spec, as in "
	"train.precision=bf16.\n";

static const char examples[] = "  shoal-peer bench configs/gpt2-124m.json --seconds 1m\n"
			       "  shoal-peer bench configs/gpt2-124m.json train.precision=bf16\n";

/* What is computed when no spec is named: a 10-million-parameter GPT over bytes. */
static const struct model_config standard = {.builder = "gpt",
	.layers = 6,
	.width = 384,
	.heads = 6,
	.context = 256,
	.vocab = 256,
	.tied = true,
	.n_shards = 1};

struct load {
	struct model_config model;
	uint32_t batch, seq;
	enum precision precision;
	bool recompute;
	struct graph *graph;
	int32_t *tokens;
	float *images; /* instead of tokens, which then are the targets only */
	double flops;  /* of a step, forward and backward */
};

static enum err make_load(struct load *l, const char **words, size_t n_words, struct why *why)
{
	l->model = standard;
	l->batch = 4;
	l->seq = 128;
	struct spec *spec = NULL;
	enum err e =
		n_words ? spec_load(words[0], words + 1, n_words - 1, &spec, NULL, why) : ERR_OK;
	if (e)
		return e;
	if (spec) {
		l->model = spec->model;
		l->batch = spec->train.micro_batch;
		l->seq = spec->train.seq;
		l->precision = spec->train.precision;
		l->recompute = spec->train.recompute;
	}
	e = graph_build(&l->model, l->batch, l->seq, &l->graph, why);
	l->model.user = NULL; /* was the spec's */
	spec_free(spec);
	if (e)
		return e;
	for (uint32_t i = 0; i < l->graph->n_nodes; i++) {
		struct op_cost c;
		op_def(l->graph->nodes[i].op)->cost(l->graph, &l->graph->nodes[i], &c);
		l->flops += (double)(c.flops_forward + c.flops_backward);
	}
	size_t n = (size_t)l->batch * l->seq;
	l->tokens = alloc_must_zero(n, sizeof *l->tokens);
	for (size_t i = 0; i < n; i++)
		l->tokens[i] = (int32_t)rng_below(1, 0, i, l->model.vocab);
	if (l->graph->images_in == GRAPH_NONE)
		return ERR_OK;
	uint64_t pixels = shape_count(&l->graph->tensors[l->graph->images_in].shape);
	l->images = alloc_must_zero(pixels, sizeof *l->images);
	for (uint64_t i = 0; i < pixels; i++)
		l->images[i] = rng_normal(1, 1, i);
	return ERR_OK;
}

static enum err one_step(
	const struct load *l, struct params *p, struct exec *x, uint64_t step, struct why *why)
{
	struct exec_batch batch = {.tokens = l->tokens, .targets = l->tokens, .images = l->images};
	double loss;
	enum err e = exec_whole(x, &batch, &loss, why);
	struct params_step how = {.lr = 1e-4,
		.beta1 = 0.9,
		.beta2 = 0.95,
		.eps = 1e-8,
		.weight_decay = 0.1,
		.clip = 1,
		.step = step};
	return e ? e : params_adamw(p, &how, NULL, why);
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* The first step is not counted: it touches fresh memory. */
static enum err time_steps(
	const struct load *l, const struct backend *b, struct device *d, struct why *why)
{
	struct params *p = NULL;
	struct exec *x = NULL;
	struct params_config how = {.backend = b, .device = d, .graph = l->graph, .training = true};
	enum err e = params_new(&how, &p, why);
	if (!e && params_init(p, l->graph, 1))
		e = err_why(why, ERR_nomem, "no memory for the initial parameters");
	if (!e)
		e = exec_new(l->graph, p, l->recompute ? EXEC_recompute : EXEC_train, &x, why);
	if (!e)
		e = one_step(l, p, x, 1, why);
	uint64_t took[RUNS_MAX], begin = clock_now_ns();
	int64_t n = 0;
	while (!e && n < opt.runs && !signal_asked() &&
		(n < 3 || clock_now_ns() - begin < opt.seconds)) {
		uint64_t start = clock_now_ns();
		e = one_step(l, p, x, (uint64_t)n + 2, why);
		took[n++] = clock_now_ns() - start;
	}
	exec_free(x);
	params_free(p);
	if (e || !n)
		return e;
	qsort(took, (size_t)n, sizeof *took, by_time);
	double tokens = (double)l->batch * l->seq, median = clock_seconds(took[n / 2]);
	printf("  %-6s %9.0f %s/s (%.0f to %.0f over %lld steps)  %7.1f GFLOP/s\n", b->name,
		tokens / median, l->images ? "images" : "tokens",
		tokens / clock_seconds(took[n - 1]), tokens / clock_seconds(took[0]), (long long)n,
		l->flops / median / 1e9);
	return ERR_OK;
}

static enum err bench_all(const char **words, size_t n_words, struct why *why)
{
	struct load l = {0};
	enum err e = make_load(&l, words, n_words, why);
	if (!e)
		printf("%llu parameters, %u nodes, micro-batch %u x %u %s\n",
			(unsigned long long)graph_params(l.graph), l.graph->n_nodes, l.batch, l.seq,
			l.images ? "images" : "tokens");
	for (size_t i = 0; !e && backend_at(i) && !signal_asked(); i++) {
		const struct backend *b = backend_at(i);
		struct backend_config how = {
			.threads = (unsigned)opt.threads, .precision = l.precision};
		struct device *d = NULL;
		struct why off;
		char text[200];
		if (b->real_size != sizeof(float))
			continue; /* the definition in double is for tests */
		if (!strcmp(b->name, "ref") && l.flops / REF_SPEED > clock_seconds(opt.seconds)) {
			printf("  %-6s left out: a step by plain loops takes longer than "
			       "--seconds\n",
				b->name);
			continue;
		}
		if (b->open(&how, &d, &off)) {
			printf("  %-6s off: %s\n", b->name, off.text);
			continue;
		}
		b->describe(d, text, sizeof text);
		printf("%s\n", text);
		e = time_steps(&l, b, d, why);
		b->close(d);
	}
	graph_free(l.graph);
	free(l.tokens);
	free(l.images);
	struct rusage use;
	getrusage(RUSAGE_SELF, &use);
	if (!e)
		printf("peak memory %.0f MB\n", (double)use.ru_maxrss / 1024);
	return e;
}

int bench_command(int argc, char **argv)
{
	const char *words[WORDS_MAX];
	size_t n;
	struct why why;
	const struct program_options options = {.program = COMMAND_PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.examples = examples,
		.words = words,
		.max_words = WORDS_MAX};
	int status;
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	if (bench_all(words, n, &why))
		return program_fail(COMMAND_PROGRAM, argv[0], &why);
	return signal_asked() ? PROGRAM_interrupted : PROGRAM_ok;
}
