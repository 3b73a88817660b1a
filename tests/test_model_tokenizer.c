/* The tokenizer: any bytes go through and come back, and no file can hurt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/json.h"
#include "base/rng.h"
#include "model/tokenizer.h"
#include "tests/help_model.h"

/* "th" "the" " the" "in" "ing": 256 to 260 */
static const struct tokenizer_merge merges[] = {
	{'t', 'h'}, {256, 'e'}, {' ', 257}, {'i', 'n'}, {259, 'g'}};

static struct tokenizer *parsed(const char *text)
{
	struct tokenizer *t = NULL;
	struct why why = {0};
	if (tokenizer_parse(text, strlen(text), &t, &why))
		fail_msg("%s", why.text);
	return t;
}

static struct tokenizer *small_bpe(void)
{
	struct tokenizer *t = NULL;
	assert_int_equal(
		tokenizer_new_bpe(merges, sizeof merges / sizeof merges[0], &t, NULL), ERR_OK);
	return t;
}

static void assert_ids(const struct tokenizer *t, const char *text, const uint32_t *ids, size_t n)
{
	struct tokens out = {0};
	assert_int_equal(tokenizer_encode(t, text, strlen(text), &out), ERR_OK);
	assert_int_equal(out.len, n);
	assert_memory_equal(out.id, ids, n * sizeof *ids);
	free(out.id);
}

static void assert_round_trip(const struct tokenizer *t, const uint8_t *bytes, size_t n)
{
	struct tokens ids = {0};
	struct buf back;
	buf_init(&back, n);
	assert_int_equal(tokenizer_encode(t, bytes, n, &ids), ERR_OK);
	assert_true(ids.len <= n);
	assert_int_equal(tokenizer_decode(t, ids.id, ids.len, &back, NULL), ERR_OK);
	assert_int_equal(back.len, n);
	if (n)
		assert_memory_equal(back.data, bytes, n);
	buf_release(&back);
	free(ids.id);
}

static void bytes_are_ids(void **state)
{
	(void)state;
	struct tokenizer *t = NULL;
	assert_int_equal(tokenizer_new_byte(&t, NULL), ERR_OK);
	assert_int_equal(tokenizer_vocab(t), 256);
	uint8_t all[256];
	struct tokens ids = {0};
	for (unsigned i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	assert_int_equal(tokenizer_encode(t, all, 256, &ids), ERR_OK);
	assert_int_equal(ids.len, 256);
	for (unsigned i = 0; i < 256; i++)
		assert_int_equal(ids.id[i], i);
	free(ids.id);
	assert_round_trip(t, all, 256);
	assert_round_trip(t, all, 0);
	assert_string_equal(tokenizer_text(t), "{\"kind\":\"byte\",\"shoal_tokenizer\":1}");
	tokenizer_free(t);
	tokenizer_free(NULL);
}

static void merges_apply_in_the_order_learned(void **state)
{
	(void)state;
	struct tokenizer *t = small_bpe();
	assert_int_equal(tokenizer_vocab(t), 261);
	assert_ids(t, "the", (const uint32_t[]){257}, 1);
	assert_ids(t, "in the thing", (const uint32_t[]){259, 258, ' ', 256, 260}, 5);
	/* A merge never crosses a piece: no "th" from "t" and "h" with a border between. */
	assert_ids(t, "t\nh", (const uint32_t[]){'t', '\n', 'h'}, 3);
	assert_ids(t, "4the", (const uint32_t[]){'4', 257}, 2);
	assert_ids(t, "", NULL, 0);
	tokenizer_free(t);
}

/* The file, read again, is the same tokenizer, and its text is what json_canonical makes of it. */
static void files_round_trip(void **state)
{
	(void)state;
	struct tokenizer *made[] = {small_bpe(),
		parsed("{\"shoal_tokenizer\": 1, \"kind\": \"byte\"}"),
		parsed("{\"kind\":\"bpe\", \"merges\": [], \"shoal_tokenizer\":1}")};
	for (size_t i = 0; i < 3; i++) {
		const char *text = tokenizer_text(made[i]);
		struct tokenizer *again = parsed(text);
		struct hash a = tokenizer_hash(made[i]), b = hash_of(text, strlen(text));
		struct hash c = tokenizer_hash(again);
		assert_true(hash_equal(&a, &b) && hash_equal(&a, &c));
		assert_string_equal(tokenizer_text(again), text);
		json_t *doc;
		assert_int_equal(json_parse(text, strlen(text), 1u << 20, &doc, NULL), ERR_OK);
		char *canonical = json_canonical(doc);
		assert_string_equal(canonical, text);
		free(canonical);
		json_decref(doc);
		help_model_write("t.json", text, strlen(text));
		struct tokenizer *loaded = NULL;
		assert_int_equal(tokenizer_load(help_model_path("t.json"), &loaded, NULL), ERR_OK);
		assert_string_equal(tokenizer_text(loaded), text);
		tokenizer_free(loaded);
		tokenizer_free(again);
		tokenizer_free(made[i]);
	}
}

static void pieces_follow_the_rule(void **state)
{
	(void)state;
	static const struct {
		const char *text, *pieces;
	} rows[] = {
		{"In the beginning", "In| the| beginning"},
		{"a  b", "a| | b"},
		{"a   b", "a|  | b"},
		{"a \n b", "a| \n| b"},
		{"a\n\nb", "a|\n\n|b"},
		{"x = 12;", "x| =| 12|;"},
		{"abc123 4d", "abc|123| 4|d"},
		{"don't", "don|'|t"},
		{"na\xc3\xafve \xe2\x80\x94", "na\xc3\xafve| \xe2\x80\x94"},
		{"end  ", "end|  "},
		{" ", " "},
		{"\t x", "\t| x"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char out[64];
		size_t at = 0, to = 0, n = strlen(rows[i].text);
		while (at < n) {
			size_t len = split_piece(
				SPLIT_bpe, (const uint8_t *)rows[i].text + at, n - at, false);
			if (at)
				out[to++] = '|';
			memcpy(out + to, rows[i].text + at, len);
			to += len;
			at += len;
		}
		out[to] = 0;
		assert_string_equal(out, rows[i].pieces);
	}
	uint8_t run[1000];
	memset(run, 'a', sizeof run);
	assert_int_equal(split_piece(SPLIT_bpe, run, sizeof run, false), SPLIT_BPE_MAX);
}

/* Classes in short runs, so that borders of all kinds meet. */
static void make_noise(uint8_t *out, size_t n, uint64_t seed)
{
	static const uint8_t of[] = {
		'a', 't', 'h', 'e', ' ', ' ', '\n', '1', '.', 0xc3, 0, 'i', 'n', 'g'};
	for (size_t i = 0; i < n; i++)
		out[i] = of[rng_below(seed, 0, i, sizeof of)];
	/* Runs beyond the longest piece. */
	if (n > 600)
		memset(out + 200, seed % 2 ? ' ' : 'a', 300);
}

/* A piece is settled by the bytes of one window: what prepare relies on when it cuts a text. */
static void pieces_need_one_window(void **state)
{
	(void)state;
	uint8_t text[4000];
	for (uint64_t seed = 0; seed < 50; seed++) {
		make_noise(text, sizeof text, seed);
		for (size_t at = 0; at < sizeof text;) {
			size_t left = sizeof text - at,
			       whole = split_piece(SPLIT_bpe, text + at, left, false);
			size_t window = left < SPLIT_BPE_MAX + 1 ? left : SPLIT_BPE_MAX + 1;
			assert_int_equal(split_piece(SPLIT_bpe, text + at, window, false), whole);
			assert_in_range(whole, 1, SPLIT_BPE_MAX);
			at += whole;
		}
	}
}

static void any_bytes_round_trip(void **state)
{
	(void)state;
	struct tokenizer *t = small_bpe();
	uint8_t bytes[2000];
	for (uint64_t seed = 0; seed < 100; seed++) {
		size_t n = (size_t)rng_below(seed, 9, 0, sizeof bytes);
		if (seed % 2)
			make_noise(bytes, n, seed);
		for (size_t i = 0; i < n && seed % 2 == 0; i++)
			bytes[i] = (uint8_t)rng_u32(seed, 1, i);
		assert_round_trip(t, bytes, n);
	}
	tokenizer_free(t);
}

static void wrong_ids_are_refused(void **state)
{
	(void)state;
	struct tokenizer *t = small_bpe();
	struct buf out;
	struct why why;
	buf_init(&out, 20);
	const uint32_t ids[] = {258, 'x', 261};
	assert_int_equal(tokenizer_decode(t, ids, 2, &out, &why), ERR_OK);
	assert_int_equal(tokenizer_decode(t, ids, 3, &out, &why), ERR_range);
	help_model_told(&why, ERR_range, "token 2 is 261, but the vocabulary has 261 ids");
	const uint32_t many[] = {258, 258, 258, 258};
	assert_int_equal(tokenizer_decode(t, many, 4, &out, &why), ERR_toobig);
	assert_int_equal(out.len, 5);
	assert_memory_equal(out.data, " thex", 5);
	const uint32_t high = UINT32_MAX;
	assert_int_equal(tokenizer_decode(t, &high, 1, &out, &why), ERR_range);
	buf_release(&out);
	tokenizer_free(t);
}

static void hostile_files_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum err code;
		const char *part;
	} rows[] = {
		{"", ERR_truncated, "empty"},
		{"{", ERR_truncated, ""},
		{"[]", ERR_magic, "not a tokenizer"},
		{"{}", ERR_magic, "not a tokenizer"},
		{"{\"shoal_tokenizer\":2,\"kind\":\"byte\"}", ERR_version, "version 2"},
		{"{\"shoal_tokenizer\":1}", ERR_syntax, "kind"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"word\"}", ERR_syntax, "kind"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"byte\",\"merges\":[]}", ERR_syntax, "merges"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"bpe\"}", ERR_syntax, "merges"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"bpe\",\"merges\":{}}", ERR_syntax, "merges"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"bpe\",\"merges\":[7]}", ERR_syntax, "merge 0"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"bpe\",\"merges\":[[1]]}", ERR_syntax,
			"merge 0"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"bpe\",\"merges\":[[1,2,3]]}", ERR_syntax,
			"merge 0"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"bpe\",\"merges\":[[1,2],[1,-1]]}", ERR_syntax,
			"merge 1"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"bpe\",\"merges\":[[1,2.5]]}", ERR_syntax,
			"merge 0"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"bpe\",\"merges\":[[1,99999999]]}", ERR_syntax,
			"merge 0"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"bpe\",\"merges\":[[1,256]]}", ERR_range,
			"below 256"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"bpe\",\"merges\":[[1,2],[258,1]]}", ERR_range,
			"258"},
		{"{\"shoal_tokenizer\":1,\"kind\":\"bpe\",\"merges\":[[1,2],[1,2]]}", ERR_duplicate,
			"as merge 0"},
		/* Each merge doubles: 2^8 bytes in the eighth. */
		{"{\"shoal_tokenizer\":1,\"kind\":\"bpe\",\"merges\":[[1,1],[256,256],[257,257],["
		 "258,258],"
		 "[259,259],[260,260],[261,261],[262,262]]}",
			ERR_toobig, "merge 7"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct tokenizer *t = NULL;
		struct why why = {0};
		enum err e = tokenizer_parse(rows[i].text, strlen(rows[i].text), &t, &why);
		assert_null(t);
		assert_int_equal(e, why.code);
		help_model_told(&why, rows[i].code, rows[i].part);
	}
}

static void the_vocabulary_is_bounded(void **state)
{
	(void)state;
	struct tokenizer_merge *many = alloc_must(70000 * sizeof *many);
	for (uint32_t i = 0; i < 70000; i++)
		many[i] = (struct tokenizer_merge){i % 256, i / 256};
	struct tokenizer *t = NULL;
	struct why why;
	assert_int_equal(tokenizer_new_bpe(many, 65281, &t, &why), ERR_toobig);
	assert_int_equal(tokenizer_new_bpe(many, 65280, &t, &why), ERR_OK);
	assert_int_equal(tokenizer_vocab(t), 65536);
	struct tokenizer *again = parsed(tokenizer_text(t));
	tokenizer_free(again);
	tokenizer_free(t);
	free(many);
	assert_int_equal(tokenizer_load(help_model_path("none.json"), &t, &why), ERR_missing);
	help_model_write("bad.json", "{}", 2);
	assert_int_equal(tokenizer_load(help_model_path("bad.json"), &t, &why), ERR_magic);
	help_model_told(&why, ERR_magic, "bad.json: not a tokenizer");
}

static enum err use_everything(void)
{
	const char *text =
		"{\"kind\":\"bpe\",\"merges\":[[116,104],[256,101]],\"shoal_tokenizer\":1}";
	struct tokenizer *t = NULL;
	struct tokens ids = {0};
	struct buf out;
	buf_init(&out, 100);
	enum err e = tokenizer_parse(text, strlen(text), &t, NULL);
	if (!e)
		e = tokenizer_encode(t, "the other", 9, &ids);
	if (!e)
		e = tokenizer_decode(t, ids.id, ids.len, &out, NULL);
	buf_release(&out);
	free(ids.id);
	tokenizer_free(t);
	return e;
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	long n = 1;
	for (;; n++) {
		alloc_fail_at(n);
		if (use_everything() == ERR_OK)
			break;
	}
	alloc_fail_at(0);
	assert_true(n > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_ids),
		cmocka_unit_test(merges_apply_in_the_order_learned),
		cmocka_unit_test_setup_teardown(
			files_round_trip, help_model_setup, help_model_teardown),
		cmocka_unit_test(pieces_follow_the_rule),
		cmocka_unit_test(pieces_need_one_window),
		cmocka_unit_test(any_bytes_round_trip),
		cmocka_unit_test(wrong_ids_are_refused),
		cmocka_unit_test(hostile_files_are_refused),
		cmocka_unit_test_setup_teardown(
			the_vocabulary_is_bounded, help_model_setup, help_model_teardown),
		cmocka_unit_test(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
