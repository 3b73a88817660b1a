/* Tokenizers of the kinds gpt2 and llama3: merges by rank in pieces of any length, any bytes there
 * and back; and, with GPT2_VOCAB=FOLDER (encoder.json, vocab.bpe), GPT-2's own ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/json.h"
#include "base/rng.h"
#include "model/encoder.h"
#include "model/tokenizer_open.h"
#include "tests/help_model.h"
#include "tests/help_vocabulary.h"

static struct tokenizer *tiny(enum tokenizer_kind kind, bool ignore_merges)
{
	struct vocabulary v;
	struct tokenizer *t = NULL;
	struct why why = {0};
	assert_true(help_vocabulary(&v));
	if (tokenizer_new_words(kind, ignore_merges, &v, &t, &why))
		fail_msg("%s", why.text);
	assert_null(v.bytes);
	return t;
}

static struct tokens encoded(const struct tokenizer *t, const void *text, size_t n)
{
	struct tokens out = {0};
	assert_int_equal(tokenizer_encode(t, text, n, &out), ERR_OK);
	return out;
}

/* words: what the ids stand for, with | between them. */
static void assert_words(const struct tokenizer *t, const char *text, const char *words)
{
	struct tokens ids = encoded(t, text, strlen(text));
	struct buf out;
	buf_init(&out, 1000);
	for (size_t i = 0; i < ids.len; i++) {
		if (i)
			buf_put_u8(&out, '|');
		assert_int_equal(tokenizer_decode(t, &ids.id[i], 1, &out, NULL), ERR_OK);
	}
	buf_put_u8(&out, 0);
	assert_string_equal((char *)out.data, words);
	buf_release(&out);
	free(ids.id);
}

static void merges_apply_by_rank(void **state)
{
	(void)state;
	struct tokenizer *t = tiny(TOKENIZER_gpt2, false);
	assert_int_equal(tokenizer_vocab(t), HELP_WORDS);
	struct tokens ids = encoded(t, "!~\xa1 ", 4);
	/* GPT-2's order: the printable ones first; 0xa1 alone is no UTF-8, and still an id. */
	const uint32_t expected[] = {0, 93, 94, 220};
	assert_int_equal(ids.len, 4);
	assert_memory_equal(ids.id, expected, sizeof expected);
	free(ids.id);
	assert_words(t, "the thing", "the| |th|ing");
	/* Earlier merges win: "th e" before "h e". */
	assert_words(t, " the he", " the| |he");
	assert_words(t, "aaaaaaa", "aaaa|aa|a");
	assert_words(t, "he's 12", "he|'s| |12");
	assert_words(t, "\u00e9<|endoftext|>", "\u00e9|<|||e|n|d|o|f|t|e|x|t|||>");
	assert_words(t, "", "");
	tokenizer_free(t);
}

static void a_whole_word_may_go_before_merges(void **state)
{
	(void)state;
	struct vocabulary v;
	for (int ignore = 0; ignore < 2; ignore++) {
		struct tokenizer *t = NULL;
		uint32_t twice;
		assert_true(help_vocabulary(&v));
		/* No merge makes it. */
		assert_int_equal(vocabulary_add_word(&v, "then", 4, false), ERR_OK);
		assert_int_equal(vocabulary_index(&v, &twice), ERR_OK);
		assert_int_equal(
			tokenizer_new_words(TOKENIZER_llama3, ignore, &v, &t, NULL), ERR_OK);
		assert_words(t, "then", ignore ? "then" : "the|n");
		assert_words(t, "then\n1234", ignore ? "then|\n|12|3|4" : "the|n|\n|12|3|4");
		tokenizer_free(t);
	}
}

/* Ids by the definition: of all pairs that merge the one of the lowest rank, leftmost, once. */
static size_t merge_by_definition(const struct vocabulary *v, uint32_t *id, size_t n)
{
	for (;;) {
		size_t best = 0;
		uint32_t rank = UINT32_MAX;
		for (size_t i = 0; i + 1 < n; i++)
			for (uint32_t m = 0; m < v->n_merges; m++)
				if (v->merges[m].left == id[i] && v->merges[m].right == id[i + 1] &&
					m < rank) {
					rank = m;
					best = i;
				}
		if (rank == UINT32_MAX)
			return n;
		uint8_t word[16];
		size_t a, b;
		const uint8_t *left = vocabulary_word(v, id[best], &a);
		memcpy(word, left, a);
		const uint8_t *right = vocabulary_word(v, id[best + 1], &b);
		memcpy(word + a, right, b);
		id[best] = vocabulary_find(v, word, a + b);
		memmove(&id[best + 1], &id[best + 2], (--n - best - 1) * sizeof *id);
	}
}

static void pieces_of_every_length_merge_alike(void **state)
{
	(void)state;
	struct tokenizer *t = tiny(TOKENIZER_gpt2, false);
	const struct vocabulary *v = tokenizer_vocabulary(t);
	char text[600];
	uint32_t id[600];
	for (uint64_t seed = 0; seed < 60; seed++) {
		size_t n = 1 + (size_t)rng_below(seed, 1, 0, seed % 3 ? 120 : sizeof text);
		for (size_t i = 0; i < n; i++) {
			text[i] = "ahetinga"[rng_below(seed, 0, i, 8)];
			id[i] = vocabulary_find(v, &text[i], 1);
		}
		size_t expected = merge_by_definition(v, id, n);
		struct tokens ids = encoded(t, text, n);
		assert_int_equal(ids.len, expected);
		assert_memory_equal(ids.id, id, expected * sizeof *id);
		free(ids.id);
	}
	tokenizer_free(t);
}

/* A megabyte without a border: the heap, not the square of it. */
static void a_long_run_is_no_trouble(void **state)
{
	(void)state;
	struct tokenizer *t = tiny(TOKENIZER_gpt2, false);
	size_t n = (1u << 20) + 3;
	char *text = alloc_must(n);
	memset(text, 'a', n);
	struct tokens ids = encoded(t, text, n);
	assert_int_equal(ids.len, n / 4 + 2);
	assert_int_equal(ids.id[0], help_id(tokenizer_vocabulary(t), "aaaa"));
	free(ids.id);
	free(text);
	tokenizer_free(t);
}

static void assert_round_trip(const struct tokenizer *t, const void *bytes, size_t n)
{
	struct tokens ids = encoded(t, bytes, n);
	struct buf back;
	buf_init(&back, n);
	assert_int_equal(tokenizer_decode(t, ids.id, ids.len, &back, NULL), ERR_OK);
	assert_int_equal(back.len, n);
	assert_memory_equal(back.data, bytes, n);
	buf_release(&back);
	free(ids.id);
}

static void any_bytes_round_trip(void **state)
{
	(void)state;
	struct tokenizer *made[] = {tiny(TOKENIZER_gpt2, false), tiny(TOKENIZER_llama3, true)};
	uint8_t bytes[3000];
	for (uint64_t seed = 0; seed < 100; seed++) {
		size_t n = 1 + (size_t)rng_below(seed, 9, 0, sizeof bytes - 1);
		for (size_t i = 0; i < n; i++)
			bytes[i] = seed % 2 ? (uint8_t)rng_u32(seed, 1, i)
					    : (uint8_t) "the \n'a\xc3\xa9\xff"[rng_below(
						      seed, 1, i, 10)];
		assert_round_trip(made[seed / 2 % 2], bytes, n);
	}
	tokenizer_free(made[0]);
	tokenizer_free(made[1]);
}

/* What an encoder has met before does not show. */
static void an_encoder_remembers_only_what_is_true(void **state)
{
	(void)state;
	struct tokenizer *t = tiny(TOKENIZER_gpt2, false);
	struct encoder *e = encoder_new(t);
	struct tokens all = {0};
	char text[400];
	for (uint64_t seed = 0; seed < 500; seed++) {
		for (size_t i = 0; i < sizeof text; i++)
			text[i] = "the in12'sa \n"[rng_below(seed % 400, 0, i, 13)];
		struct tokens once = encoded(t, text, sizeof text);
		size_t before = all.len;
		assert_int_equal(encoder_put(e, text, sizeof text, &all), ERR_OK);
		assert_int_equal(all.len - before, once.len);
		assert_memory_equal(all.id + before, once.id, once.len * sizeof *once.id);
		free(once.id);
	}
	free(all.id);
	encoder_free(e);
	encoder_free(NULL);
	tokenizer_free(t);
}

static void files_round_trip(void **state)
{
	(void)state;
	for (int kind = TOKENIZER_gpt2; kind <= TOKENIZER_llama3; kind++) {
		struct tokenizer *t = tiny((enum tokenizer_kind)kind, kind == TOKENIZER_llama3),
				 *again;
		const char *text = tokenizer_text(t);
		json_t *doc;
		assert_int_equal(json_parse(text, strlen(text), 1u << 20, &doc, NULL), ERR_OK);
		char *canonical = json_canonical(doc);
		assert_string_equal(canonical, text);
		free(canonical);
		json_decref(doc);
		assert_int_equal(tokenizer_parse(text, strlen(text), &again, NULL), ERR_OK);
		assert_string_equal(tokenizer_text(again), text);
		assert_int_equal(tokenizer_kind(again), kind);
		assert_int_equal(tokenizer_ignores_merges(again), kind == TOKENIZER_llama3);
		assert_words(again, " the", " the");
		const uint32_t mark = HELP_WORDS - 1;
		struct buf out;
		buf_init(&out, 100);
		assert_int_equal(tokenizer_decode(again, &mark, 1, &out, NULL), ERR_OK);
		assert_int_equal(out.len, strlen(HELP_MARK));
		buf_release(&out);
		tokenizer_free(again);
		tokenizer_free(t);
	}
}

/* ---- refusals: the tiny file with one part of it changed */

static char *changed(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	if (!at)
		fail_msg("%s is not in the file", from);
	return alloc_must_printf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static void hostile_files_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *from, *to;
		enum err code;
		const char *part;
	} rows[] = {
		{"\"ignore_merges\":false,", "", ERR_syntax, "ignore_merges"},
		{"\"special\":[269],", "", ERR_syntax, "special"},
		{"[269]", "[268,269]", ERR_range, "no word of the vocabulary"},
		{"[269]", "[269,268]", ERR_range, "rising order"},
		{"[269]", "[270]", ERR_range, "rising order"},
		{"[269]", "[\"x\"]", ERR_range, "rising order"},
		{"[269]", "[]", ERR_OK, ""},
		{"\"words\":[", "\"words\":[7,", ERR_syntax, "word 0"},
		{"\"words\":[", "\"words\":[\"\",", ERR_toobig, "word 0 of the vocabulary has 0"},
		{"\"words\":[", "\"words\":[\"a b\",", ERR_syntax, "stands for no byte"},
		{"\"words\":[\"!\",", "\"words\":[", ERR_range, "rising order"},
		{"\"!\"", "\"!!\"", ERR_unsupported, "no word for the byte 33"},
		{"\"#\"", "\"!\"", ERR_duplicate, "word 2 of the vocabulary is there twice"},
		{HELP_MARK, "\\u0001", ERR_syntax, "not plain text"},
		{HELP_MARK, "", ERR_toobig, "has 0 bytes"},
		{"\"merges\":[", "\"merges\":[[83,71],", ERR_duplicate, "as merge 0 does already"},
		{"\"merges\":[", "\"merges\":[[83,300],", ERR_range, "not both words"},
		{"\"merges\":[", "\"merges\":[[0,0],", ERR_range, "no word of the vocabulary"},
		{"\"merges\":[", "\"merges\":[[0],", ERR_syntax, "not a pair of ids"},
		{"\"merges\":[", "\"merges\":[[0,262144],", ERR_syntax, "not a pair of ids"},
		{"\"kind\":\"gpt2\"", "\"kind\":\"bpe\"", ERR_syntax, ""},
	};
	struct tokenizer *t = tiny(TOKENIZER_gpt2, false), *other;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char *text = changed(tokenizer_text(t), rows[i].from, rows[i].to);
		struct why why = {0};
		other = NULL;
		enum err e = tokenizer_parse(text, strlen(text), &other, &why);
		if (e != rows[i].code)
			fail_msg("%s: %s", rows[i].to, why.text);
		if (e)
			help_model_told(&why, rows[i].code, rows[i].part);
		tokenizer_free(other);
		free(text);
	}
	char *long_word = alloc_must_zero(2, TOKENIZER_TOKEN_MAX);
	memset(long_word, 'x', TOKENIZER_TOKEN_MAX + 1);
	char *to = alloc_must_printf("\"%s\"", long_word),
	     *text = changed(tokenizer_text(t), "\"!\"", to);
	struct why why = {0};
	assert_int_equal(tokenizer_parse(text, strlen(text), &other, &why), ERR_toobig);
	free(text);
	free(to);
	free(long_word);
	tokenizer_free(t);
}

static enum err use_everything(const char *text)
{
	struct tokenizer *t = NULL;
	struct tokens ids = {0};
	char run[300];
	memset(run, 'a', sizeof run);
	enum err e = tokenizer_parse(text, strlen(text), &t, NULL);
	if (!e)
		e = tokenizer_encode(t, run, sizeof run, &ids);
	free(ids.id);
	tokenizer_free(t);
	return e;
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	struct tokenizer *t = tiny(TOKENIZER_gpt2, false);
	long n = 1;
	for (enum err e = ERR_nomem; e; n++) {
		alloc_fail_at(n);
		e = use_everything(tokenizer_text(t));
		alloc_fail_at(0);
		assert_true(e == ERR_OK || e == ERR_nomem);
	}
	assert_true(n > 10);
	tokenizer_free(t);
}

/* ---- the real one */

static void known_answers_of_gpt2(void **state)
{
	(void)state;
	const char *folder = getenv("GPT2_VOCAB");
	if (!folder)
		skip();
	static const struct {
		const char *text;
		uint32_t n, ids[16];
	} rows[] = {
		{"Hello world", 2, {15496, 995}},
		{"The quick brown fox jumps over the lazy dog.", 10,
			{464, 2068, 7586, 21831, 18045, 625, 262, 16931, 3290, 13}},
		{"In the beginning God created the heaven and the earth.", 11,
			{818, 262, 3726, 1793, 2727, 262, 9538, 290, 262, 4534, 13}},
		{"I'll don't  two  spaces\n\nnew\tTab", 13,
			{40, 1183, 836, 470, 220, 734, 220, 9029, 198, 198, 3605, 197, 33349}},
		{"na\u00efve caf\u00e9 \u2014 \u65e5\u672c\u8a9e \U0001f916", 14,
			{2616, 38776, 40304, 851, 10545, 245, 98, 17312, 105, 45739, 252, 12520, 97,
				244}},
	};
	struct tokenizer *t = NULL;
	struct why why = {0};
	if (tokenizer_open(folder, &t, &why))
		fail_msg("%s", why.text);
	assert_int_equal(tokenizer_vocab(t), 50257);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct tokens ids = encoded(t, rows[i].text, strlen(rows[i].text));
		assert_int_equal(ids.len, rows[i].n);
		assert_memory_equal(ids.id, rows[i].ids, rows[i].n * sizeof *ids.id);
		free(ids.id);
	}
	const uint32_t mark = 50256;
	struct buf out;
	buf_init(&out, 100);
	assert_int_equal(tokenizer_decode(t, &mark, 1, &out, &why), ERR_OK);
	assert_memory_equal(out.data, HELP_MARK, strlen(HELP_MARK));
	buf_release(&out);
	tokenizer_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merges_apply_by_rank),
		cmocka_unit_test(a_whole_word_may_go_before_merges),
		cmocka_unit_test(pieces_of_every_length_merge_alike),
		cmocka_unit_test(a_long_run_is_no_trouble),
		cmocka_unit_test(any_bytes_round_trip),
		cmocka_unit_test(an_encoder_remembers_only_what_is_true),
		cmocka_unit_test(files_round_trip),
		cmocka_unit_test(hostile_files_are_refused),
		cmocka_unit_test(each_allocation_may_fail),
		cmocka_unit_test(known_answers_of_gpt2),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
