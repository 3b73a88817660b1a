/* shoal-peer generate: writes text with a saved state, one token at a time over a key/value cache.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/program.h"
#include "base/rng.h"
#include "base/signal.h"
#include "kernels/exec.h"
#include "kernels/kvcache.h"
#include "peer/command.h"
#include "peer/sample.h"
#include "peer/saved.h"
#include "peer/trainer.h"

#define RNG_GENERATE 0x67656e65u /* stream */

static struct {
	const char *data, *backend, *prompt;
	int64_t threads, seed, tokens, top_k;
	double temperature, top_p;
} opt;

static const struct option_row rows[] = {
	{"data", OPTION_text, &opt.data, NULL, 0, 0,
		"folder with the tokenizer; without it a FOLDER's own, or ids are bytes"},
	{"prompt", OPTION_text, &opt.prompt, "\n", 0, 0, "text to go on from"},
	{"tokens", OPTION_int, &opt.tokens, "200", 1, 1e6, "how many tokens to write"},
	{"seed", OPTION_int, &opt.seed, "1", 0, 1e18, "same seed, same text"},
	{"temperature", OPTION_real, &opt.temperature, "0.8", 0, 100,
		"0 takes the likeliest token"},
	{"top-k", OPTION_int, &opt.top_k, "0", 0, 1e6, "choose among the k likeliest; 0: all"},
	{"top-p", OPTION_real, &opt.top_p, "0.95", 0.000001, 1,
		"choose among the likeliest that make up this probability"},
	{"backend", OPTION_text, &opt.backend, "cpu", 0, 0, "device to compute on"},
	{"threads", OPTION_int, &opt.threads, "0", 0, 1024,
		"compute threads; 0: one per core allowed here"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-peer generate STATE|FOLDER [--data DIR] [--prompt TEXT]\n\n"
	"STATE is a saved state, a snapshot, or a folder of them; FOLDER a Hugging Face model "
	"(config.json\nand safetensors).\n";

static const char examples[] = "  shoal-peer generate run --data data --prompt 'In the "
			       "beginning' --tokens 300\n";

struct writer {
	struct saved saved;
	struct tokenizer *tokenizer;
	struct trainer *trainer;
	struct graph *one; /* batch 1, one token */
	struct exec *exec;
	struct kvcache *cache;
	float *logits;
	uint32_t *order;
	struct tokens text; /* prompt and what was written */
	uint32_t vocab, context, past;
};

static enum err load_trained(struct writer *w, struct why *why)
{
	char *list = alloc_must_printf("%s/manifest.json", opt.data);
	struct manifest *m = NULL;
	const struct hash *trained = &w->saved.spec->manifest;
	enum err e = manifest_load(list, &m, why);
	free(list);
	if (e)
		return e;
	char hex[HASH_HEX];
	hash_hex(&m->tokenizer, hex);
	char *path = alloc_must_printf("%s/blobs/%s", opt.data, hex);
	if (!hash_is_zero(trained) && !hash_equal(trained, &m->id))
		e = err_why(why, ERR_hash,
			"the model was not trained on the data in %s: name its own with --data",
			opt.data);
	else
		e = tokenizer_load(path, &w->tokenizer, why);
	free(path);
	manifest_free(m);
	return e;
}

/* That of --data; else the folder's own; else bytes. */
static enum err load_tokenizer(struct writer *w, const char *path, struct why *why)
{
	if (opt.data)
		return load_trained(w, why);
	enum err e = saved_tokenizer(&w->saved, &w->tokenizer, why);
	if (e || w->tokenizer)
		return e;
	if (w->saved.spec->model.vocab != TOKENIZER_BYTES)
		return err_why(why, ERR_usage,
			"%s has %u ids and no tokenizer: name the data that it was trained on with "
			"--data",
			path, w->saved.spec->model.vocab);
	return tokenizer_new_byte(&w->tokenizer, why);
}

/* The prompt's ids, and a context that has room for all that is written, if the model's has. */
static enum err read_prompt(struct writer *w, struct why *why)
{
	const struct model_config *model = &w->saved.spec->model;
	w->vocab = model->vocab;
	if (tokenizer_vocab(w->tokenizer) > w->vocab)
		return err_why(why, ERR_shape,
			"the tokenizer has %u ids, the model only %u; name the run's own data with "
			"--data",
			tokenizer_vocab(w->tokenizer), w->vocab);
	if (tokenizer_encode(w->tokenizer, opt.prompt, strlen(opt.prompt), &w->text))
		return err_why(why, ERR_nomem, "no memory for the prompt");
	if (!w->text.len)
		return err_why(why, ERR_range,
			"the prompt is empty; give at least one character with --prompt");
	uint64_t most = w->text.len + (uint64_t)opt.tokens;
	w->context = most < model->context ? (uint32_t)most : model->context;
	return ERR_OK;
}

static enum err prepare(struct writer *w, const char *path, struct why *why)
{
	enum err e = saved_open(path, &w->saved, why);
	if (!e)
		e = graph_build(&w->saved.spec->model, 1, 1, &w->one, why);
	if (!e && w->one->tokens_in == GRAPH_NONE)
		e = err_why(why, ERR_unsupported, "%s is a model of images, not of text", path);
	if (!e)
		e = load_tokenizer(w, path, why);
	if (!e)
		e = read_prompt(w, why);
	if (e)
		return e;
	struct trainer_config how = {
		.spec = w->saved.spec, .backend = opt.backend, .threads = (unsigned)opt.threads};
	e = trainer_new(&how, &w->trainer, why);
	if (!e)
		e = saved_load(&w->saved, w->trainer, why);
	struct params *p = e ? NULL : trainer_params(w->trainer);
	if (!e)
		e = exec_new(w->one, p, EXEC_logits, &w->exec, why);
	if (!e)
		e = kvcache_new(
			params_backend(p), params_device(p), w->one, w->context, &w->cache, why);
	if (e)
		return e;
	w->logits = alloc_must_zero(w->vocab, sizeof *w->logits);
	w->order = alloc_must_zero(w->vocab, sizeof *w->order);
	return ERR_OK;
}

/* Feed one token; the logits are then those of what follows it.  When the context is full, the
 * second half of the text is fed again from position 0: learned positions cannot slide. */
static enum err feed(struct writer *w, size_t at, struct why *why)
{
	if (w->past == w->context) {
		w->past = 0;
		for (size_t i = at - w->context / 2; i < at; i++) {
			enum err e = feed(w, i, why);
			if (e)
				return e;
		}
	}
	int32_t token = (int32_t)w->text.id[at];
	struct exec_batch batch = {.tokens = &token, .cache = w->cache, .past = w->past};
	enum err e = exec_whole(w->exec, &batch, NULL, why);
	w->past++;
	return e;
}

static enum err put(struct writer *w, uint32_t id, struct why *why)
{
	struct buf bytes;
	buf_init(&bytes, 4096);
	enum err e = tokenizer_decode(w->tokenizer, &id, 1, &bytes, why);
	if (!e)
		fwrite(bytes.data, 1, bytes.len, stdout);
	buf_release(&bytes);
	fflush(stdout);
	return e;
}

static enum err write_text(struct writer *w, struct why *why)
{
	struct sample_config how = {
		.temperature = opt.temperature, .top_k = (uint32_t)opt.top_k, .top_p = opt.top_p};
	/* A prompt longer than the context: only its end can matter. */
	size_t at = w->text.len > w->context ? w->text.len - w->context : 0;
	enum err e = ERR_OK;
	for (; !e && at < w->text.len; at++)
		e = feed(w, at, why);
	/* An id that the tokenizer does not have (a model with a rounded-up vocabulary) is never
	 * chosen. */
	uint32_t ids = tokenizer_vocab(w->tokenizer);
	w->text.id =
		alloc_must_resize(w->text.id, w->text.len + (size_t)opt.tokens, sizeof *w->text.id);
	for (int64_t i = 0; !e && i < opt.tokens && !signal_asked(); i++) {
		exec_get(w->exec, w->one->logits, 0, w->vocab, w->logits);
		double u = rng_unit((uint64_t)opt.seed, RNG_GENERATE, (uint64_t)i);
		uint32_t id = sample_token(w->logits, ids, &how, u, w->order);
		w->text.id[w->text.len++] = id;
		e = put(w, id, why);
		if (!e && i + 1 < opt.tokens)
			e = feed(w, w->text.len - 1, why);
	}
	putchar('\n');
	return e;
}

static void release(struct writer *w)
{
	kvcache_free(w->cache);
	exec_free(w->exec);
	graph_free(w->one);
	trainer_free(w->trainer);
	tokenizer_free(w->tokenizer);
	saved_release(&w->saved);
	free(w->logits);
	free(w->order);
	free(w->text.id);
}

int generate_command(int argc, char **argv)
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
	if (n != 1) {
		(void)err_why(
			&why, ERR_usage, "STATE is missing: shoal-peer generate STATE --data DIR");
		return program_fail(COMMAND_PROGRAM, argv[0], &why);
	}
	struct writer w = {0};
	enum err e = prepare(&w, words[0], &why);
	if (!e) {
		fputs(opt.prompt, stdout);
		e = write_text(&w, &why);
	}
	release(&w);
	if (e)
		return program_fail(COMMAND_PROGRAM, argv[0], &why);
	return signal_asked() ? PROGRAM_interrupted : PROGRAM_ok;
}
