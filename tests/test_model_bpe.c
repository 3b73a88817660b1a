/* The BPE trainer against the definition, counted by hand at every step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/rng.h"
#include "model/bpe.h"
#include "tests/help_model.h"

#define BORDER UINT32_MAX /* between pieces */

static struct tokenizer *train(const char *text, size_t n, uint32_t vocab)
{
	struct bpe *b = bpe_new();
	struct tokenizer *t = NULL;
	assert_non_null(b);
	assert_int_equal(bpe_add(b, text, n), ERR_OK);
	assert_int_equal(bpe_train(b, vocab, NULL, NULL, &t), ERR_OK);
	bpe_free(b);
	return t;
}

/* ---- the definition: the text as one row of ids with borders between the pieces */

struct row {
	uint32_t *id;
	size_t n;
};

static struct row row_of(const char *text, size_t n)
{
	struct row r = {alloc_must((2 * n + 1) * sizeof(uint32_t)), 0};
	for (size_t at = 0; at < n;) {
		size_t len = split_piece(SPLIT_bpe, (const uint8_t *)text + at, n - at, false);
		for (size_t i = 0; i < len; i++)
			r.id[r.n++] = (uint8_t)text[at + i];
		r.id[r.n++] = BORDER;
		at += len;
	}
	return r;
}

/* The most frequent pair, of equals the smallest; false when none comes twice. */
static bool best_pair(const struct row *r, uint32_t vocab, struct tokenizer_merge *best)
{
	uint32_t *count = alloc_must_zero((size_t)vocab * vocab, sizeof *count);
	uint32_t most = 1;
	for (size_t i = 0; i + 1 < r->n; i++)
		if (r->id[i] != BORDER && r->id[i + 1] != BORDER)
			count[r->id[i] * vocab + r->id[i + 1]]++;
	for (uint32_t i = 0; i < vocab * vocab; i++)
		if (count[i] > most) {
			most = count[i];
			*best = (struct tokenizer_merge){i / vocab, i % vocab};
		}
	free(count);
	return most > 1;
}

static void replace(struct row *r, const struct tokenizer_merge *m, uint32_t id)
{
	size_t to = 0;
	for (size_t i = 0; i < r->n; to++) {
		bool here = i + 1 < r->n && r->id[i] == m->left && r->id[i + 1] == m->right;
		r->id[to] = here ? id : r->id[i];
		i += here ? 2 : 1;
	}
	r->n = to;
}

static struct tokenizer *train_by_definition(const char *text, size_t n, uint32_t vocab)
{
	struct row r = row_of(text, n);
	struct tokenizer_merge merges[1024];
	uint32_t k = 0;
	while (256 + k < vocab && best_pair(&r, 256 + k, &merges[k])) {
		replace(&r, &merges[k], 256 + k);
		k++;
	}
	free(r.id);
	struct tokenizer *t = NULL;
	assert_int_equal(tokenizer_new_bpe(merges, k, &t, NULL), ERR_OK);
	return t;
}

static void assert_same(struct tokenizer *a, struct tokenizer *b)
{
	assert_string_equal(tokenizer_text(a), tokenizer_text(b));
	tokenizer_free(a);
	tokenizer_free(b);
}

/* ---- tests */

static void merges_equal_the_definition(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 3; seed++) {
		char *text = help_model_prose(seed, 5000);
		size_t n = strlen(text);
		assert_same(train(text, n, 330), train_by_definition(text, n, 330));
	}
}

/* Few letters: overlapping pairs (aaaa), many ties, and the end of what repeats. */
static void repetitions_equal_the_definition(void **state)
{
	(void)state;
	char text[700];
	for (uint64_t seed = 0; seed < 20; seed++) {
		for (size_t i = 0; i < sizeof text; i++)
			text[i] = "aaab c"[rng_below(seed, 0, i, 4 + seed % 3)];
		assert_same(
			train(text, sizeof text, 300), train_by_definition(text, sizeof text, 300));
	}
	memset(text, 'a', sizeof text);
	assert_same(train(text, sizeof text, 300), train_by_definition(text, sizeof text, 300));
}

static void ties_go_to_the_smaller_pair(void **state)
{
	(void)state;
	struct tokenizer *t = train("zy zy\nab ab\n", 12, 257);
	/* "ab" and "zy" come twice each, every other pair once. */
	assert_string_equal(
		tokenizer_text(t), "{\"kind\":\"bpe\",\"merges\":[[97,98]],\"shoal_tokenizer\":1}");
	tokenizer_free(t);
}

static void little_text_gives_few_merges(void **state)
{
	(void)state;
	static const char *const texts[] = {"", "a", "abcdefg", "\xff\xfe"};
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct tokenizer *t = train(texts[i], strlen(texts[i]), 65536);
		assert_int_equal(tokenizer_vocab(t), 256);
		tokenizer_free(t);
	}
	struct tokenizer *t = train("abab", 4, 65536);
	assert_int_equal(tokenizer_vocab(t), 257);
	tokenizer_free(t);
}

/* Cutting the text at piece borders, and the order of its parts, change nothing but first sights.
 */
static void stretches_add_up(void **state)
{
	(void)state;
	char *text = help_model_prose(5, 20000);
	size_t n = strlen(text), at = 0;
	struct bpe *b = bpe_new();
	while (at < n) {
		size_t len = split_piece(SPLIT_bpe, (const uint8_t *)text + at, n - at, false);
		assert_int_equal(bpe_add(b, text + at, len), ERR_OK);
		at += len;
	}
	struct tokenizer *t = NULL;
	assert_int_equal(bpe_train(b, 400, NULL, NULL, &t), ERR_OK);
	bpe_free(b);
	assert_same(t, train(text, n, 400));
}

struct heard {
	uint64_t calls, done, total;
};

static void hear(void *arg, uint64_t done, uint64_t total)
{
	struct heard *h = arg;
	assert_true(done >= h->done && done <= total);
	*h = (struct heard){h->calls + 1, done, total};
}

/* Encoding by the learned merges shortens the text, and long runs are no trouble. */
static void training_text_becomes_shorter(void **state)
{
	(void)state;
	char *text = help_model_prose(6, 50000);
	size_t n = strlen(text);
	struct bpe *b = bpe_new();
	struct heard heard = {0};
	struct tokenizer *t = NULL;
	assert_int_equal(bpe_add(b, text, n), ERR_OK);
	assert_int_equal(bpe_train(b, 256 + 64, hear, &heard, &t), ERR_OK);
	bpe_free(b);
	assert_int_equal(heard.total, 64);
	assert_int_equal(heard.done, 64);
	struct tokens ids = {0};
	assert_int_equal(tokenizer_encode(t, text, n, &ids), ERR_OK);
	assert_true(ids.len * 2 < n);
	struct buf back;
	buf_init(&back, n);
	assert_int_equal(tokenizer_decode(t, ids.id, ids.len, &back, NULL), ERR_OK);
	assert_memory_equal(back.data, text, n);
	buf_release(&back);
	free(ids.id);
	tokenizer_free(t);
}

static enum err try_all(const char *text, size_t n)
{
	struct bpe *b = bpe_new();
	if (!b)
		return ERR_nomem;
	struct tokenizer *t = NULL;
	enum err e = bpe_add(b, text, n);
	if (!e)
		e = bpe_train(b, 320, NULL, NULL, &t);
	bpe_free(b);
	tokenizer_free(t);
	return e;
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	char *text = help_model_prose(8, 3000);
	enum err e;
	long n = 1;
	do {
		alloc_fail_at(n++);
		e = try_all(text, strlen(text));
		assert_true(e == ERR_OK || e == ERR_nomem);
	} while (e);
	assert_true(n > 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, help_model_setup, help_model_teardown)
		T(merges_equal_the_definition),
		T(repetitions_equal_the_definition),
		T(ties_go_to_the_smaller_pair),
		T(little_text_gives_few_merges),
		T(stretches_add_up),
		T(training_text_becomes_shorter),
		T(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
