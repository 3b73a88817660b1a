/* The corpus: sequences are the text, each epoch shows every window once, and a shard that is not
 * what the manifest says is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "model/corpus.h"
#include "model/tokenfile.h"
#include "tests/help_model.h"

/* ---- corpora by hand: ids in shards of the given sizes, byte tokenizer or an empty BPE of vocab
 */

static void put_blob(const void *bytes, size_t n, struct hash *name)
{
	char hex[HASH_HEX], path[80];
	*name = hash_of(bytes, n);
	hash_hex(name, hex);
	snprintf(path, sizeof path, "blobs/%s", hex);
	help_model_write(path, bytes, n);
}

static void put_split(struct manifest *m, struct manifest_split *split, const uint32_t *ids,
	size_t n, size_t shard)
{
	split->shards = alloc_must_zero(n / shard + 1, sizeof *split->shards);
	for (size_t at = 0; at < n; at += shard) {
		struct manifest_shard *s = &split->shards[split->n_shards++];
		struct buf b;
		buf_init(&b, 1u << 24);
		s->tokens = n - at < shard ? n - at : shard;
		tokenfile_write(&b, tokenfile_width(m->vocab), ids + at, s->tokens);
		assert_true(buf_ok(&b));
		s->bytes = b.len;
		put_blob(b.data, b.len, &s->hash);
		buf_release(&b);
	}
	split->tokens = split->text_bytes = n;
}

static struct manifest *put_corpus(
	const uint32_t *ids, size_t n_train, size_t n_validation, uint32_t vocab, size_t shard)
{
	struct manifest *m = alloc_must_zero(1, sizeof *m);
	struct tokenizer_merge merges[300];
	struct tokenizer *t = NULL;
	for (uint32_t i = 0; i < 300; i++)
		merges[i] = (struct tokenizer_merge){i % 256, i / 256};
	assert_int_equal(vocab == 256 ? tokenizer_new_byte(&t, NULL)
				      : tokenizer_new_bpe(merges, vocab - 256, &t, NULL),
		ERR_OK);
	assert_int_equal(file_mkdirs(help_model_path("blobs"), 0755, NULL), ERR_OK);
	put_blob(tokenizer_text(t), strlen(tokenizer_text(t)), &m->tokenizer);
	tokenizer_free(t);
	m->vocab = vocab;
	put_split(m, &m->train, ids, n_train, shard);
	put_split(m, &m->validation, ids + n_train, n_validation, shard);
	assert_int_equal(manifest_print(m, NULL), ERR_OK);
	return m;
}

static struct corpus *opened(const struct manifest *m)
{
	struct corpus *c = NULL;
	struct why why = {0};
	if (corpus_open(help_model_path("blobs"), m, true, &c, &why))
		fail_msg("%s", why.text);
	return c;
}

#define IDS 4000
static uint32_t ids[IDS];

static int setup(void **state)
{
	for (size_t i = 0; i < IDS; i++)
		ids[i] = (uint32_t)rng_below(3, 3, i, 256);
	return help_model_setup(state);
}

static void assert_window(const struct corpus *c, const struct corpus_order *o, uint64_t s)
{
	int32_t tokens[64], targets[64];
	uint64_t start = corpus_start(c, o, s);
	assert_int_equal(corpus_sequence(c, o, s, tokens, targets), ERR_OK);
	for (uint32_t i = 0; i < o->seq; i++) {
		assert_int_equal(tokens[i], ids[start + i]);
		assert_int_equal(targets[i], ids[start + i + 1]);
	}
}

/* ---- tests */

static void each_epoch_shows_every_window_once(void **state)
{
	(void)state;
	static const size_t shards[] = {1, 7, 64, IDS};
	static const uint32_t seqs[] = {1, 2, 13, 64};
	for (size_t k = 0; k < 4; k++) {
		size_t n = 500 + k;
		struct manifest *m = put_corpus(ids, n, 0, 256, shards[k]);
		struct corpus *c = opened(m);
		struct corpus_order o = {.seed = 11 + k, .seq = seqs[k]};
		uint64_t per_epoch = corpus_sequences(c, CORPUS_train, o.seq);
		assert_int_equal(per_epoch, n / o.seq - 1);
		for (uint64_t epoch = 0; epoch < 5; epoch++) {
			uint8_t seen[600] = {0};
			uint64_t shift = corpus_start(c, &o, epoch * per_epoch) % o.seq;
			for (uint64_t i = 0; i < per_epoch; i++) {
				uint64_t start = corpus_start(c, &o, epoch * per_epoch + i);
				assert_int_equal(start % o.seq, shift);
				assert_true(start + o.seq + 1 <= n);
				assert_false(seen[start / o.seq]++);
				assert_window(c, &o, epoch * per_epoch + i);
			}
		}
		corpus_free(c);
		manifest_free(m);
	}
}

static void epochs_and_seeds_differ(void **state)
{
	(void)state;
	struct manifest *m = put_corpus(ids, IDS, 0, 256, 1000);
	struct corpus *c = opened(m);
	struct corpus_order a = {.seed = 1, .seq = 32}, b = {.seed = 2, .seq = 32};
	uint64_t n = corpus_sequences(c, CORPUS_train, 32), same_seed = 0, same_epoch = 0,
		 shifts = 0;
	for (uint64_t i = 0; i < n; i++) {
		same_seed += corpus_start(c, &a, i) == corpus_start(c, &b, i);
		same_epoch += corpus_start(c, &a, i) == corpus_start(c, &a, n + i);
	}
	assert_in_range(same_seed, 0, 8);
	assert_in_range(same_epoch, 0, 8);
	for (uint64_t epoch = 0; epoch < 200; epoch++)
		shifts |= 1ull << corpus_start(c, &a, epoch * n) % 32;
	assert_int_equal(shifts, UINT32_MAX); /* every shift comes */
	/* Far into a run the order is as good. */
	assert_window(c, &a, UINT64_MAX);
	corpus_free(c);
	manifest_free(m);
}

/* Every machine must give the same sequence the same text: other numbers break runs. */
static void starts_are_pinned(void **state)
{
	(void)state;
	struct manifest *m = put_corpus(ids, IDS, 0, 256, 1000);
	struct corpus *c = opened(m);
	struct corpus_order o = {.seed = 42, .seq = 64};
	static const uint64_t starts[] = {2532, 2020, 2148, 3172, 2677, 1461, 821, 3253};
	for (uint64_t s = 0; s < 4; s++) {
		assert_int_equal(corpus_start(c, &o, s), starts[s]);
		assert_int_equal(corpus_start(c, &o, 61 + s), starts[4 + s]);
	}
	corpus_free(c);
	manifest_free(m);
}

static void the_shortest_splits_work(void **state)
{
	(void)state;
	for (size_t n = 1; n < 40; n++) {
		struct manifest *m = put_corpus(ids, n, n, 256, 5);
		struct corpus *c = opened(m);
		struct corpus_order o = {.seed = n, .seq = 10};
		int32_t tokens[10], targets[10];
		assert_int_equal(corpus_sequences(c, CORPUS_train, 10), n < 20 ? 0 : n / 10 - 1);
		assert_int_equal(corpus_sequences(c, CORPUS_validation, 10), (n - 1) / 10);
		if (n < 20)
			assert_int_equal(corpus_sequence(c, &o, 0, tokens, targets), ERR_range);
		for (uint64_t s = 0; s < 50 && n >= 20; s++)
			assert_window(c, &o, s);
		for (uint64_t i = 0; i < (n - 1) / 10; i++) {
			assert_int_equal(corpus_validation(c, 10, i, tokens, targets), ERR_OK);
			for (uint64_t k = 0; k < 10; k++) {
				assert_int_equal(tokens[k], ids[n + i * 10 + k]);
				assert_int_equal(targets[k], ids[n + i * 10 + k + 1]);
			}
		}
		assert_int_equal(
			corpus_validation(c, 10, (n - 1) / 10, tokens, targets), ERR_range);
		corpus_free(c);
		manifest_free(m);
	}
}

static void wide_ids_and_liars(void **state)
{
	(void)state;
	int32_t tokens[16], targets[16];
	struct corpus_order o = {.seed = 1, .seq = 16};
	for (size_t i = 0; i < IDS; i++)
		ids[i] = (uint32_t)rng_below(3, 3, i, 300);
	struct manifest *m = put_corpus(ids, 1000, 100, 300, 300);
	struct corpus *c = opened(m);
	assert_int_equal(tokenizer_vocab(corpus_tokenizer(c)), 300);
	assert_ptr_equal(corpus_manifest(c), m);
	for (uint64_t s = 0; s < 100; s++)
		assert_window(c, &o, s);
	corpus_free(c);
	manifest_free(m);
	/* An id beyond the vocabulary, in the tokens or as the last target. */
	for (size_t bad = 0; bad < 33; bad++) {
		uint32_t keep = ids[1000 + bad];
		ids[1000 + bad] = 300 + (uint32_t)bad % 2 * 65235;
		m = put_corpus(ids, 1000, 33, 300, 20);
		c = opened(m);
		enum err first = corpus_validation(c, 16, 0, tokens, targets);
		enum err second = corpus_validation(c, 16, 1, tokens, targets);
		assert_int_equal(first, bad <= 16 ? ERR_range : ERR_OK);
		assert_int_equal(second, bad >= 16 ? ERR_range : ERR_OK);
		corpus_free(c);
		manifest_free(m);
		ids[1000 + bad] = keep;
	}
}

static const char *blob_name(const struct hash *h)
{
	static char name[80];
	char hex[HASH_HEX];
	hash_hex(h, hex);
	snprintf(name, sizeof name, "blobs/%s", hex);
	return name;
}

static void assert_refused(const struct manifest *m, bool verify, enum err code, const char *part)
{
	struct corpus *c = NULL;
	struct why why = {0};
	assert_int_equal(corpus_open(help_model_path("blobs"), m, verify, &c, &why), code);
	help_model_told(&why, code, part);
}

static void bad_blobs_are_named(void **state)
{
	(void)state;
	struct manifest *m = put_corpus(ids, 1000, 100, 256, 400);
	const struct hash *last = &m->train.shards[2].hash;
	size_t n;
	uint8_t *good = help_model_read(blob_name(last), &n);
	assert_int_equal(n, TOKENFILE_HEAD + 200);
	char hex[HASH_HEX];
	hash_hex(last, hex);

	good[n - 1] ^= 1;
	help_model_write(blob_name(last), good, n);
	assert_refused(m, true, ERR_hash, hex);
	struct corpus *c = NULL;
	assert_int_equal(corpus_open(help_model_path("blobs"), m, false, &c, NULL), ERR_OK);
	corpus_free(c);
	good[n - 1] ^= 1;

	help_model_write(blob_name(last), good, n - 1);
	assert_refused(m, false, ERR_truncated, "says that it has 200 ids of 1 bytes, but 199");
	help_model_write(blob_name(last), good, 20);
	assert_refused(m, false, ERR_truncated, "ends within its head");
	good[8] = 2;
	help_model_write(blob_name(last), good, n);
	assert_refused(m, false, ERR_version, "version 2, this program reads version 1");
	good[8] = 1;
	good[0] = 'x';
	help_model_write(blob_name(last), good, n);
	assert_refused(m, false, ERR_magic, "not a token shard");
	good[0] = 'S';
	good[12] = 3;
	help_model_write(blob_name(last), good, n);
	assert_refused(m, false, ERR_range, "ids of 3 bytes");
	good[12] = 1;
	memset(good + 16, 0xff, 8);
	help_model_write(blob_name(last), good, n);
	assert_refused(m, false, ERR_truncated, "18446744073709551615 ids");
	m->train.shards[2].tokens = 201;
	memset(good + 16, 0, 8);
	good[16] = 200;
	help_model_write(blob_name(last), good, n);
	assert_refused(m, false, ERR_shape, "has 200 ids of 1 bytes, the manifest says 201 of 1");
	m->train.shards[2].tokens = 200;
	m->train.shards[2].hash.b[0] ^= 1;
	assert_refused(m, false, ERR_missing, "No such file");
	m->train.shards[2].hash.b[0] ^= 1;
	m->vocab = 200;
	assert_refused(m, false, ERR_shape, "the manifest says 200 ids");
	m->vocab = 256;
	help_model_write(blob_name(&m->tokenizer),
		"{\"kind\":\"bpe\",\"merges\":[],\"shoal_tokenizer\":1}", 46);
	assert_refused(m, false, ERR_hash, "not the tokenizer of its name");
	manifest_free(m);
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	struct manifest *m = put_corpus(ids, 1000, 100, 256, 400);
	enum err e;
	long n = 1;
	do {
		struct corpus *c = NULL;
		alloc_fail_at(n++);
		e = corpus_open(help_model_path("blobs"), m, true, &c, NULL);
		alloc_fail_at(0);
		corpus_free(c);
		assert_true(e == ERR_OK || e == ERR_nomem);
	} while (e);
	assert_true(n > 3);
	manifest_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, help_model_teardown)
		T(each_epoch_shows_every_window_once),
		T(epochs_and_seeds_differ),
		T(starts_are_pinned),
		T(the_shortest_splits_work),
		T(wide_ids_and_liars),
		T(bad_blobs_are_named),
		T(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
