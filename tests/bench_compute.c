/*
 * How fast a training step is on this machine's CPU, beside PyTorch and llm.c in the same minutes:
 * tokens/s, the share of what the library of products itself reaches, resident memory, and for
 * each op its time and its share of what processor or memory allow.  Every row is a process of its
 * own.  TORCH=python that has PyTorch (usual /usr/bin/python3; none: not asked); LLMC=path of a
 * built llm.c train_gpt2 in the folder with its checkpoint and data.  A table,
 * build/bench/compute.json, and one line of key=value.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "tests/help_bench.h"

#define THREADS 2 /* at most */
#define STEP_NS (300 * CLOCK_SECOND)
#define GPT2 \
	{ \
		.builder = "gpt", .layers = 12, .width = 768, .heads = 12, .context = 1024, \
		.vocab = 50257, .tied = true, .n_shards = 1 \
	}

static const struct help_bench_load loads[] = {
	{"demo",
		{.builder = "gpt",
			.layers = 2,
			.width = 128,
			.heads = 4,
			.context = 128,
			.vocab = 256,
			.tied = true,
			.n_shards = 1},
		2, 128},
	{"10m",
		{.builder = "gpt",
			.layers = 6,
			.width = 384,
			.heads = 6,
			.context = 256,
			.vocab = 256,
			.tied = true,
			.n_shards = 1},
		8, 128},
	{"gpt2", GPT2, 4, 64},
	{"gpt2-long", GPT2, 4, 1024},
};
enum { DEMO, SMALL, SHORT, LONG, LOADS };

/* Of PRECISION_LIST. */
static const enum precision precisions[] = {
#define X(name) PRECISION_##name,
	PRECISION_LIST(X)
#undef X
};
#define PRECISIONS (sizeof precisions / sizeof *precisions)

/* ---- one row each */

static double number(const json_t *row, const char *key)
{
	return json_number_value(json_object_get(row, key));
}

static const char *text(const json_t *row, const char *key)
{
	return json_string_value(json_object_get(row, key));
}

static void print_row(const char *who, const char *model, const json_t *row)
{
	printf("%-6s %-9s %-7s %2.0f thread%s %9.1f tokens/s (%.1f to %.1f)", who, model,
		text(row, "precision"), number(row, "threads"),
		number(row, "threads") > 1 ? "s" : " ", number(row, "tokens_per_s"),
		number(row, "tokens_per_s_least"), number(row, "tokens_per_s_most"));
	if (json_object_get(row, "gflops"))
		printf("  %6.1f GFLOP/s, %4.1f %% of the library's %.0f", number(row, "gflops"),
			100 * number(row, "gflops") / number(row, "peak_gflops"),
			number(row, "peak_gflops"));
	printf("  %6.0f MiB\n", number(row, "rss_mib"));
	fflush(stdout);
}

static void ours(json_t *runs, int load, unsigned threads, enum precision p)
{
	const char *precision = help_bench_precision(p);
	char number_text[16];
	snprintf(number_text, sizeof number_text, "%u", threads);
	json_t *row = help_bench_ask((const char *const[]){"/proc/self/exe", loads[load].name,
					     number_text, precision, NULL},
		STEP_NS);
	if (!row)
		help_bench_die(
			"%s in %s by %u threads failed", loads[load].name, precision, threads);
	if (json_array_size(runs) < PRECISIONS)
		puts(text(row, "device"));
	print_row("ours", loads[load].name, row);
	json_array_append_new(runs, row);
}

/* The row's rate, or 0 when PyTorch is not there. */
static double torch(json_t *rows, int load, enum precision p, const char *seconds)
{
	const char *precision = help_bench_precision(p);
	const struct model_config *m = &loads[load].model;
	const char *python = getenv("TORCH") ? getenv("TORCH") : "/usr/bin/python3";
	uint32_t values[] = {m->layers, m->width, m->heads, m->context, m->vocab, loads[load].batch,
		loads[load].seq, THREADS};
	enum { VALUES = sizeof values / sizeof *values };
	char texts[VALUES][16];
	const char *argv[VALUES + 5] = {python, "tests/bench_torch.py"};
	for (int i = 0; i < VALUES; i++) {
		snprintf(texts[i], sizeof texts[i], "%u", values[i]);
		argv[2 + i] = texts[i];
	}
	argv[2 + VALUES] = precision;
	argv[3 + VALUES] = seconds;
	json_t *row = help_bench_ask(argv, STEP_NS);
	if (!row) {
		fprintf(stderr, "bench_compute: PyTorch failed with %s in %s\n", loads[load].name,
			precision);
		return 0;
	}
	print_row("torch", loads[load].name, row);
	json_object_set_new(row, "model", json_string(loads[load].name));
	json_array_append_new(rows, row);
	return number(row, "tokens_per_s");
}

static bool torch_there(void)
{
	const char *python = getenv("TORCH") ? getenv("TORCH") : "/usr/bin/python3";
	return strcmp(python, "none") != 0 && help_bench_works((const char *const[]){python, "-c",
						      "import importlib.util, sys; sys.exit(not "
						      "importlib.util.find_spec('torch'))",
						      NULL});
}

static double llmc(void)
{
	const char *path = getenv("LLMC");
	if (!path)
		return 0;
	double ms = help_bench_llmc(path, THREADS);
	if (ms <= 0)
		return 0;
	double tokens = (double)loads[SHORT].batch * loads[SHORT].seq / ms * 1e3;
	printf("%-6s %-9s %-7s %2d threads %9.1f tokens/s\n", "llm.c", loads[SHORT].name, "float32",
		THREADS, tokens);
	return tokens;
}

/* ---- telling */

static const json_t *find(const json_t *runs, int load, unsigned threads, enum precision p)
{
	size_t i;
	json_t *row;
	json_array_foreach(runs, i,
		row) if (!strcmp(text(row, "model"), loads[load].name) &&
			 number(row, "threads") == threads &&
			 !strcmp(text(row, "precision"), help_bench_precision(p))) return row;
	return NULL;
}

static void print_ops(const json_t *row)
{
	const char *name;
	json_t *ways, *one;
	double rest = number(row, "step_ms");
	size_t i;
	printf("\n%s %s, %.0f threads: a step of %.1f ms; bounds %.0f GFLOP/s and %.0f GB/s\n",
		text(row, "model"), text(row, "precision"), number(row, "threads"), rest,
		number(row, "peak_gflops"), number(row, "memory_gbs"));
	printf("%-15s  %9s %6s %7s %6s %8s   and backward\n", "forward", "ms", "% step", "GFLOP/s",
		"GB/s", "of bound");
	json_object_foreach(json_object_get(row, "ops"), name, ways)
	{
		printf("%-15s", name);
		json_array_foreach(ways, i, one)
		{
			double ms = number(one, "ms");
			printf("  %9.2f %6.2f %7.1f %6.1f %8.3f ", ms,
				100 * ms / number(row, "step_ms"), number(one, "gflops"),
				number(one, "gbs"), number(one, "of_bound"));
			rest -= ms;
		}
		putchar('\n');
	}
	printf("%-15s  %9.2f %6.2f\n", "between ops", rest, 100 * rest / number(row, "step_ms"));
}

/* Milliseconds of the op's both ways, and what it does in them. */
static double op_ms(const json_t *row, const char *op, double *gflop)
{
	double ms = 0;
	size_t i;
	json_t *one;
	json_array_foreach(json_object_get(json_object_get(row, "ops"), op), i, one)
	{
		ms += number(one, "ms");
		*gflop += number(one, "gflops") * number(one, "ms") / 1e3;
	}
	return ms;
}

/* " key=value", or none when one of the two is missing. */
static void tell(const char *key, double over, double under)
{
	if (over > 0 && under > 0)
		printf(" %s=%.3f", key, over / under);
	else
		printf(" %s=none", key);
}

static void tell_all(const json_t *runs, double torch_rate, double llmc_rate)
{
	const json_t *f32 = find(runs, SHORT, THREADS, PRECISION_float32),
		     *f32_long = find(runs, LONG, THREADS, PRECISION_float32);
	double mine = number(f32, "tokens_per_s"), gflop = 0, linear = op_ms(f32, "linear", &gflop);
	printf("bench: compute f32_tok_s=%.1f", mine);
	if (torch_rate > 0)
		printf(" torch_f32_tok_s=%.1f", torch_rate);
	else
		printf(" torch_f32_tok_s=none");
	tell("vs_torch_f32", mine, torch_rate);
	tell("vs_llmc", mine, llmc_rate);
	tell("bf16_over_f32_t1024",
		number(find(runs, LONG, THREADS, PRECISION_bf16), "tokens_per_s"),
		number(f32_long, "tokens_per_s"));
	tell("gemm_of_peak", gflop / linear * 1e3, number(f32, "peak_gflops"));
	tell("non_gemm_share", number(f32, "step_ms") - linear, number(f32, "step_ms"));
	printf(" rss_gib=%.2f", number(f32_long, "rss_mib") / 1024);
	tell("bf16_over_f32_t64",
		number(find(runs, SHORT, THREADS, PRECISION_bf16), "tokens_per_s"), mine);
	putchar('\n');
}

static void save(json_t *all)
{
	mkdir("build", 0777);
	mkdir("build/bench", 0777);
	if (json_dump_file(all, "build/bench/compute.json", JSON_INDENT(1)) != 0)
		help_bench_die("build/bench/compute.json cannot be written");
	json_decref(all);
}

/* ---- the order of it */

static double better(double a, double b)
{
	return a > b ? a : b;
}

/* The references stand before and after ours, and the better of the two counts, so that another's
 * load on the machine does not flatter us. */
static void compare(json_t *runs, json_t *others)
{
	bool with_torch = torch_there();
	double llmc_rate = llmc(),
	       torch_rate = with_torch ? torch(others, SHORT, PRECISION_float32, "6") : 0;
	for (size_t p = 0; p < PRECISIONS; p++)
		ours(runs, SHORT, THREADS, precisions[p]);
	if (with_torch) {
		torch_rate = better(torch_rate, torch(others, SHORT, PRECISION_float32, "6"));
		torch(others, SHORT, PRECISION_bf16, "5");
	}
	llmc_rate = better(llmc_rate, llmc());
	for (int load = DEMO; load <= SMALL; load++)
		for (unsigned t = 1; t <= THREADS; t++)
			for (size_t p = 0; p < PRECISIONS; p++)
				ours(runs, load, t, precisions[p]);
	if (with_torch)
		torch(others, SMALL, PRECISION_float32, "5");
	for (size_t p = 0; p < PRECISIONS; p++) {
		ours(runs, SHORT, 1, precisions[p]);
		ours(runs, LONG, THREADS, precisions[p]);
		if (with_torch)
			torch(others, LONG, precisions[p], "1");
	}
	for (int load = SHORT; load <= LONG; load++)
		for (size_t p = 0; p < PRECISIONS; p++)
			print_ops(find(runs, load, THREADS, precisions[p]));
	save(json_pack(
		"{s:O,s:O,s:f}", "runs", runs, "torch", others, "llmc_tokens_per_s", llmc_rate));
	putchar('\n');
	tell_all(runs, torch_rate, llmc_rate);
}

/* bench_compute LOAD THREADS PRECISION: one row, as the whole calls itself. */
static int one(const char *load, const char *threads, const char *precision)
{
	for (int i = 0; i < LOADS; i++)
		for (size_t p = 0; p < PRECISIONS; p++) {
			if (strcmp(load, loads[i].name) ||
				strcmp(precision, help_bench_precision(precisions[p])))
				continue;
			json_t *row = help_bench_step(
				&loads[i], (unsigned)strtoul(threads, NULL, 10), precisions[p]);
			json_dumpf(row, stdout, JSON_COMPACT);
			putchar('\n');
			json_decref(row);
			return 0;
		}
	help_bench_die("no load is called %s, or no precision %s", load, precision);
}

int main(int argc, char **argv)
{
	if (argc == 4)
		return one(argv[1], argv[2], argv[3]);
	json_t *runs = json_array(), *others = json_array();
	compare(runs, others);
	json_decref(runs);
	json_decref(others);
	return 0;
}
