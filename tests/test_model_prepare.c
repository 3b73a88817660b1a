/* From a text to a corpus and back to the text; and what is said when there is none to be had. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/json.h"
#include "base/rng.h"
#include "model/corpus.h"
#include "model/prepare.h"
#include "tests/help_model.h"
#include "tests/help_vocabulary.h"

static struct prepare usual(const char *const *texts, size_t n)
{
	return (struct prepare){.texts = texts,
		.n_texts = n,
		.dir = help_model_path("out"),
		.vocab = 256,
		.validation = 0.05,
		.seq = 16,
		.shard_bytes = PREPARE_SHARD_BYTES};
}

static struct prepare_summary prepared(const struct prepare *p)
{
	struct prepare_summary s;
	struct why why = {0};
	if (prepare(p, &s, &why))
		fail_msg("%s", why.text);
	return s;
}

static struct manifest *listed(const struct prepare_summary *s)
{
	struct manifest *m = NULL;
	struct why why = {0};
	if (manifest_load(help_model_path("out/manifest.json"), &m, &why))
		fail_msg("%s", why.text);
	assert_true(hash_equal(&m->id, &s->manifest));
	return m;
}

static void decode(const struct corpus *c, const int32_t *ids, size_t n, struct buf *out)
{
	struct why why = {0};
	for (size_t i = 0; i < n; i++) {
		uint32_t id = (uint32_t)ids[i];
		if (tokenizer_decode(corpus_tokenizer(c), &id, 1, out, &why))
			fail_msg("%s", why.text);
	}
}

/* Training windows are somewhere in the text, each with the target behind it. */
static void assert_training(const struct corpus *c, const char *text, size_t n)
{
	int32_t tokens[16], targets[16];
	struct corpus_order o = {.seed = 1, .seq = 16};
	struct buf back;
	buf_init(&back, n);
	for (uint64_t s = 0; s < 40; s++) {
		assert_int_equal(corpus_sequence(c, &o, s, tokens, targets), ERR_OK);
		buf_clear(&back);
		decode(c, tokens, 16, &back);
		decode(c, &targets[15], 1, &back);
		assert_non_null(memmem(text, n, back.data, back.len));
	}
	buf_release(&back);
}

/* One window over the whole validation split is its text. */
static void assert_validation(const struct corpus *c, const char *text, size_t n)
{
	uint32_t seq = (uint32_t)corpus_manifest(c)->validation.tokens - 1;
	int32_t *tokens = alloc_must(seq * sizeof *tokens),
		*targets = alloc_must(seq * sizeof *targets);
	struct buf back;
	buf_init(&back, n);
	assert_int_equal(corpus_validation(c, seq, 0, tokens, targets), ERR_OK);
	decode(c, tokens, seq, &back);
	decode(c, &targets[seq - 1], 1, &back);
	assert_int_equal(back.len, n);
	assert_memory_equal(back.data, text, n);
	buf_release(&back);
	free(tokens);
	free(targets);
}

static void assert_corpus(const struct prepare_summary *s, const char *text)
{
	struct manifest *m = listed(s);
	struct corpus *c = NULL;
	struct why why = {0};
	if (corpus_open(help_model_path("out/blobs"), m, true, &c, &why))
		fail_msg("%s", why.text);
	size_t n = strlen(text);
	assert_int_equal(s->text_bytes, n);
	assert_int_equal(s->train_bytes + s->validation_bytes, n);
	assert_int_equal(m->train.text_bytes, s->train_bytes);
	assert_int_equal(m->train.tokens, s->train_tokens);
	assert_int_equal(m->train.n_shards, s->train_shards);
	assert_int_equal(m->validation.tokens, s->validation_tokens);
	assert_int_equal(s->validation_bytes, (size_t)((double)n * 0.05));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(m->micronats[i], llround(1e6 * s->entropy[i]));
	assert_true(s->held_out[0] > s->held_out[2] && s->held_out[2] > 0);
	assert_training(c, text, s->train_bytes);
	assert_validation(c, text + s->train_bytes, s->validation_bytes);
	corpus_free(c);
	manifest_free(m);
}

static const char *put_text(const char *name, const char *text)
{
	help_model_write(name, text, strlen(text));
	return help_model_path(name);
}

static void bytes_become_a_corpus(void **state)
{
	(void)state;
	const char *text = help_model_prose(1, 30000);
	const char *texts[] = {put_text("a.txt", text)};
	struct prepare p = usual(texts, 1);
	struct prepare_summary s = prepared(&p);
	assert_int_equal(s.vocab, 256);
	assert_int_equal(s.train_tokens, s.train_bytes);
	assert_int_equal(s.train_shards, 1);
	assert_corpus(&s, text);
	/* Two shards, the tokenizer, the manifest. */
	assert_int_equal(help_model_entries("out/blobs"), 4);
	p.shard_bytes = 1000;
	struct prepare_summary again = prepared(&p);
	assert_int_equal(again.train_shards, (s.train_bytes + 999) / 1000);
	assert_false(hash_equal(&again.manifest, &s.manifest));
	assert_true(hash_equal(&again.tokenizer, &s.tokenizer));
	assert_corpus(&again, text);
}

static void a_bpe_is_learned_and_used_again(void **state)
{
	(void)state;
	const char *text = help_model_prose(2, 60000);
	const char *texts[] = {put_text("a.txt", text)};
	struct prepare p = usual(texts, 1);
	p.vocab = 320;
	p.shard_bytes = 2001; /* an odd number of bytes: 1000 ids */
	struct prepare_summary s = prepared(&p);
	assert_int_equal(s.vocab, 320);
	assert_true(s.train_tokens * 2 < s.train_bytes);
	assert_int_equal(s.train_shards, (s.train_tokens + 999) / 1000);
	assert_corpus(&s, text);
	char hex[HASH_HEX], path[100];
	hash_hex(&s.tokenizer, hex);
	snprintf(path, sizeof path, "out/blobs/%s", hex);
	p.tokenizer = help_model_path(path);
	p.vocab = 256;
	struct prepare_summary same = prepared(&p);
	assert_true(hash_equal(&same.manifest, &s.manifest));
}

/* Several files are one text, whatever the borders; the words at the borders too. */
static void files_are_joined(void **state)
{
	(void)state;
	const char *text = help_model_prose(3, 20000);
	char *copy = alloc_must_strdup(text);
	const char *whole[] = {put_text("whole", text)}, *parts[4];
	parts[3] = put_text("4", copy + 19001);
	copy[19001] = 0;
	parts[2] = put_text("3", copy + 777);
	copy[777] = 0;
	parts[0] = put_text("1", copy);
	parts[1] = put_text("2", "");
	free(copy);
	struct prepare p = usual(whole, 1);
	p.vocab = 300;
	struct prepare_summary s = prepared(&p);
	p.texts = parts;
	p.n_texts = 4;
	struct prepare_summary joined = prepared(&p);
	assert_true(hash_equal(&joined.manifest, &s.manifest));
}

/* More than one window of the reader: the pieces at its borders must come out as in one go. */
static void windows_leave_no_trace(void **state)
{
	(void)state;
	size_t n = (11u << 19) + 12345;
	char *text = help_model_prose(4, n);
	memset(text + (5u << 20) - 100, 'a', 500);
	help_model_write("big", text, n);
	const char *texts[] = {help_model_path("big")};
	struct prepare p = usual(texts, 1);
	p.vocab = 300;
	p.validation = 0;
	struct prepare_summary s = prepared(&p);
	assert_int_equal(s.validation_shards, 0);
	struct manifest *m = listed(&s);
	struct corpus *c = NULL;
	assert_int_equal(corpus_open(help_model_path("out/blobs"), m, true, &c, NULL), ERR_OK);
	struct tokens ids = {0};
	assert_int_equal(tokenizer_encode(corpus_tokenizer(c), text, n, &ids), ERR_OK);
	assert_int_equal(ids.len, m->train.tokens);
	corpus_free(c);
	manifest_free(m);
	free(ids.id);
}

/* The training windows, which are nearly all of it, hold these ids. */
static void assert_ids(const struct prepare_summary *s, const struct tokens *ids)
{
	struct manifest *m = listed(s);
	struct corpus *c = NULL;
	assert_int_equal(corpus_open(help_model_path("out/blobs"), m, true, &c, NULL), ERR_OK);
	struct corpus_order o = {.seed = 1, .seq = 1000};
	int32_t tokens[1000], targets[1000];
	assert_int_equal(m->train.tokens, ids->len);
	for (uint64_t i = 0; i < corpus_sequences(c, CORPUS_train, o.seq); i++) {
		assert_int_equal(corpus_sequence(c, &o, i, tokens, targets), ERR_OK);
		assert_memory_equal(tokens, ids->id + corpus_start(c, &o, i), sizeof tokens);
	}
	corpus_free(c);
	manifest_free(m);
}

/* GPT-2's rule knows no longest piece: runs without a border, longer than a tile, and more than a
 * window of text give the ids of one go, whatever the number of threads. */
static void threads_and_tiles_leave_no_trace(void **state)
{
	(void)state;
	struct vocabulary v;
	struct buf words, merges;
	assert_true(help_vocabulary(&v));
	help_vocabulary_files(&v, &words, &merges);
	help_model_write("encoder.json", words.data, words.len);
	help_model_write("vocab.bpe", merges.data, merges.len);
	size_t n = 6u << 20;
	char *text = help_model_prose(9, n);
	memset(text + 100000, 'a', 700000);
	memset(text + 900000, ' ', 300000);
	for (size_t i = 1300000; i < 2300000; i++) /* no word and no line ends here */
		text[i] = "\xe6\x97\xa5\xe3\x80\x82"[i % 6];
	for (size_t i = n - 1000000; i < n; i++)
		text[i] = (char)rng_u32(3, 1, i);
	help_model_write("big", text, n);
	const char *texts[] = {help_model_path("big")};
	struct prepare p = usual(texts, 1);
	p.validation = 0;
	p.tokenizer = help_model_path("");
	p.threads = 1;
	struct prepare_summary one = prepared(&p);
	p.threads = 3;
	struct prepare_summary three = prepared(&p);
	assert_true(hash_equal(&one.manifest, &three.manifest));
	struct tokenizer *t = NULL;
	struct tokens ids = {0};
	assert_int_equal(tokenizer_new_words(TOKENIZER_gpt2, false, &v, &t, NULL), ERR_OK);
	assert_int_equal(tokenizer_encode(t, text, n, &ids), ERR_OK);
	struct hash name = tokenizer_hash(t);
	assert_true(hash_equal(&name, &one.tokenizer));
	assert_ids(&one, &ids);
	free(ids.id);
	tokenizer_free(t);
	buf_release(&words);
	buf_release(&merges);
}

/* Bytes that are no UTF-8, and zeros, train as bytes. */
static void any_bytes_will_do(void **state)
{
	(void)state;
	uint8_t bytes[5000];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)rng_u32(1, 1, i);
	help_model_write("noise", bytes, sizeof bytes);
	const char *texts[] = {help_model_path("noise")};
	struct prepare p = usual(texts, 1);
	struct prepare_summary s = prepared(&p);
	assert_int_equal(s.train_tokens + s.validation_tokens, sizeof bytes);
	p.vocab = 300;
	s = prepared(&p);
	assert_true(s.vocab > 256);
}

struct heard {
	uint64_t calls, done;
	const char *stage;
	unsigned stages;
};

static void hear(void *arg, const char *stage, uint64_t done, uint64_t total)
{
	struct heard *h = arg;
	bool next = !h->stage || strcmp(h->stage, stage) != 0;
	assert_true(done <= total);
	assert_true(next || done >= h->done);
	*h = (struct heard){h->calls + 1, done, stage, h->stages + next};
}

static void progress_is_told(void **state)
{
	(void)state;
	const char *texts[] = {put_text("a", help_model_prose(5, 50000))};
	struct heard heard = {0};
	struct prepare p = usual(texts, 1);
	p.vocab = 256 + 64;
	p.progress = hear;
	p.arg = &heard;
	prepared(&p);
	assert_int_equal(heard.stages, 3);
	assert_string_equal(heard.stage, "encoding");
	assert_int_equal(heard.done, strlen(help_model_prose(5, 50000)));
}

/* ---- refusals */

static void assert_refused(const struct prepare *p, enum err code, const char *part)
{
	struct prepare_summary s;
	struct why why = {0};
	assert_int_equal(prepare(p, &s, &why), code);
	help_model_told(&why, code, part);
}

static void bad_texts_are_refused(void **state)
{
	(void)state;
	const char *none[] = {help_model_path("none")}, *folder[] = {help_model_path("")};
	const char *empty[] = {put_text("empty", ""), put_text("empty2", "")};
	const char *tiny[] = {put_text("tiny", "a few words")}, *file = help_model_path("file");
	help_model_write("file", "x", 1);
	struct prepare p = usual(none, 1);
	assert_refused(&p, ERR_missing, "none: No such file");
	p.texts = folder;
	assert_refused(&p, ERR_usage, "is not a regular file");
	p.texts = empty;
	p.n_texts = 2;
	assert_refused(&p, ERR_range, "empty is empty");
	p.n_texts = 0;
	assert_refused(&p, ERR_usage, "no text was given");
	p.n_texts = 1;
	p.texts = tiny;
	assert_refused(&p, ERR_range, "at least 80 are needed for sequences of 16");
	const char *ok[] = {put_text("ok", help_model_prose(1, 300))};
	p.texts = ok;
	assert_refused(&p, ERR_range, "its validation part gives at most 15 tokens");
	p.validation = 0;
	p.vocab = 1000; /* more repeats than the first check knows of */
	p.seq = 55;
	struct stat st;
	assert_int_not_equal(stat(help_model_path("out"), &st), 0);
	assert_refused(&p, ERR_range, "at least 275 are needed for sequences of 55");
	assert_int_equal(help_model_entries("out/blobs"), 0);
	p.seq = 16;
	p.dir = file;
	assert_refused(&p, ERR_exists, "file");
	p.dir = help_model_path("out");
	p.tokenizer = help_model_path("none");
	assert_refused(&p, ERR_missing, "none");
	p.tokenizer = file;
	assert_refused(&p, ERR_syntax, "file: ");
	assert_int_equal(help_model_entries("out"), 1); /* blobs, and no manifest */
}

static void bad_settings_are_refused(void **state)
{
	(void)state;
	const char *texts[] = {put_text("a", help_model_prose(1, 3000))};
	struct prepare p = usual(texts, 1);
	p.vocab = 255;
	assert_refused(&p, ERR_range, "not 255");
	p.vocab = 65537;
	assert_refused(&p, ERR_range, "not 65537");
	p = usual(texts, 1);
	p.validation = 0.51;
	assert_refused(&p, ERR_range, "not 0.51");
	p.validation = NAN;
	assert_refused(&p, ERR_range, "validation share");
	p = usual(texts, 1);
	p.seq = 0;
	assert_refused(&p, ERR_range, "not 0");
	p = usual(texts, 1);
	p.shard_bytes = 1;
	assert_refused(&p, ERR_range, "not 1");
}

/* A disk that is full after so many bytes: nothing of the corpus stays behind. */
static void a_full_disk_leaves_nothing(void **state)
{
	(void)state;
	const char *texts[] = {put_text("a", help_model_prose(1, 30000))};
	struct prepare p = usual(texts, 1);
	p.shard_bytes = 1000; /* which fits, as the manifest of thirty shards does not */
	struct rlimit before, small;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){.rlim_cur = 3000, .rlim_max = before.rlim_max};
	struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
	assert_int_equal(sigaction(SIGXFSZ, &ignore, &old), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	struct prepare_summary s;
	struct why why = {0};
	enum err e = prepare(&p, &s, &why);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(sigaction(SIGXFSZ, &old, NULL), 0);
	assert_int_not_equal(e, ERR_OK);
	assert_int_equal(help_model_entries("out/blobs"), 0);
	assert_int_equal(help_model_entries("out"), 1);
}

/* A blob that was damaged on disk is written again, and what a killed run left goes. */
static void preparing_again_repairs(void **state)
{
	(void)state;
	const char *text = help_model_prose(1, 30000);
	const char *texts[] = {put_text("a", text)};
	struct prepare p = usual(texts, 1);
	struct prepare_summary s = prepared(&p);
	struct manifest *m = listed(&s);
	char hex[HASH_HEX], path[100];
	hash_hex(&m->train.shards[0].hash, hex);
	snprintf(path, sizeof path, "out/blobs/%s", hex);
	help_model_write(path, "spoilt", 6);
	help_model_write("out/blobs/left.by.a.killed.one.tmp", "x", 1);
	help_model_write("out/manifest.json.Qk3TdE.tmp", "x", 1);
	help_model_write("out/of_the_user.tmp", "x", 1);
	manifest_free(m);
	size_t before = help_model_entries("out");
	s = prepared(&p);
	assert_int_equal(help_model_entries("out"), before - 1);
	assert_int_equal(help_model_entries("out/blobs"), 4);
	assert_corpus(&s, text);
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	const char *texts[] = {put_text("a", help_model_prose(1, 3000))};
	struct prepare p = usual(texts, 1);
	p.vocab = 280;
	p.seq = 8;
	struct prepare_summary s;
	enum err e;
	long n = 1;
	do {
		alloc_fail_at(n++);
		e = prepare(&p, &s, NULL);
		alloc_fail_at(0);
		assert_true(e == ERR_OK || e == ERR_nomem);
		if (e && n > 5)
			assert_int_equal(help_model_entries("out/blobs"), 0);
	} while (e);
	assert_true(n > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, help_model_setup, help_model_teardown)
		T(bytes_become_a_corpus),
		T(a_bpe_is_learned_and_used_again),
		T(files_are_joined),
		T(windows_leave_no_trace),
		T(threads_and_tiles_leave_no_trace),
		T(any_bytes_will_do),
		T(progress_is_told),
		T(bad_texts_are_refused),
		T(bad_settings_are_refused),
		T(a_full_disk_leaves_nothing),
		T(preparing_again_repairs),
		T(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
