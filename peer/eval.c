/* shoal-peer eval: the loss of a saved model on the validation part of prepared data. */
#include <math.h>
#include <stdio.h>
#include "base/program.h"
#include "peer/command.h"
#include "peer/dataset.h"
#include "peer/saved.h"
#include "peer/trainer.h"

static struct {
	const char *data, *backend;
	int64_t threads, windows;
} opt;

static const struct option_row rows[] = {
	{"data", OPTION_text, &opt.data, NULL, 0, 0, "folder made by shoal-coordinator prepare"},
	{"backend", OPTION_text, &opt.backend, "cpu", 0, 0, "device to compute on"},
	{"threads", OPTION_int, &opt.threads, "0", 0, 1024,
		"compute threads; 0: one per core allowed here"},
	{"windows", OPTION_int, &opt.windows, "0", 0, 1e9, "validation windows to look at; 0: all"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-peer eval STATE|FOLDER --data DIR\n\n"
	"STATE is a saved state, a snapshot, or a folder of them; FOLDER a Hugging Face model "
	"(config.json\nand safetensors), on text prepared with its tokenizer.  Losses are nats: "
	"val_loss per byte,\nval_loss_token per token; perplexity is e to the power of either.  "
	"Windows are as long as the\nspec's train.seq; of a folder as its context, at most 1024 "
	"tokens.\n";

static const char examples[] = "  shoal-peer eval run --data data\n"
			       "  shoal-peer eval gpt2 --data data --windows 50\n";

/* With other ids the loss would be that of noise. */
static enum err check_tokenizer(const struct saved *s, const struct dataset *d, struct why *why)
{
	struct tokenizer *t = NULL;
	enum err e = saved_tokenizer(s, &t, why);
	if (e || !t)
		return e;
	struct hash own = tokenizer_hash(t);
	if (!hash_equal(&own, &d->manifest->tokenizer))
		e = err_why(why, ERR_hash,
			"%s was prepared with another tokenizer than the one in %s: prepare it "
			"with --tokenizer %s",
			opt.data, s->path, s->path);
	tokenizer_free(t);
	return e;
}

static enum err evaluate(const char *path, struct trainer_validation *v, struct why *why)
{
	struct saved s;
	struct dataset data = {0};
	struct trainer *t = NULL;
	enum err e = saved_open(path, &s, why);
	if (!e)
		e = dataset_open(opt.data, s.spec, true, &data, why);
	if (!e)
		e = check_tokenizer(&s, &data, why);
	struct trainer_config how = {.spec = s.spec,
		.corpus = data.corpus,
		.backend = opt.backend,
		.threads = (unsigned)opt.threads};
	if (!e)
		e = trainer_new(&how, &t, why);
	if (!e)
		e = saved_load(&s, t, why);
	if (!e)
		e = trainer_validate(t, (uint64_t)opt.windows, v, why);
	if (!e && !v->tokens)
		e = err_why(why, ERR_missing, "%s has no validation part of at least %u tokens",
			opt.data, s.spec->train.seq);
	trainer_free(t);
	dataset_release(&data);
	saved_release(&s);
	return e;
}

int eval_command(int argc, char **argv)
{
	const char *words[1];
	size_t n;
	struct why why;
	const struct program_options options = {.program = COMMAND_PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.examples = examples,
		.words = words,
		.max_words = 1};
	int status;
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	if (n != 1 || !opt.data) {
		(void)err_why(&why, ERR_usage, "%s is missing: shoal-peer eval STATE --data DIR",
			n ? "--data DIR" : "STATE");
		return program_fail(COMMAND_PROGRAM, argv[0], &why);
	}
	struct trainer_validation v;
	if (evaluate(words[0], &v, &why))
		return program_fail(COMMAND_PROGRAM, argv[0], &why);
	printf("eval: val_loss=%.4f val_loss_token=%.4f perplexity=%.3f perplexity_byte=%.3f "
	       "tokens=%llu\n",
		v.per_byte, v.per_token, exp(v.per_token), exp(v.per_byte),
		(unsigned long long)v.tokens);
	return PROGRAM_ok;
}
