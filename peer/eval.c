/* shoal-peer eval: the loss of a saved state on the validation part of its data. */
#include <math.h>
#include <stdio.h>
#include "base/option.h"
#include "model/checkpoint.h"
#include "peer/command.h"
#include "peer/dataset.h"
#include "peer/saved.h"
#include "peer/trainer.h"

static struct {
	const char *data, *backend;
	int64_t threads, windows;
	bool help;
} opt;

static const struct option_row rows[] = {
	{"data", OPTION_text, &opt.data, NULL, 0, 0, "folder made by shoal-coordinator prepare"},
	{"backend", OPTION_text, &opt.backend, "cpu", 0, 0, "device to compute on"},
	{"threads", OPTION_int, &opt.threads, "0", 0, 1024,
		"compute threads; 0: one per core allowed here"},
	{"windows", OPTION_int, &opt.windows, "0", 0, 1e9, "validation windows to look at; 0: all"},
	{"help", OPTION_flag, &opt.help, NULL, 0, 0, "this text"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static enum err evaluate(const char *path, struct trainer_validation *v, struct why *why)
{
	struct checkpoint s = {0};
	struct buf passed;
	struct dataset data = {0};
	struct trainer *t = NULL;
	buf_init(&passed, 1 << 16);
	enum err e = checkpoint_open(path, &s, &passed, why);
	if (!e)
		saved_tell_passed(&passed);
	buf_release(&passed);
	if (!e)
		e = dataset_open(opt.data, s.spec, true, &data, why);
	struct trainer_config how = {.spec = s.spec,
		.corpus = data.corpus,
		.backend = opt.backend,
		.threads = (unsigned)opt.threads};
	if (!e)
		e = trainer_new(&how, &t, why);
	if (!e)
		e = trainer_load(t, s.file, false, 0, why);
	if (!e)
		e = trainer_validate(t, (uint64_t)opt.windows, v, why);
	if (!e && !v->tokens)
		e = err_why(why, ERR_missing, "%s has no validation part of at least %u tokens",
			opt.data, s.spec->train.seq);
	trainer_free(t);
	dataset_release(&data);
	checkpoint_close(&s);
	return e;
}

int eval_command(int argc, char **argv)
{
	const char *words[1];
	size_t n;
	struct why why;
	if (option_read(rows, N_ROWS, argc, argv, words, 1, &n, &why)) {
		fprintf(stderr, "shoal-peer eval: %s\n", why.text);
		return 2;
	}
	if (opt.help) {
		fputs("shoal-peer eval STATE --data DIR\n\nSTATE is a saved state, a snapshot, or "
		      "a folder of them.\n\n",
			stdout);
		option_help(rows, N_ROWS, stdout);
		fputs("\nExample:\n  shoal-peer eval run --data data\n", stdout);
		return 0;
	}
	if (n != 1 || !opt.data) {
		fprintf(stderr,
			"shoal-peer eval: %s is missing: shoal-peer eval STATE --data DIR\n",
			n ? "--data DIR" : "STATE");
		return 2;
	}
	struct trainer_validation v;
	if (evaluate(words[0], &v, &why)) {
		fprintf(stderr, "shoal-peer eval: %s\n", why.text);
		return 1;
	}
	printf("eval: val_loss=%.4f val_loss_token=%.4f perplexity=%.3f tokens=%llu\n", v.per_byte,
		v.per_token, exp(v.per_token), (unsigned long long)v.tokens);
	return 0;
}
