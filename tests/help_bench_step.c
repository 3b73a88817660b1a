#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "kernels/exec.h"
#include "tests/help_bench.h"

#define SAMPLES 9
#define SAMPLE_NS (50 * CLOCK_MS)   /* at least so long, in whole steps */
#define MODEL_NS (5 * CLOCK_SECOND) /* about so long for one model */
#define LEAST_SAMPLES 3

/* ---- the backend with a stopwatch */

enum { FORWARD, BACKWARD, WAYS };
enum { ADAMW = OP_COUNT, NORM, CLOCKS };
static double spent[CLOCKS][WAYS]; /* seconds in this sample */

static void add_time(int clock, int way, uint64_t begin)
{
	spent[clock][way] += (double)(clock_now_ns() - begin) / 1e9;
}

static void timed_run(struct device *d, const struct kernel_call *c)
{
	uint64_t begin = clock_now_ns();
	cpu_backend.run(d, c);
	add_time((int)c->node->op, c->backward ? BACKWARD : FORWARD, begin);
}

static void timed_adamw(struct device *d, const struct adamw_call *c)
{
	uint64_t begin = clock_now_ns();
	cpu_backend.adamw(d, c);
	add_time(ADAMW, BACKWARD, begin);
}

static double timed_norm2(struct device *d, struct view x, uint64_t n)
{
	uint64_t begin = clock_now_ns();
	double sum = cpu_backend.norm2(d, x, n);
	add_time(NORM, BACKWARD, begin);
	return sum;
}

/* ---- a model that can be stepped */

struct run {
	struct graph *graph;
	struct device *device;
	struct backend timed;
	struct params *params;
	struct exec *exec;
	int32_t *tokens, *targets;
	uint64_t rows, step;
};

/* The run's own initialisation is slower and means nothing to the time of a step. */
static void fill(struct run *r)
{
	enum { CHUNK = 1 << 16 };
	float *x = alloc_must(CHUNK * sizeof *x);
	for (uint32_t i = 0; i < r->graph->n_tensors; i++) {
		const struct tensor *t = &r->graph->tensors[i];
		uint64_t n = t->role == TENSOR_param ? shape_count(&t->shape) : 0;
		for (uint64_t at = 0; at < n; at += CHUNK) {
			uint64_t part = n - at < CHUNK ? n - at : CHUNK;
			for (uint64_t k = 0; k < part; k++) {
				uint32_t mixed = (uint32_t)(at + k + i) * 2654435761u;
				float noise = (float)(mixed >> 8) / (float)(1 << 23) - 1;
				x[k] = t->init == INIT_one ? 1 : 0.03f * noise;
			}
			params_write(r->params, t->shard, PARAMS_value, t->offset + at, part, x);
		}
	}
	free(x);
}

static void run_open(
	struct run *r, const struct help_bench_load *l, const struct backend_config *config)
{
	struct why why = {0};
	r->timed = cpu_backend;
	r->timed.run = timed_run;
	r->timed.adamw = timed_adamw;
	r->timed.norm2 = timed_norm2;
	r->rows = (uint64_t)l->batch * l->seq;
	if (graph_build(&l->model, l->batch, l->seq, &r->graph, &why) ||
		cpu_backend.open(config, &r->device, &why))
		help_bench_die("%s", why.text);
	const struct params_config params = {
		.backend = &r->timed, .device = r->device, .graph = r->graph, .training = true};
	if (params_new(&params, &r->params, &why) ||
		exec_new(r->graph, r->params, EXEC_train, &r->exec, &why))
		help_bench_die("%s", why.text);
	fill(r);
	r->tokens = alloc_must(r->rows * sizeof *r->tokens);
	r->targets = alloc_must(r->rows * sizeof *r->targets);
	for (uint64_t i = 0; i < r->rows; i++) {
		r->tokens[i] = (int32_t)(i * 7919 % l->model.vocab);
		r->targets[i] = (int32_t)((i + 1) * 7919 % l->model.vocab);
	}
}

static void run_close(struct run *r)
{
	exec_free(r->exec);
	params_free(r->params);
	cpu_backend.close(r->device);
	graph_free(r->graph);
	free(r->tokens);
	free(r->targets);
}

static void step(struct run *r)
{
	struct why why = {0};
	double loss;
	const struct exec_batch batch = {.tokens = r->tokens, .targets = r->targets};
	const struct params_step adamw = {.lr = 1e-4,
		.beta1 = 0.9,
		.beta2 = 0.95,
		.eps = 1e-8,
		.weight_decay = 0.1,
		.clip = 1,
		.step = ++r->step};
	if (exec_whole(r->exec, &batch, &loss, &why) || params_adamw(r->params, &adamw, NULL, &why))
		help_bench_die("%s", why.text);
}

/* ---- what a step costs, and what it took */

/* FLOPs and bytes of each clock in one step. */
struct costs {
	double flops[CLOCKS][WAYS], bytes[CLOCKS][WAYS], all;
};

static void count_costs(const struct graph *g, struct costs *c)
{
	memset(c, 0, sizeof *c);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct op_cost one;
		enum op op = g->nodes[i].op;
		op_def(op)->cost(g, &g->nodes[i], &one);
		c->flops[op][FORWARD] += (double)one.flops_forward;
		c->flops[op][BACKWARD] += (double)one.flops_backward;
		c->bytes[op][FORWARD] += (double)one.bytes_forward;
		c->bytes[op][BACKWARD] += (double)one.bytes_backward;
		c->all += (double)(one.flops_forward + one.flops_backward);
	}
	/* AdamW reads parameter, gradient and two moments, and writes all but the gradient. */
	double reals = (double)graph_params(g) * sizeof(float);
	c->bytes[ADAMW][BACKWARD] = 7 * reals;
	c->bytes[NORM][BACKWARD] = reals;
}

static const char *clock_name(int clock)
{
	return clock == ADAMW ? "adamw" : clock == NORM ? "norm2" : op_def((enum op)clock)->name;
}

const char *help_bench_precision(enum precision precision)
{
	static const char *const names[] = {
#define X(name) [PRECISION_##name] = #name,
		PRECISION_LIST(X)
#undef X
	};
	return names[precision];
}

/* What the machine can. */
struct limits {
	double products, float32, memory; /* GFLOP/s in the precision asked for, and not; GB/s */
};

static void measure_limits(struct limits *m, unsigned threads, enum precision precision)
{
	struct limits now = {help_bench_products(threads, precision),
		help_bench_products(threads, PRECISION_float32), help_bench_memory(threads)};
	m->products = now.products > m->products ? now.products : m->products;
	m->float32 = now.float32 > m->float32 ? now.float32 : m->float32;
	m->memory = now.memory > m->memory ? now.memory : m->memory;
}

/* The fastest sample. */
struct best {
	double tokens, step_seconds, spent[CLOCKS][WAYS]; /* seconds of a step */
};

static json_t *way_json(double s, double gflop, double gbyte, double peak, double memory)
{
	double bound = gflop / peak > gbyte / memory ? gflop / peak : gbyte / memory;
	return json_pack("{s:f,s:f,s:f,s:f}", "ms", 1e3 * s, "gflops", s > 0 ? gflop / s : 0, "gbs",
		s > 0 ? gbyte / s : 0, "of_bound", s > 0 ? bound / s : 0);
}

static json_t *ops_json(const struct costs *c, const struct best *best, const struct limits *m)
{
	json_t *ops = json_object();
	for (int i = 1; i < CLOCKS; i++) {
		json_t *ways = json_array();
		for (int way = 0; way < WAYS; way++)
			json_array_append_new(ways,
				way_json(best->spent[i][way], c->flops[i][way] / 1e9,
					c->bytes[i][way] / 1e9,
					i == OP_linear ? m->products : m->float32, m->memory));
		if (best->spent[i][FORWARD] + best->spent[i][BACKWARD] > 0)
			json_object_set(ops, clock_name(i), ways);
		json_decref(ways);
	}
	return ops;
}

struct times {
	double tokens[SAMPLES]; /* per second */
	size_t n;
	uint64_t steps;
	struct best best;
};

static void keep_best(struct best *best, double tokens, double seconds, uint64_t steps)
{
	if (tokens < best->tokens)
		return;
	best->tokens = tokens;
	best->step_seconds = seconds / (double)steps;
	for (int i = 0; i < CLOCKS; i++)
		for (int way = 0; way < WAYS; way++)
			best->spent[i][way] = spent[i][way] / (double)steps;
}

static void time_steps(struct run *r, struct times *t)
{
	uint64_t start = clock_now_ns();
	while (t->n < SAMPLES && (t->n < LEAST_SAMPLES || clock_now_ns() - start < MODEL_NS)) {
		uint64_t begin = clock_now_ns(), steps = 0;
		memset(spent, 0, sizeof spent);
		do {
			step(r);
			steps++;
		} while (clock_now_ns() - begin < SAMPLE_NS);
		double seconds = clock_seconds(clock_now_ns() - begin);
		double tokens = (double)(steps * r->rows) / seconds;
		keep_best(&t->best, tokens, seconds, steps);
		t->tokens[t->n++] = tokens;
		t->steps += steps;
	}
}

json_t *help_bench_step(const struct help_bench_load *l, unsigned threads, enum precision precision)
{
	struct run r = {0};
	struct times t = {0};
	struct costs costs;
	struct limits limits = {0};
	struct rusage usage;
	char device[300];
	/* Before and after: other work on the machine comes and goes. */
	measure_limits(&limits, threads, precision);
	run_open(&r, l, &(struct backend_config){.threads = threads, .precision = precision});
	step(&r); /* touches the memory */
	time_steps(&r, &t);
	getrusage(RUSAGE_SELF, &usage);
	count_costs(r.graph, &costs);
	cpu_backend.describe(r.device, device, sizeof device);
	double flops_of_token = costs.all / (double)r.rows;
	run_close(&r);
	measure_limits(&limits, threads, precision);
	double tokens = help_bench_median(t.tokens, t.n);
	return json_pack("{s:s,s:i,s:i,s:i,s:s,s:s,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:o}",
		"model", l->name, "batch", (int)l->batch, "seq", (int)l->seq, "threads",
		(int)threads, "precision", help_bench_precision(precision), "device", device,
		"steps", (json_int_t)t.steps, "tokens_per_s", tokens, "tokens_per_s_least",
		t.tokens[0], "tokens_per_s_most", t.tokens[t.n - 1], "step_ms",
		1e3 * t.best.step_seconds, "gflops", flops_of_token * tokens / 1e9, "peak_gflops",
		limits.products, "memory_gbs", limits.memory, "rss_mib",
		(double)usage.ru_maxrss / 1024, "ops", ops_json(&costs, &t.best, &limits));
}
