/* shoal-coordinator prepare: from text to tokens, and optionally a spec that names them. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/option.h"
#include "base/program.h"
#include "base/progress.h"
#include "coordinator/commands.h"
#include "coordinator/human.h"
#include "model/hfmodel.h"
#include "model/prepare.h"
#include "model/spec.h"
#include "model/tokenizer.h"

#define WORDS_MAX 1024
#define SETS_MAX 64
#define BPE_VOCAB 4096
#define SEQ 128

static struct {
	const char *out, *tokenizer, *spec, *write_spec, *init;
	int64_t vocab, seq;
	double validation;
} opt;

static const struct option_row rows[] = {
	{"out", OPTION_text, &opt.out, NULL, 0, 0, "folder for the tokens; made when missing"},
	{"tokenizer", OPTION_text, &opt.tokenizer, "byte", 0, 0,
		"byte, bpe (learned from the text), or the path of one that exists (see above)"},
	{"vocab", OPTION_int, &opt.vocab, "0", 0, TOKENIZER_BPE_VOCAB_MAX,
		"tokens that a bpe may have; 0: 4096"},
	{"validation", OPTION_real, &opt.validation, "0.05", 0, 0.5,
		"share of the text, from its end, that is kept for validation"},
	{"seq", OPTION_int, &opt.seq, "0", 0, 1 << 20,
		"tokens of a sequence, to refuse a text that is too short; 0: the spec's, or 128"},
	{"spec", OPTION_text, &opt.spec, NULL, 0, 0,
		"a spec to fill in: data.manifest, model.vocab"},
	{"write-spec", OPTION_text, &opt.write_spec, NULL, 0, 0, "where the filled in spec goes"},
	{"init", OPTION_text, &opt.init, NULL, 0, 0,
		"Hugging Face folder that the run begins with: fills in init, and model.vocab from "
		"it"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-coordinator prepare TEXT... --out DIR [--spec FILE --write-spec FILE "
	"[PATH=VALUE ...]]\n\n"
	"Turns text files, taken in the given order as one text with nothing between them, into\n"
	"tokens to train on.  What is not UTF-8 is trained on as bytes; <|endoftext|> and other\n"
	"marks are ordinary text.  PATH=VALUE changes a member of the spec; a text with = in its\n"
	"name is given with its folder: ./a=b.txt\n\n"
	"--tokenizer takes GPT-2's encoder.json and vocab.bpe or Hugging Face's vocab.json and\n"
	"merges.txt by their folder; a tokenizer.json (a byte-level BPE that splits as GPT-2 or\n"
	"Llama 3 does) or its folder; or the tokenizer of an earlier prepare.\n";

static const char examples[] =
	"  shoal-coordinator prepare book.txt --out data\n"
	"  shoal-coordinator prepare *.txt --out data --tokenizer bpe --vocab 8192\n"
	"  shoal-coordinator prepare *.txt --out data --tokenizer gpt2/     # encoder.json, "
	"vocab.bpe\n"
	"  shoal-coordinator prepare book.txt --out data --spec configs/demo.json "
	"--write-spec run.json round.steps=10\n";

struct words {
	const char *texts[WORDS_MAX];
	size_t n_texts;
	const char *sets[SETS_MAX + 3]; /* with room for what we add */
	size_t n_sets;
	char manifest[32 + HASH_HEX], vocab[40], init[16 + HASH_HEX]; /* that */
};

static enum err sort_words(const char *const *given, size_t n, struct words *w, struct why *why)
{
	for (size_t i = 0; i < n; i++) {
		size_t name = strcspn(given[i], "=/");
		if (given[i][name] != '=')
			w->texts[w->n_texts++] = given[i];
		else if (!opt.spec)
			return err_why(why, ERR_usage,
				"\"%s\" changes a spec, but there is no --spec; a text of that "
				"name is "
				"given as ./%s",
				given[i], given[i]);
		else if (w->n_sets == SETS_MAX)
			return err_why(why, ERR_usage,
				"more than %d changes to the spec: write them into the file",
				SETS_MAX);
		else
			w->sets[w->n_sets++] = given[i];
	}
	if (!w->n_texts)
		return err_why(why, ERR_usage,
			"no text is given: shoal-coordinator prepare TEXT... --out DIR");
	if (!opt.out)
		return err_why(why, ERR_usage,
			"--out DIR is missing: the folder that receives the tokens");
	if (!opt.spec != !opt.write_spec)
		return err_why(why, ERR_usage,
			"--spec FILE is what is filled in, --write-spec FILE where it goes: give "
			"both");
	if (opt.init && !opt.spec)
		return err_why(why, ERR_usage, "--init goes into a spec: give --spec too");
	return ERR_OK;
}

/* ---- progress */

struct shown {
	const char *stage;
	struct progress line;
};

static void show(void *arg, const char *stage, uint64_t done, uint64_t total)
{
	struct shown *s = arg;
	char most[HUMAN_TEXT];
	if (total == 0)
		return;
	if (!s->stage || strcmp(s->stage, stage)) {
		progress_end(&s->line);
		progress_init(&s->line, 0);
		s->line.shown_ns = s->line.start_ns; /* what is short is worth no line */
		s->stage = stage;
	}
	progress_show(&s->line, (double)done / (double)total, s->line.open && done >= total,
		"%-8s %s", stage,
		human_size(total, strcmp(stage, "learning") ? "B" : "merges", most));
}

/* ---- the spec */

/* With its members in lines.  Reals are shown short where that gives the same spec. */
static char *spec_lines(const json_t *doc)
{
	json_t *again = NULL;
	char *text = json_dumps(doc, JSON_INDENT(8) | JSON_REAL_PRECISION(15));
	bool same = text && !json_parse(text, strlen(text), SPEC_MAX_BYTES, &again, NULL) &&
		    json_equal(doc, again);
	json_decref(again);
	if (same)
		return text;
	free(text);
	return json_dumps(doc, JSON_INDENT(8));
}

static enum err write_spec(const struct spec *s, struct why *why)
{
	json_t *doc = NULL;
	enum err err = json_parse(s->text, strlen(s->text), SPEC_MAX_BYTES, &doc, why);
	if (err)
		return err;
	char *lines = spec_lines(doc), *text = alloc_must_printf("%s\n", lines ? lines : s->text);
	err = file_write(opt.write_spec, text, strlen(text), 0644, why);
	free(text);
	free(lines);
	json_decref(doc);
	return err;
}

static void set_vocab(struct words *w, uint32_t vocab)
{
	snprintf(w->vocab, sizeof w->vocab, "model.vocab=%u", vocab);
	w->sets[w->n_sets++] = w->vocab;
}

/* What is wrong with the spec, or with the model that it begins with, is told before the work. */
static enum err check_spec(struct words *w, struct prepare *p, struct why *why)
{
	struct hfmodel *m = NULL;
	struct spec *s = NULL;
	enum err err = opt.init ? hfmodel_open(opt.init, &m, why) : ERR_OK;
	if (m) {
		char hex[HASH_HEX];
		struct hash h = hfmodel_hash(m);
		hash_hex(&h, hex);
		snprintf(w->init, sizeof w->init, "init=%s", hex);
		w->sets[w->n_sets++] = w->init;
		set_vocab(w, hfmodel_config(m)->vocab);
	}
	if (!err)
		err = spec_load(opt.spec, w->sets, w->n_sets, &s, NULL, why);
	if (!err && m)
		err = hfmodel_suits(m, &s->model, why);
	if (!err && !opt.seq)
		p->seq = s->train.seq;
	spec_free(s);
	hfmodel_close(m);
	return err;
}

static enum err fill_in(struct words *w, const struct prepare_summary *sum, struct why *why)
{
	char hex[HASH_HEX];
	hash_hex(&sum->manifest, hex);
	snprintf(w->manifest, sizeof w->manifest, "data.manifest=%s", hex);
	w->sets[w->n_sets++] = w->manifest;
	if (!opt.init) /* else it is the folder's, which may have rounded it up */
		set_vocab(w, sum->vocab);
	struct spec *s = NULL;
	enum err err = spec_load(opt.spec, w->sets, w->n_sets, &s, NULL, why);
	if (!err && sum->vocab > s->model.vocab)
		err = err_why(why, ERR_spec,
			"the tokenizer has %u ids, the model in %s only %u: give the tokenizer "
			"that belongs to it",
			sum->vocab, opt.init, s->model.vocab);
	if (!err)
		err = write_spec(s, why);
	if (!err) {
		hash_hex(&s->id, hex);
		printf("spec          %s, run %s\n", opt.write_spec, hex);
	}
	spec_free(s);
	return err;
}

/* ---- the whole */

static enum err settings(struct prepare *p, struct why *why)
{
	bool byte = !strcmp(opt.tokenizer, "byte"), bpe = !strcmp(opt.tokenizer, "bpe");
	p->vocab = byte ? TOKENIZER_BYTES : opt.vocab ? (uint32_t)opt.vocab : BPE_VOCAB;
	if (byte && opt.vocab && opt.vocab != TOKENIZER_BYTES)
		return err_why(why, ERR_usage,
			"--vocab %lld needs --tokenizer bpe: bytes are always 256",
			(long long)opt.vocab);
	if (bpe && p->vocab <= TOKENIZER_BYTES)
		return err_why(why, ERR_usage,
			"--vocab %u is too small for a bpe, which begins with the 256 bytes: give "
			"more, "
			"or --tokenizer byte",
			p->vocab);
	if (!byte && !bpe && opt.vocab)
		return err_why(why, ERR_usage,
			"--vocab goes with --tokenizer bpe; the file %s has its own vocabulary",
			opt.tokenizer);
	if (!byte && !bpe)
		p->tokenizer = opt.tokenizer;
	return ERR_OK;
}

static void report(const struct prepare_summary *s)
{
	char a[HUMAN_TEXT], b[HUMAN_TEXT], c[HUMAN_TEXT], hex[HASH_HEX];
	printf("text          %s bytes: %s to train on, %s to validate\n",
		human_count(s->text_bytes, a), human_count(s->train_bytes, b),
		human_count(s->validation_bytes, c));
	printf("tokens        %s to train on, %s to validate, in %zu + %zu shards\n",
		human_count(s->train_tokens, a), human_count(s->validation_tokens, b),
		s->train_shards, s->validation_shards);
	printf("vocabulary    %s, %.2f bytes a token\n", human_count(s->vocab, a),
		s->train_tokens ? (double)s->train_bytes / (double)s->train_tokens : 0.0);
	printf("entropy       unigram %.3f, bigram %.3f, trigram %.3f nats per byte\n",
		s->entropy[0], s->entropy[1], s->entropy[2]);
	if (s->validation_bytes)
		printf("  held out    unigram %.3f, bigram %.3f, trigram %.3f, on the validation "
		       "part\n",
			s->held_out[0], s->held_out[1], s->held_out[2]);
	if (s->zero_bytes)
		printf("note          %s of the bytes are zero: is this plain text?  It is taken "
		       "as it "
		       "is.\n",
			human_count(s->zero_bytes, a));
	hash_hex(&s->manifest, hex);
	printf("prepare: ok manifest=%s bigram=%.4f trigram=%.4f\n", hex, s->entropy[1],
		s->entropy[2]);
}

static enum err run(const char *const *given, size_t n, struct why *why)
{
	static struct words w;
	struct shown shown = {0};
	struct prepare p = {.dir = opt.out,
		.validation = opt.validation,
		.seq = opt.seq ? (uint32_t)opt.seq : SEQ,
		.shard_bytes = PREPARE_SHARD_BYTES,
		.progress = show,
		.arg = &shown};
	enum err err = sort_words(given, n, &w, why);
	if (!err)
		err = settings(&p, why);
	if (err)
		return err;
	if (opt.spec)
		err = check_spec(&w, &p, why);
	if (err)
		return err;
	p.texts = w.texts;
	p.n_texts = w.n_texts;
	struct prepare_summary sum;
	err = prepare(&p, &sum, why);
	progress_end(&shown.line);
	if (err)
		return err;
	err = opt.spec ? fill_in(&w, &sum, why) : ERR_OK;
	if (!err)
		report(&sum);
	return err;
}

int command_prepare(int argc, char **argv)
{
	static const char *given[WORDS_MAX];
	size_t n = 0;
	struct why why = {0};
	const struct program_options options = {.program = COMMAND_PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.examples = examples,
		.words = given,
		.max_words = WORDS_MAX};
	int status;
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	if (run(given, n, &why))
		return program_fail(COMMAND_PROGRAM, argv[0], &why);
	return PROGRAM_ok;
}
