/*
 * How long a step of dense data parallel takes: our trainer, with an all-reduce of all gradients in
 * every step (tests/help_reduce.h), the baseline of time to a loss on slow links.  One process per
 * rank:
 *
 *	bench_allreduce SPEC [PATH=VALUE ...] --data DIR --rank R --ranks HOST:PORT,HOST:PORT,...
 *
 * RANKS has each rank's own address, where the rank before it connects.  seconds are those of
 * training alone: rank 0 looks at the validation loss between steps, while the others wait.
 * Without arguments: a small model by one rank, and by three on loopback, beside PyTorch's DDP
 * (TORCH=python that has it; none: not asked).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/program.h"
#include "base/rng.h"
#include "model/prepare.h"
#include "peer/dataset.h"
#include "tests/help_bench.h"
#include "tests/help_reduce.h"

#define PROGRAM "bench_allreduce"
#define WORDS_MAX 32
#define PATIENCE (120 * CLOCK_SECOND)

static struct {
	const char *data, *ranks, *wire;
	int64_t rank, steps, threads, validate_every, windows;
} opt;

static const struct option_row rows[] = {
	{"data", OPTION_text, &opt.data, NULL, 0, 0, "folder made by shoal-coordinator prepare"},
	{"ranks", OPTION_text, &opt.ranks, NULL, 0, 0,
		"HOST:PORT of every rank, by commas; none: one rank alone"},
	{"rank", OPTION_int, &opt.rank, "0", 0, HELP_REDUCE_WORLD_MAX - 1, "which of them this is"},
	{"wire", OPTION_text, &opt.wire, "float32", 0, 0, "float32 or bf16"},
	{"steps", OPTION_int, &opt.steps, "10", 1, 1e9, "steps to take"},
	{"threads", OPTION_int, &opt.threads, "0", 0, 1024,
		"compute threads; 0: one per core allowed here"},
	{"validate-every", OPTION_int, &opt.validate_every, "0", 0, 1e9,
		"steps between validation losses; 0: at the end only"},
	{"windows", OPTION_int, &opt.windows, "16", 0, 1e9,
		"validation windows to look at; 0: all"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	PROGRAM " SPEC [PATH=VALUE ...] --data DIR [--rank R --ranks HOST:PORT,...]\n\n"
		"Trains one rank of dense data parallel; without SPEC, small ranks on loopback.\n";

struct rank {
	struct help_reduce_place place;
	const struct spec *spec;
	const struct corpus *corpus;
	int listener; /* of the ring; place.world 1: none */
	char next_host[64];
	uint16_t next_port;
	unsigned threads;
	uint64_t steps, validate_every, windows;
};

/* ---- a rank */

struct sums {
	uint64_t compute_ns, reduce_ns;
	struct help_reduce_step first, last;
};

static double seconds(const struct sums *s)
{
	return clock_seconds(s->compute_ns + s->reduce_ns);
}

/* Of a step; the first one, which also takes the memory, counts only where it is alone. */
static double mean(const struct rank *r, uint64_t sum, uint64_t first)
{
	return r->steps > 1 ? clock_seconds(sum - first) / (double)(r->steps - 1)
			    : clock_seconds(sum);
}

static enum err validate(struct help_reduce *h, const struct rank *r, uint64_t step,
	const struct sums *sums, struct why *why)
{
	struct trainer_validation v;
	enum err e = trainer_validate(help_reduce_trainer(h), r->windows, &v, why);
	if (!e && v.tokens)
		printf("bench: allreduce step=%llu seconds=%.3f val_loss=%.4f\n",
			(unsigned long long)step, seconds(sums), v.per_token);
	return e;
}

static enum err steps(
	struct help_reduce *h, const struct rank *r, struct sums *sums, struct why *why)
{
	enum err e = ERR_OK;
	for (uint64_t i = 0; !e && i < r->steps; i++) {
		struct help_reduce_step s = {0};
		e = help_reduce_step(h, i, &s, why);
		if (e)
			return e;
		sums->compute_ns += s.compute_ns;
		sums->reduce_ns += s.reduce_ns;
		sums->last = s;
		if (i == 0)
			sums->first = s;
		if (r->place.rank > 0)
			continue;
		printf("step %llu: loss %.4f, %.3f s of computing, %.3f s of all-reduce\n",
			(unsigned long long)i + 1, s.loss, clock_seconds(s.compute_ns),
			clock_seconds(s.reduce_ns));
		if (i + 1 == r->steps || (r->validate_every && (i + 1) % r->validate_every == 0))
			e = validate(h, r, i + 1, sums, why);
		fflush(stdout);
	}
	return e;
}

static void tell(struct help_reduce *h, const struct rank *r, const struct sums *s, uint64_t bytes)
{
	char hex[HASH_HEX];
	const double compute = mean(r, s->compute_ns, s->first.compute_ns),
		     reduce = mean(r, s->reduce_ns, s->first.reduce_ns);
	struct hash hash = help_reduce_hash(h);
	hash_hex(&hash, hex);
	printf("bench: allreduce steps=%llu step_s=%.4f loss=%.4f bytes_per_step=%llu hash=%.16s "
	       "compute_s=%.4f reduce_s=%.4f rank=%u world=%u wire=%s tokens_per_step=%llu\n",
		(unsigned long long)r->steps, compute + reduce, s->last.loss,
		(unsigned long long)(bytes / r->steps), hex, compute, reduce, r->place.rank,
		r->place.world, r->place.wire == HELP_REDUCE_bf16 ? "bf16" : "float32",
		(unsigned long long)(r->place.world * spec_step_tokens(r->spec)));
	fflush(stdout);
}

static enum err run_rank(const struct rank *r, struct why *why)
{
	struct help_reduce_ring *ring = NULL;
	struct help_reduce *h = NULL;
	struct sums sums = {0};
	enum err e = ERR_OK;
	if (r->place.world > 1)
		e = help_reduce_join(
			&r->place, r->listener, r->next_host, r->next_port, PATIENCE, &ring, why);
	const struct help_reduce_config how = {.spec = r->spec,
		.corpus = r->corpus,
		.backend = "cpu",
		.threads = r->threads,
		.ring = ring,
		.rank = r->place.rank,
		.world = r->place.world};
	if (!e)
		e = help_reduce_new(&how, &h, why);
	if (!e)
		e = steps(h, r, &sums, why);
	if (!e)
		tell(h, r, &sums, ring ? help_reduce_sent(ring) : 0);
	help_reduce_free(h);
	help_reduce_leave(ring);
	return e;
}

/* ---- one rank of those that the options name */

/* The address of rank `number` in opt.ranks; the number of ranks, 0 for a wrong list. */
static unsigned address(unsigned number, char host[static 64], uint16_t *port)
{
	unsigned n = 0;
	for (const char *at = opt.ranks; at; n++) {
		const char *colon = strchr(at, ':'), *comma = strchr(at, ',');
		char *end = NULL;
		unsigned long value = colon ? strtoul(colon + 1, &end, 10) : 0;
		size_t len = colon ? (size_t)(colon - at) : 0;
		if (!len || len > 63 || value < 1 || value > UINT16_MAX ||
			end != (comma ? comma : at + strlen(at)))
			return 0;
		if (n == number) {
			snprintf(host, 64, "%.*s", (int)len, at);
			*port = (uint16_t)value;
		}
		at = comma ? comma + 1 : NULL;
	}
	return n;
}

static enum err take_place(struct rank *r, struct why *why)
{
	char host[64];
	uint16_t port;
	const unsigned rank = (unsigned)opt.rank;
	bool rough = !strcmp(opt.wire, "bf16");
	if (!rough && strcmp(opt.wire, "float32"))
		return err_why(why, ERR_usage, "--wire must be float32 or bf16, not %s", opt.wire);
	r->place = (struct help_reduce_place){
		rank, 1, rough ? HELP_REDUCE_bf16 : HELP_REDUCE_float32, r->spec->id};
	if (!opt.ranks)
		return ERR_OK;
	unsigned world = address(rank, host, &port);
	if (world < 2 || world > HELP_REDUCE_WORLD_MAX || rank >= world)
		return err_why(why, ERR_usage,
			"--ranks must be 2 to %u of HOST:PORT, and --rank one of them",
			HELP_REDUCE_WORLD_MAX);
	r->place.world = world;
	address((rank + 1) % world, r->next_host, &r->next_port);
	return help_reduce_listen(host, &port, &r->listener, why);
}

static enum err one_rank(const char *const *words, size_t n, struct why *why)
{
	struct spec *spec = NULL;
	struct dataset data = {0};
	struct rank r = {.listener = -1,
		.threads = (unsigned)opt.threads,
		.steps = (uint64_t)opt.steps,
		.validate_every = (uint64_t)opt.validate_every,
		.windows = (uint64_t)opt.windows};
	if (!opt.data)
		return err_why(why, ERR_usage, "--data DIR is missing");
	enum err e = spec_load(words[0], words + 1, n - 1, &spec, NULL, why);
	if (!e)
		e = dataset_open(opt.data, spec, false, &data, why);
	r.spec = spec;
	r.corpus = data.corpus;
	if (!e)
		e = take_place(&r, why);
	if (!e)
		e = run_rank(&r, why);
	if (r.listener >= 0)
		close(r.listener);
	dataset_release(&data);
	spec_free(spec);
	return e;
}

/* ---- small ranks on loopback */

#define RANKS 3u
#define TEXT_BYTES 400000u
#define SMALL_STEPS 8
#define SPEC "configs/demo.json"
static const char *const small[] = {"train.batch=16", "train.micro_batch=16"};

static void must(enum err e, const struct why *why)
{
	if (e)
		help_bench_die("%s", why->text);
}

static void make_text(const char *path)
{
	static const char *const words[] = {
		"light ", "and ", "the ", "deep ", "waters ", "night.\n"};
	struct buf b;
	struct why why;
	buf_init(&b, 2u * TEXT_BYTES);
	for (uint64_t i = 0; b.len < TEXT_BYTES; i++)
		buf_printf(&b, "%s", words[rng_below(5, 1, i, 6)]);
	must(file_write(path, b.data, b.len, 0644, &why), &why);
	buf_release(&b);
}

static void small_data(struct dataset *data, const struct spec *spec)
{
	char folder[] = "/tmp/shoal-bench.XXXXXX";
	struct prepare_summary sum;
	struct why why;
	if (!mkdtemp(folder))
		help_bench_die("no folder under /tmp");
	char *text = alloc_must_printf("%s/text.txt", folder);
	make_text(text);
	const struct prepare how = {.texts = (const char *const *)&text,
		.n_texts = 1,
		.dir = folder,
		.vocab = 256,
		.validation = 0.05,
		.seq = spec->train.seq,
		.shard_bytes = PREPARE_SHARD_BYTES,
		.threads = 1};
	must(prepare(&how, &sum, &why), &why);
	must(dataset_open(folder, spec, false, data, &why), &why);
	help_bench_works((const char *const[]){"rm", "-rf", folder, NULL}); /* it is open */
	free(text);
}

/* Each rank is a process. */
static void small_ranks(const struct rank *like, unsigned world)
{
	struct rank r[RANKS];
	struct why why;
	for (unsigned i = 0; i < world; i++) {
		r[i] = *like;
		r[i].place.rank = i;
		r[i].place.world = world;
		must(help_reduce_listen("127.0.0.1", &r[i].next_port, &r[i].listener, &why), &why);
	}
	uint16_t first = r[0].next_port;
	fflush(stdout);
	for (unsigned i = 0; i < world; i++) {
		r[i].next_port = i + 1 < world ? r[i + 1].next_port : first;
		if (fork() == 0) {
			must(run_rank(&r[i], &why), &why);
			_exit(0);
		}
		close(r[i].listener);
	}
	for (int status; wait(&status) > 0;)
		if (status)
			help_bench_die("a rank failed");
}

static void small_ddp(void)
{
	const char *python = getenv("TORCH") ? getenv("TORCH") : "/usr/bin/python3";
	if (!strcmp(python, "none"))
		return;
	char world[8], steps_text[8];
	snprintf(world, sizeof world, "%u", RANKS);
	snprintf(steps_text, sizeof steps_text, "%d", SMALL_STEPS);
	int status = 0;
	if (fork() == 0) {
		execlp(python, python, "tests/bench_ddp.py", SPEC, "all", world, "127.0.0.1:0",
			steps_text, "1", small[0], (char *)NULL);
		_exit(127);
	}
	if (wait(&status) < 0 || status)
		fprintf(stderr, PROGRAM ": %s does not run tests/bench_ddp.py\n", python);
}

static void loopback(void)
{
	struct spec *spec = NULL;
	struct dataset data = {0};
	struct why why;
	must(spec_load(SPEC, small, sizeof small / sizeof *small, &spec, NULL, &why), &why);
	small_data(&data, spec);
	struct rank like = {.spec = spec,
		.corpus = data.corpus,
		.place = {.run = spec->id},
		.next_host = "127.0.0.1",
		.threads = 1,
		.steps = SMALL_STEPS,
		.windows = 16};
	small_ranks(&like, 1);
	small_ranks(&like, RANKS);
	like.place.wire = HELP_REDUCE_bf16;
	small_ranks(&like, RANKS);
	small_ddp();
	dataset_release(&data);
	spec_free(spec);
}

int main(int argc, char **argv)
{
	const char *words[WORDS_MAX];
	size_t n;
	struct why why;
	int status;
	const struct program_options options = {.program = PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.words = words,
		.max_words = WORDS_MAX};
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	if (n == 0) {
		loopback();
		return PROGRAM_ok;
	}
	enum err e = one_rank(words, n, &why);
	return e ? program_fail(PROGRAM, words[0], &why) : PROGRAM_ok;
}
