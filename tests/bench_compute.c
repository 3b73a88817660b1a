/*
 * How fast a training step is on this machine's CPU: tokens/s, GFLOP/s and the share of what the
 * CBLAS itself reaches here in the same minute, for three models by one and two threads; where the
 * time goes by op.  LLMC=path of a built llm.c train_gpt2 (in the folder with its checkpoint and
 * data) is measured beside.  A table, build/bench/compute.json, and one line of key=value.
 */
#include <cblas.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/pool.h"
#include "kernels/exec.h"

#define SAMPLES 9
#define SAMPLE_NS (50 * CLOCK_MS)    /* at least so long, in whole steps */
#define MODEL_NS (8 * CLOCK_SECOND)  /* about so long for one model and thread count */
#define LLMC_STEPS 5                 /* after two that are dropped */
#define LLMC_NS (120 * CLOCK_SECOND) /* give up on it after so long */
#define PEAK_SIZE 768

struct workload {
	const char *name;
	struct model_config model;
	uint32_t batch, seq;
};

/* Small ones first, so that the largest resident size so far is each one's own. */
static const struct workload workloads[] = {
	{"demo", {"gpt", 2, 128, 4, 128, 256, true, 1, {0}}, 2, 128},
	{"10m", {"gpt", 6, 384, 6, 256, 256, true, 1, {0}}, 8, 128},
	{"gpt2", {"gpt", 12, 768, 12, 1024, 50257, true, 1, {0}}, 4, 64},
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads, THREADS = 2 };

static void die(const char *what)
{
	fprintf(stderr, "bench_compute: %s\n", what);
	exit(1);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *x, size_t n)
{
	qsort(x, n, sizeof *x, by_size);
	return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* ---- what the library reaches */

struct squares {
	float *a, *b, *c; /* one of each for every tile */
};

static void multiply(void *arg, size_t tile, unsigned thread)
{
	(void)thread;
	struct squares *s = arg;
	size_t at = tile * PEAK_SIZE * PEAK_SIZE;
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, PEAK_SIZE, PEAK_SIZE, PEAK_SIZE, 1,
		s->a + at, PEAK_SIZE, s->b + at, PEAK_SIZE, 0, s->c + at, PEAK_SIZE);
}

/* GFLOP/s of large products, one on each thread; the median of a few. */
static double peak(unsigned threads)
{
	size_t n = threads * (size_t)PEAK_SIZE * PEAK_SIZE;
	struct squares s = {alloc_must(n * sizeof(float)), alloc_must(n * sizeof(float)),
		alloc_must_zero(n, sizeof(float))};
	for (size_t i = 0; i < n; i++)
		s.a[i] = s.b[i] = (float)(i % 7) - 3;
	struct pool *p = pool_new(threads);
	double rate[SAMPLES];
	pool_run(p, threads, multiply, &s);
	for (size_t i = 0; i < SAMPLES; i++) {
		uint64_t begin = clock_now_ns();
		pool_run(p, threads, multiply, &s);
		pool_run(p, threads, multiply, &s);
		double flops = 4.0 * threads * PEAK_SIZE * PEAK_SIZE * PEAK_SIZE;
		rate[i] = flops / (double)(clock_now_ns() - begin);
	}
	pool_free(p);
	free(s.a);
	free(s.b);
	free(s.c);
	return median(rate, SAMPLES);
}

/* ---- the backend with a stopwatch */

enum { ADAMW = OP_COUNT, NORM, CLOCKS };
static double spent[CLOCKS][2]; /* seconds, forward and backward */

static void add_time(int clock, bool backward, uint64_t begin)
{
	spent[clock][backward] += (double)(clock_now_ns() - begin) / 1e9;
}

static void timed_run(struct device *d, const struct kernel_call *c)
{
	uint64_t begin = clock_now_ns();
	cpu_backend.run(d, c);
	add_time((int)c->node->op, c->backward, begin);
}

static void timed_adamw(struct device *d, const struct adamw_call *c)
{
	uint64_t begin = clock_now_ns();
	cpu_backend.adamw(d, c);
	add_time(ADAMW, true, begin);
}

static double timed_norm2(struct device *d, struct view x, uint64_t n)
{
	uint64_t begin = clock_now_ns();
	double sum = cpu_backend.norm2(d, x, n);
	add_time(NORM, true, begin);
	return sum;
}

/* ---- one model */

struct figures {
	unsigned threads;
	double tokens, least, most; /* per second: median, slowest, fastest sample */
	double gflops, peak, rss_mb;
	uint64_t steps;
	double spent[CLOCKS][2]; /* seconds per step */
};

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

static void run_open(struct run *r, const struct workload *w, unsigned threads)
{
	struct why why = {0};
	r->timed = cpu_backend;
	r->timed.run = timed_run;
	r->timed.adamw = timed_adamw;
	r->timed.norm2 = timed_norm2;
	r->rows = (uint64_t)w->batch * w->seq;
	if (graph_build(&w->model, w->batch, w->seq, &r->graph, &why) ||
		cpu_backend.open(&(struct backend_config){threads}, &r->device, &why))
		die(why.text);
	const struct params_config config = {
		.backend = &r->timed, .device = r->device, .graph = r->graph, .training = true};
	if (params_new(&config, &r->params, &why) ||
		exec_new(r->graph, r->params, EXEC_train, &r->exec, &why))
		die(why.text);
	fill(r);
	r->tokens = alloc_must(r->rows * sizeof *r->tokens);
	r->targets = alloc_must(r->rows * sizeof *r->targets);
	for (uint64_t i = 0; i < r->rows; i++) {
		r->tokens[i] = (int32_t)(i * 7919 % w->model.vocab);
		r->targets[i] = (int32_t)((i + 1) * 7919 % w->model.vocab);
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
		die(why.text);
}

static double flops_of(const struct graph *g)
{
	double sum = 0;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct op_cost c;
		op_def(g->nodes[i].op)->cost(g, &g->nodes[i], &c);
		sum += (double)c.flops_forward + (double)c.flops_backward;
	}
	return sum;
}

static void time_steps(struct run *r, struct figures *f)
{
	double rate[SAMPLES];
	size_t n = 0;
	uint64_t start = clock_now_ns();
	memset(spent, 0, sizeof spent);
	while (n < SAMPLES && (n < 3 || clock_now_ns() - start < MODEL_NS)) {
		uint64_t begin = clock_now_ns(), steps = 0;
		do {
			step(r);
			steps++;
		} while (clock_now_ns() - begin < SAMPLE_NS);
		rate[n++] = (double)(steps * r->rows) / (double)(clock_now_ns() - begin) * 1e9;
		f->steps += steps;
	}
	f->tokens = median(rate, n);
	f->least = rate[0];
	f->most = rate[n - 1];
	for (int i = 0; i < CLOCKS; i++)
		for (int k = 0; k < 2; k++)
			f->spent[i][k] = spent[i][k] / (double)f->steps;
}

static void measure(const struct workload *w, struct figures *f)
{
	struct run r = {0};
	struct rusage usage;
	f->peak = peak(f->threads);
	run_open(&r, w, f->threads);
	step(&r); /* touches the memory */
	time_steps(&r, f);
	f->gflops = flops_of(r.graph) / (double)r.rows * f->tokens / 1e9;
	f->peak = (f->peak + peak(f->threads)) / 2;
	getrusage(RUSAGE_SELF, &usage);
	f->rss_mb = (double)usage.ru_maxrss / 1024;
	run_close(&r);
}

/* ---- llm.c beside */

/* Its milliseconds of one step, or 0 when the line is about something else. */
static double llmc_took(const char *line)
{
	const char *at = strstr(line, "(took ");
	return at ? strtod(at + strlen("(took "), NULL) : 0;
}

static void llmc_child(const char *path, int to)
{
	char *folder = alloc_must_strdup(path), threads[16];
	snprintf(threads, sizeof threads, "%d", THREADS);
	setenv("OMP_NUM_THREADS", threads, 1);
	dup2(to, STDOUT_FILENO);
	if (setpgid(0, 0) == 0 && chdir(dirname(folder)) == 0)
		execlp("stdbuf", "stdbuf", "-oL", path, (char *)NULL);
	_exit(127);
}

static size_t llmc_read(int from, double *took, size_t n)
{
	size_t have = 0, len = 0;
	char line[512];
	uint64_t end = clock_now_ns() + LLMC_NS;
	while (have < n && clock_now_ns() < end) {
		struct pollfd p = {from, POLLIN, 0};
		if (poll(&p, 1, (int)((end - clock_now_ns()) / CLOCK_MS)) <= 0 ||
			read(from, line + len, 1) != 1)
			break;
		if (line[len] != '\n' && len + 2 < sizeof line) {
			len++;
			continue;
		}
		line[len] = 0;
		len = 0;
		took[have] = llmc_took(line);
		have += took[have] > 0;
	}
	return have;
}

/* Tokens per second of llm.c at the same batch and model; 0: not there. */
static double llmc(const struct workload *w)
{
	const char *path = getenv("LLMC");
	int pipes[2];
	if (!path)
		return 0;
	if (pipe2(pipes, O_CLOEXEC) != 0)
		die("pipe");
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		llmc_child(path, pipes[1]);
	close(pipes[1]);
	double took[LLMC_STEPS + 2];
	size_t n = pid > 0 ? llmc_read(pipes[0], took, LLMC_STEPS + 2) : 0;
	close(pipes[0]);
	if (pid > 0) {
		kill(-pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	if (n <= 2)
		die("LLMC gave no step times; it must stand in the folder with its data");
	return (double)w->batch * w->seq / median(took + 2, n - 2) * 1e3;
}

/* ---- telling */

static void print_figures(const struct workload *w, const struct figures *f)
{
	printf("%-5s %u x %-4u %u thread%s %9.1f tokens/s (%.1f to %.1f) %7.1f GFLOP/s, "
	       "%4.1f %% of the CBLAS's %.0f, %5.0f MiB\n",
		w->name, w->batch, w->seq, f->threads, f->threads == 1 ? " " : "s", f->tokens,
		f->least, f->most, f->gflops, 100 * f->gflops / f->peak, f->peak, f->rss_mb);
}

static const char *clock_name(int clock)
{
	return clock == ADAMW ? "adamw" : clock == NORM ? "norm2" : op_def((enum op)clock)->name;
}

static double total(const struct figures *f)
{
	double sum = 0;
	for (int i = 1; i < CLOCKS; i++)
		sum += f->spent[i][0] + f->spent[i][1];
	return sum;
}

static void print_shares(const struct figures *const f[WORKLOADS])
{
	printf("\n%-14s", "share of time");
	for (int w = 0; w < WORKLOADS; w++)
		printf("  %8s %% there, back", workloads[w].name);
	putchar('\n');
	for (int i = 1; i < CLOCKS; i++) {
		printf("%-14s", clock_name(i));
		for (int w = 0; w < WORKLOADS; w++)
			printf("  %14.2f %7.2f", 100 * f[w]->spent[i][0] / total(f[w]),
				100 * f[w]->spent[i][1] / total(f[w]));
		putchar('\n');
	}
	putchar('\n');
}

static json_t *shares_json(const struct figures *f)
{
	json_t *shares = json_object();
	for (int i = 1; i < CLOCKS; i++)
		json_object_set_new(shares, clock_name(i),
			json_pack("[f,f]", 1e3 * f->spent[i][0], 1e3 * f->spent[i][1]));
	return shares;
}

static json_t *figures_json(const struct workload *w, const struct figures *f)
{
	return json_pack("{s:s,s:i,s:i,s:i,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:o}", "model", w->name,
		"batch", (int)w->batch, "seq", (int)w->seq, "threads", (int)f->threads, "steps",
		(json_int_t)f->steps, "tokens_per_s", f->tokens, "tokens_per_s_least", f->least,
		"tokens_per_s_most", f->most, "gflops", f->gflops, "cblas_gflops", f->peak,
		"rss_mib", f->rss_mb, "ms_per_step_forward_backward", shares_json(f));
}

static void save(json_t *all)
{
	mkdir("build", 0777);
	mkdir("build/bench", 0777);
	if (json_dump_file(all, "build/bench/compute.json", JSON_INDENT(1)) != 0)
		die("build/bench/compute.json cannot be written");
	json_decref(all);
}

static void print_device(void)
{
	struct device *d = NULL;
	struct why why = {0};
	char text[200];
	if (cpu_backend.open(&(struct backend_config){THREADS}, &d, &why))
		die(why.text);
	cpu_backend.describe(d, text, sizeof text);
	puts(text);
	cpu_backend.close(d);
}

int main(void)
{
	static struct figures figures[WORKLOADS][THREADS];
	const struct figures *most[WORKLOADS];
	const struct workload *gpt2 = &workloads[WORKLOADS - 1];
	json_t *runs = json_array();
	print_device();
	/* Before and after ours, and the better of the two, so that another's load on the machine
	 * does not flatter us. */
	double other = llmc(gpt2);
	for (int w = 0; w < WORKLOADS; w++)
		for (unsigned t = 0; t < THREADS; t++) {
			struct figures *f = &figures[w][t];
			f->threads = t + 1;
			measure(&workloads[w], f);
			print_figures(&workloads[w], f);
			json_array_append_new(runs, figures_json(&workloads[w], f));
			most[w] = f;
		}
	double after = llmc(gpt2);
	other = after > other ? after : other;
	if (other > 0)
		printf("llm.c gpt2 %.1f tokens/s: ours is %.2f times that\n", other,
			most[WORKLOADS - 1]->tokens / other);
	print_shares(most);
	save(json_pack("{s:o,s:f}", "runs", runs, "llmc_tokens_per_s", other));
	printf("bench: compute");
	for (int w = 0; w < WORKLOADS; w++)
		for (int t = 0; t < THREADS; t++)
			printf(" %s_%dt=%.1f %s_%dt_share=%.3f", workloads[w].name, t + 1,
				figures[w][t].tokens, workloads[w].name, t + 1,
				figures[w][t].gflops / figures[w][t].peak);
	printf(" rss_mb=%.0f", most[WORKLOADS - 1]->rss_mb);
	if (other > 0)
		printf(" llmc=%.1f ratio=%.2f\n", other, most[WORKLOADS - 1]->tokens / other);
	else
		printf(" llmc=none\n");
	return 0;
}
