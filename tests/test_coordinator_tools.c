/* Pieces of the offline tools that a process test does not reach: numbers at their edges, and a
 * tokenizer that other tools cannot read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/json.h"
#include "model/hftokenizer.h"
#include "coordinator/human.h"

static void print_numbers(void **state)
{
	(void)state;
	static const struct {
		uint64_t n;
		const char *count, *size;
	} rows[] = {
		{0, "0", "0 B"},
		{999, "999", "999 B"},
		{1000, "1,000", "1.00 kB"},
		{9994, "9,994", "9.99 kB"},
		{9995, "9,995", "10.0 kB"},
		{99950, "99,950", "100 kB"},
		{999499, "999,499", "999 kB"},
		{999500, "999,500", "1.00 MB"},
		{445952, "445,952", "446 kB"},
		{UINT64_MAX, "18,446,744,073,709,551,615", "18.4 EB"},
	};
	char out[HUMAN_TEXT];
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_string_equal(human_count(rows[i].n, out), rows[i].count);
		assert_string_equal(human_size(rows[i].n, "B", out), rows[i].size);
	}
	assert_string_equal(human_size(7, "", out), "7");
	assert_string_equal(human_size(7000, "", out), "7.00 k");
}

static struct tokenizer *bpe(const struct tokenizer_merge *merges, size_t n)
{
	struct tokenizer *t = NULL;
	struct why why = {0};
	if (tokenizer_new_bpe(merges, n, &t, &why))
		fail_msg("%s", why.text);
	return t;
}

static void spell_tokens_as_gpt2_does(void **state)
{
	(void)state;
	/* " a", "é" and "é" with " a" behind it */
	struct tokenizer *t =
		bpe((const struct tokenizer_merge[]){{' ', 'a'}, {0xc3, 0xa9}, {257, 256}}, 3);
	char *text = NULL;
	json_t *doc = NULL;
	struct why why = {0};
	assert_int_equal(hftokenizer_print(t, &text, &why), ERR_OK);
	assert_int_equal(json_parse(text, strlen(text), 1 << 20, &doc, &why), ERR_OK);
	const json_t *model = json_object_get(doc, "model"),
		     *vocab = json_object_get(model, "vocab");
	/* The published table: space is U+0120, 0xc3 and 0xa9 are themselves, 0 is U+0100. */
	static const struct {
		const char *word;
		int id;
	} rows[] = {{"!", '!'}, {"\u0120", ' '}, {"\u0100", 0}, {"\u0121", 127}, {"\u0143", 173},
		{"\u00ff", 255}, {"\u0120a", 256}, {"\u00c3\u00a9", 257},
		{"\u00c3\u00a9\u0120a", 258}};
	assert_int_equal(json_object_size(vocab), 259);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const json_t *id = json_object_get(vocab, rows[i].word);
		if (!json_is_integer(id) || json_integer_value(id) != rows[i].id)
			fail_msg("%s is not %d", rows[i].word, rows[i].id);
	}
	const json_t *merges = json_object_get(model, "merges");
	assert_int_equal(json_array_size(merges), 3);
	assert_string_equal(json_string_value(json_array_get(merges, 2)), "\u00c3\u00a9 \u0120a");
	json_decref(doc);
	free(text);
	tokenizer_free(t);
}

static void refuse_two_tokens_of_one_text(void **state)
{
	(void)state;
	/* "abc" as ab c and as a bc */
	struct tokenizer *t = bpe(
		(const struct tokenizer_merge[]){{'a', 'b'}, {'b', 'c'}, {256, 'c'}, {'a', 257}},
		4);
	char *text = NULL;
	struct why why = {0};
	assert_int_equal(hftokenizer_print(t, &text, &why), ERR_unsupported);
	assert_null(text);
	assert_non_null(strstr(why.text, "id 259"));
	tokenizer_free(t);
}

static void run_out_of_memory(void **state)
{
	(void)state;
	struct tokenizer *t = NULL;
	char *text = NULL;
	struct why why = {0};
	assert_int_equal(tokenizer_new_byte(&t, &why), ERR_OK);
	alloc_fail_at(1);
	assert_int_equal(hftokenizer_print(t, &text, &why), ERR_nomem);
	alloc_fail_at(0);
	assert_null(text);
	tokenizer_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(print_numbers),
		cmocka_unit_test(spell_tokens_as_gpt2_does),
		cmocka_unit_test(refuse_two_tokens_of_one_text),
		cmocka_unit_test(run_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
