/* shoal-peer local: train alone from a spec, and resume exactly where a kill left it. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/program.h"
#include "base/progress.h"
#include "base/signal.h"
#include "base/trace.h"
#include "model/checkpoint.h"
#include "model/hfinit.h"
#include "peer/command.h"
#include "peer/dataset.h"
#include "peer/saved.h"
#include "peer/throttle.h"
#include "peer/trainer.h"

#define WORDS_MAX 32
#define STATES_KEPT 2
#define LOSS_DECAY 0.98 /* of the running mean that the progress line shows */

struct options {
	const char *data, *dir, *init, *backend;
	int64_t threads, tokens, windows;
	double share;
	uint64_t memory, save_every, step_time;
};

static struct options opt;

static const struct option_row rows[] = {
	{"data", OPTION_text, &opt.data, NULL, 0, 0, "folder made by shoal-coordinator prepare"},
	{"dir", OPTION_text, &opt.dir, NULL, 0, 0,
		"folder for the saved states; resumes what is there"},
	{"init", OPTION_text, &opt.init, NULL, 0, 0,
		"Hugging Face folder to begin with; fills in the spec's init"},
	{"backend", OPTION_text, &opt.backend, "cpu", 0, 0,
		"device to compute on (shoal-peer bench lists them)"},
	{"threads", OPTION_int, &opt.threads, "0", 0, 1024,
		"compute threads; 0: one per core allowed here"},
	{"cpu-share", OPTION_real, &opt.share, "1", THROTTLE_SHARE_LEAST, 1,
		"share of the time that training may compute, as in 0.5; 1: all"},
	{"memory", OPTION_bytes, &opt.memory, "0", 0, 0,
		"most memory to take, as in 6G; 0: what the machine has left"},
	{"tokens", OPTION_int, &opt.tokens, "0", 0, 1e18,
		"stop after so many tokens; 0: the spec's total_tokens"},
	{"windows", OPTION_int, &opt.windows, "0", 0, 1e9, "validation windows to look at; 0: all"},
	{"save-every", OPTION_seconds, &opt.save_every, "30s", 0, 86400,
		"time between saved states; 0: every step"},
	{"step-time", OPTION_seconds, &opt.step_time, "0", 0, 3600,
		"for tests of slow devices: a step takes at least so long"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-peer local SPEC [PATH=VALUE ...] --data DIR --dir DIR\n\n"
	"Trains alone.  A killed run resumes from the last saved state with the same bits as "
	"an undisturbed one.\n"
	"PATH=VALUE changes a member of the spec, as in train.lr=0.001.\n";

static const char examples[] = "  shoal-coordinator prepare book.txt --out data\n"
			       "  shoal-peer local configs/demo.json --data data --dir run\n";

struct local {
	struct spec *spec;
	struct dataset data;
	struct trainer *trainer;
	struct statefile_series series;
	struct trainer_validation last;
	struct progress progress;
	struct throttle throttle;
	uint64_t *sequences; /* of a step */
	uint64_t cursor;     /* next training sequence */
	uint64_t end;        /* first sequence not trained on */
	uint64_t saved_at_ns, saved_cursor;
	double mean_loss;
	int lock;
};

static uint64_t tokens_of(const struct local *l, uint64_t sequences)
{
	return sequences * l->spec->train.seq;
}

/* The members that the options fill in where the spec has none: the data, the initial weights. */
struct filled {
	const char *sets[WORDS_MAX + 2];
	size_t n;
	char data[32 + HASH_HEX], init[HFINIT_SET];
};

static enum err fill_in(struct local *l, struct filled *f, struct why *why)
{
	size_t given = f->n;
	if (hash_is_zero(&l->spec->manifest)) {
		char hex[HASH_HEX];
		hash_hex(&l->data.manifest->id, hex);
		snprintf(f->data, sizeof f->data, "data.manifest=%s", hex);
		f->sets[f->n++] = f->data;
	}
	if (opt.init && hash_is_zero(&l->spec->init)) {
		enum err e = hfinit_set(opt.init, f->init, why);
		if (e)
			return e;
		f->sets[f->n++] = f->init;
	}
	if (f->n > given) {
		spec_free(l->spec);
		l->spec = NULL;
	}
	return ERR_OK;
}

static enum err load_spec(struct local *l, const char **words, size_t n, struct why *why)
{
	struct filled f = {.n = n - 1};
	struct buf mistakes;
	memcpy(f.sets, words + 1, f.n * sizeof *f.sets);
	buf_init(&mistakes, SPEC_MISTAKES_MAX);
	enum err e = spec_load(words[0], f.sets, f.n, &l->spec, &mistakes, why);
	if (e && mistakes.len)
		fprintf(stderr, "%.*s", (int)mistakes.len, (const char *)mistakes.data);
	buf_release(&mistakes);
	if (!e)
		e = dataset_open(opt.data, l->spec, true, &l->data, why);
	if (!e)
		e = fill_in(l, &f, why);
	if (!e && !l->spec)
		e = spec_load(words[0], f.sets, f.n, &l->spec, NULL, why);
	return e;
}

static enum err take_folder(struct local *l, struct why *why)
{
	enum err e = file_mkdirs(opt.dir, 0755, why);
	if (e)
		return e;
	char *path = alloc_must_printf("%s/lock", opt.dir);
	e = file_lock(path, &l->lock, why);
	free(path);
	return e;
}

/* The folder's state belongs to another run: say in what the specs differ. */
static void tell_difference(const struct local *l)
{
	struct checkpoint there = {0};
	struct why why;
	if (checkpoint_open(opt.dir, &there, NULL, &why)) {
		checkpoint_close(&there);
		return;
	}
	struct buf lines;
	buf_init(&lines, SPEC_MISTAKES_MAX);
	spec_diff(l->spec, there.spec, &lines);
	fprintf(stderr, "The spec differs from the one in %s:\n%.*s", opt.dir, (int)lines.len,
		(const char *)lines.data);
	buf_release(&lines);
	checkpoint_close(&there);
}

/* A fresh start: the seed's parameters are there already. */
static enum err begin(struct local *l, struct why *why)
{
	struct hfmodel *init = NULL;
	if (hash_is_zero(&l->spec->init))
		return ERR_OK;
	enum err e = hfinit_open(opt.init, l->spec, &init, why);
	if (!e)
		e = saved_fill(init, l->trainer, why);
	hfmodel_close(init);
	return e;
}

static enum err resume(struct local *l, struct why *why)
{
	struct statefile *file = NULL;
	struct buf passed;
	uint64_t number, steps = 0;
	buf_init(&passed, 1 << 16);
	l->series = (struct statefile_series){
		.dir = opt.dir, .prefix = "local", .kind = "local", .run = &l->spec->id};
	statefile_sweep(&l->series);
	enum err e = statefile_open_newest(&l->series, &file, &number, &passed, why);
	if (!e)
		saved_tell_passed(&passed);
	buf_release(&passed);
	if (e == ERR_missing)
		return begin(l, why);
	if (e == ERR_wrong_run)
		tell_difference(l);
	if (!e)
		e = saved_number(file, "cursor", &l->cursor, why);
	if (!e)
		e = saved_number(file, "steps", &steps, why);
	if (!e)
		e = trainer_load(l->trainer, file, true, steps, why);
	if (!e)
		log_at(peer, 1, "resuming %s after %llu steps, %llu tokens", l->spec->name,
			(unsigned long long)steps, (unsigned long long)tokens_of(l, l->cursor));
	statefile_close(file);
	return e;
}

static enum err save(struct local *l, struct why *why)
{
	if (l->saved_cursor == l->cursor && l->cursor)
		return ERR_OK;
	char *path = statefile_path(&l->series, trainer_steps(l->trainer));
	json_t *meta = json_pack("{s:I, s:I, s:I}", "cursor", (json_int_t)l->cursor, "steps",
		(json_int_t)trainer_steps(l->trainer), "tokens",
		(json_int_t)tokens_of(l, l->cursor));
	struct statefile_head head = {.kind = "local", .run = l->spec->id, .meta = meta};
	struct statefile_out *out = NULL;
	enum err e = statefile_create(path, &head, &out, why);
	if (!e)
		e = trainer_save(l->trainer, out, true, why);
	if (!e)
		e = statefile_commit(out, why);
	else
		statefile_discard(out);
	json_decref(meta);
	free(path);
	if (e)
		return e;
	statefile_prune(&l->series, STATES_KEPT);
	l->saved_cursor = l->cursor;
	l->saved_at_ns = clock_now_ns();
	return ERR_OK;
}

static enum err validate(struct local *l, struct why *why)
{
	enum err e = trainer_validate(l->trainer, (uint64_t)opt.windows, &l->last, why);
	if (e || !l->last.tokens)
		return e;
	progress_end(&l->progress);
	log_at(peer, 1, "after %llu tokens: validation %.4f nats per token, %.4f per byte",
		(unsigned long long)tokens_of(l, l->cursor), l->last.per_token, l->last.per_byte);
	trace_event("validation", "{s:I, s:f, s:f}", "tokens", (json_int_t)tokens_of(l, l->cursor),
		"per_token", l->last.per_token, "per_byte", l->last.per_byte);
	return ERR_OK;
}

static enum err step(struct local *l, struct why *why)
{
	const struct spec_train *train = &l->spec->train;
	for (uint32_t i = 0; i < train->batch; i++)
		l->sequences[i] = l->cursor + i;
	double loss, lr = spec_lr(train, tokens_of(l, l->cursor + train->batch));
	enum err e = trainer_step(l->trainer, l->sequences, lr, &loss, why);
	if (e)
		return e;
	l->cursor += train->batch;
	l->mean_loss =
		l->mean_loss > 0 ? LOSS_DECAY * l->mean_loss + (1 - LOSS_DECAY) * loss : loss;
	trace_event("step", "{s:I, s:f, s:f}", "tokens", (json_int_t)tokens_of(l, l->cursor),
		"loss", loss, "lr", lr);
	return ERR_OK;
}

static void show(struct local *l, uint64_t began, bool force)
{
	double seconds = clock_seconds(clock_now_ns() - l->progress.start_ns);
	double speed = seconds > 0 ? (double)tokens_of(l, l->cursor - began) / seconds : 0;
	char val[32] = ""; /* nothing was measured yet after a resume */
	if (l->last.tokens)
		snprintf(val, sizeof val, "  val %.3f", l->last.per_token);
	progress_show(&l->progress, (double)l->cursor / (double)l->end, force,
		"%llu tokens  loss %.3f%s  %.0f tokens/s",
		(unsigned long long)tokens_of(l, l->cursor), l->mean_loss, val, speed);
}

/* After a step that began then; a signal ends it at once. */
static void rest(struct local *l, uint64_t began_ns)
{
	const uint64_t now = clock_now_ns(),
		       wait = throttle_wait(&l->throttle, now, now - began_ns);
	struct pollfd signal = {signal_fd(), POLLIN, 0};
	if (wait)
		(void)ppoll(&signal, 1,
			&(struct timespec){.tv_sec = (time_t)(wait / CLOCK_SECOND),
				.tv_nsec = (long)(wait % CLOCK_SECOND)},
			NULL);
}

static bool asked(void *arg)
{
	(void)arg;
	return signal_asked();
}

/* Trains to the end, or until asked to stop; the state is saved in both cases. */
static enum err train(struct local *l, struct why *why)
{
	const struct spec_round *round = &l->spec->round;
	const uint64_t began = l->cursor, batch = l->spec->train.batch;
	uint64_t every =
		(uint64_t)round->validate_every * (round->steps ? round->steps : 100) * batch;
	progress_init(&l->progress, (double)began / (double)l->end);
	l->saved_at_ns = clock_now_ns();
	l->saved_cursor = began;
	enum err e = ERR_OK;
	while (!e && l->cursor < l->end && !signal_asked()) {
		if (every && l->cursor % every == 0)
			e = validate(l, why);
		const uint64_t step_began = clock_now_ns();
		if (!e)
			e = step(l, why);
		if (!e)
			rest(l, step_began);
		if (!e && clock_now_ns() - l->saved_at_ns >= opt.save_every)
			e = save(l, why);
		show(l, began, l->cursor >= l->end);
	}
	progress_end(&l->progress);
	if (e == ERR_interrupted)
		e = ERR_OK; /* a step that was broken off has changed nothing */
	if (e == ERR_not_finite)
		return e;
	struct why later;
	enum err saving = save(l, e ? &later : why);
	return e ? e : saving;
}

static int stopped(const struct local *l)
{
	fprintf(stderr, "Stopped after %llu tokens; the same command goes on from there.\n",
		(unsigned long long)tokens_of(l, l->cursor));
	return PROGRAM_interrupted;
}

static int run(struct local *l, const char **words, size_t n, struct why *why)
{
	if (load_spec(l, words, n, why) || take_folder(l, why))
		return PROGRAM_failed;
	struct trainer_config how = {.spec = l->spec,
		.corpus = l->data.corpus,
		.backend = opt.backend,
		.threads = (unsigned)opt.threads,
		.training = true,
		.memory = opt.memory,
		.stop = asked};
	if (trainer_new(&how, &l->trainer, why) || resume(l, why))
		return PROGRAM_failed;
	l->sequences = alloc_must_zero(l->spec->train.batch, sizeof *l->sequences);
	throttle_init(&l->throttle, opt.share, opt.step_time);
	uint64_t step_tokens = spec_step_tokens(l->spec);
	uint64_t total = opt.tokens ? (uint64_t)opt.tokens : l->spec->train.total_tokens;
	l->end = (total + step_tokens - 1) / step_tokens * l->spec->train.batch;
	char device[200];
	trainer_describe(l->trainer, device, sizeof device);
	log_at(peer, 1, "%s: %llu parameters in %u shards, %llu tokens to train on, %s",
		l->spec->name, (unsigned long long)graph_params(trainer_graph(l->trainer)),
		trainer_shards(l->trainer), (unsigned long long)l->data.manifest->train.tokens,
		device);
	if (train(l, why))
		return PROGRAM_failed;
	if (signal_asked())
		return stopped(l);
	enum err e = validate(l, why);
	if (e)
		return e == ERR_interrupted ? stopped(l) : PROGRAM_failed;
	char *path = statefile_path(&l->series, trainer_steps(l->trainer));
	printf("local: done tokens=%llu steps=%llu val_loss=%.4f val_loss_token=%.4f rss_mib=%.0f "
	       "state=%s\n",
		(unsigned long long)tokens_of(l, l->cursor),
		(unsigned long long)trainer_steps(l->trainer), l->last.per_byte, l->last.per_token,
		(double)memory_peak() / 1048576, path);
	free(path);
	return PROGRAM_ok;
}

int local_command(int argc, char **argv)
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
	const char *missing = n < 1 || strchr(words[0], '=') ? "SPEC"
			      : !opt.data                    ? "--data DIR"
			      : !opt.dir                     ? "--dir DIR"
							     : NULL;
	if (missing) {
		(void)err_why(&why, ERR_usage,
			"%s is missing: shoal-peer local SPEC --data DIR --dir DIR", missing);
		return program_fail(COMMAND_PROGRAM, argv[0], &why);
	}
	struct local l = {.lock = -1};
	status = run(&l, words, n, &why);
	if (status == PROGRAM_failed)
		status = program_fail(COMMAND_PROGRAM, argv[0], &why);
	trainer_free(l.trainer);
	free(l.sequences);
	dataset_release(&l.data);
	spec_free(l.spec);
	if (l.lock >= 0)
		close(l.lock);
	return status;
}
