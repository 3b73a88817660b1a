/* The split rules: the expressions of GPT-2 and Llama 3 piece by piece, any bytes, any window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "model/split.h"
#include "model/unicode.h"

struct row {
	const char *text, *pieces;
};

static void assert_pieces(enum split rule, const struct row *rows, size_t n_rows)
{
	for (size_t i = 0; i < n_rows; i++) {
		char out[256];
		size_t at = 0, to = 0, n = strlen(rows[i].text);
		while (at < n) {
			const uint8_t *from = (const uint8_t *)rows[i].text + at;
			size_t len = split_piece(rule, from, n - at, false);
			if (at)
				out[to++] = '|';
			memcpy(out + to, from, len);
			to += len;
			at += len;
		}
		out[to] = 0;
		assert_string_equal(out, rows[i].pieces);
	}
}

static void gpt2_splits_as_its_expression(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{"In the beginning", "In| the| beginning"},
		{"I'll don't  two  spaces\n\nnew\tTab",
			"I|'ll| don|'t| | two| | spaces|\n|\n|new|\t|Tab"},
		{"'S 're's'", "'|S| '|re|'s|'"},
		{"''s it's'd've'm'x", "''|s| it|'s|'d|'ve|'m|'|x"},
		{"x = 12;3.5", "x| =| 12|;|3|.|5"},
		{"abc123 4d", "abc|123| 4|d"},
		{"end  ", "end|  "},
		{" ", " "},
		{"\t x", "\t| x"},
		{"a \n\n b", "a| \n\n| b"},
		/* Letters and numbers of other scripts, combining marks, symbols. */
		{"na\u00efve \u2014 \u65e5\u672c\u8a9e", "na\u00efve| \u2014| \u65e5\u672c\u8a9e"},
		{"\u00bd\u0661\u2167x", "\u00bd\u0661\u2167|x"},
		{"e\u0301t", "e|\u0301|t"},
		{"\U0001d7d8\U0001f916", "\U0001d7d8|\U0001f916"},
		/* White space beyond ASCII goes to no word; U+001C is none. */
		{"a\u00a0b", "a|\u00a0|b"},
		{"a\u3000\u2028 b", "a|\u3000\u2028| b"},
		{"a\x1c", "a|\x1c"},
		/* Bytes that are no UTF-8 are symbols: alone, cut off, overlong, surrogates. */
		{"a\xff\xfe z", "a|\xff\xfe| z"},
		{"\xe2\x82 x", "\xe2\x82| x"},
		{"a\xc0\x80!", "a|\xc0\x80!"},
		{"a\xed\xa0\x80", "a|\xed\xa0\x80"},
		{"\xe2\x82\xc3\xa9", "\xe2\x82|\xc3\xa9"},
		{"\xf4\x90\x80\x80\xf0\x9d\x9f\x98", "\xf4\x90\x80\x80|\xf0\x9d\x9f\x98"},
	};
	assert_pieces(SPLIT_gpt2, rows, sizeof rows / sizeof *rows);
}

static void llama3_splits_as_its_expression(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{"In the beginning", "In| the| beginning"},
		{"I'LL don't 'S'Ve", "I|'LL| don|'t| '|S|'Ve"},
		{"'\u017fx '\u017e", "'\u017f|x| '|\u017e"},
		{"1234567 89", "123|456|7| |89"},
		{"(x)\t!tab\tb", "(x|)|\t|!tab|\tb"},
		{"end.\n\n  two", "end|.\n\n| | two"},
		{"a \n \n  b", "a| \n \n| | b"},
		{"a\r\nb", "a|\r\n|b"},
		{"a  ", "a|  "},
		{"\u00a0b\u3000\n", "\u00a0b|\u3000\n"},
		{" ?!\n x", " ?!\n| x"},
		{"\xff"
		 "a",
			"\xff"
			"a"},
	};
	assert_pieces(SPLIT_llama3, rows, sizeof rows / sizeof *rows);
}

static void classes_are_those_of_unicode(void **state)
{
	(void)state;
	static const struct {
		uint32_t code;
		enum unicode_class class;
	} rows[] = {{'_', UNICODE_other}, {'Z', UNICODE_letter}, {'0', UNICODE_number},
		{0x0b, UNICODE_space}, {0x1f, UNICODE_other}, {0xaa, UNICODE_letter},
		{0xb2, UNICODE_number}, {0xd7, UNICODE_other}, {0x85, UNICODE_space},
		{0x2bc, UNICODE_letter}, {0x300, UNICODE_other}, {0x200b, UNICODE_other},
		{0x3007, UNICODE_number}, {0x4e00, UNICODE_letter}, {0x9fff, UNICODE_letter},
		{0xac00, UNICODE_letter}, {0xd7a4, UNICODE_other}, {0xe000, UNICODE_other},
		{0x10d40, UNICODE_number}, {0x323af, UNICODE_letter}, {0x323b0, UNICODE_other},
		{0x10ffff, UNICODE_other}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(unicode_class(rows[i].code), rows[i].class);
	for (unsigned i = 0; i + 1 < unicode_table_rows; i++)
		assert_true(unicode_table[i].first <= unicode_table[i].last &&
			    unicode_table[i].last < unicode_table[i + 1].first);
}

/* Classes in short runs, so that borders of all kinds meet. */
static size_t make_noise(uint8_t *out, size_t n, uint64_t seed)
{
	static const char *const of[] = {"a", "t", "'", "s", "r", "e", " ", " ", "\n", "\r", "1",
		".", "\u00e9", "\u3000", "\u0661", "\xe2\x82", "\xc3", "\xff", "\U0001f916", "V"};
	size_t at = 0;
	for (uint64_t i = 0; at + 4 <= n; i++) {
		const char *piece = of[rng_below(seed, 0, i, sizeof of / sizeof *of)];
		memcpy(out + at, piece, strlen(piece));
		at += strlen(piece);
	}
	return at;
}

/* What is said with a part of the text is what the whole says, or "not yet". */
static void windows_say_the_same_or_nothing(void **state)
{
	(void)state;
	uint8_t text[60];
	for (uint64_t seed = 0; seed < 3000; seed++) {
		size_t n = make_noise(text, sizeof text, seed);
		for (enum split rule = SPLIT_bpe; rule < SPLIT_RULES; rule++) {
			size_t whole = split_piece(rule, text, n, false);
			for (size_t part = 1; part < n; part++) {
				size_t said = split_piece(rule, text, part, true);
				if (said)
					assert_int_equal(said, whole);
			}
		}
	}
}

/* Every border is one in every rule, and what follows is split as if it stood alone. */
static void borders_hold_in_every_rule(void **state)
{
	(void)state;
	uint8_t text[200];
	size_t found = 0;
	for (uint64_t seed = 0; seed < 2000; seed++) {
		size_t n = make_noise(text, sizeof text, seed), last = 0;
		for (enum split rule = SPLIT_bpe; rule < SPLIT_RULES; rule++) {
			size_t border = split_border(text, n, 0);
			for (size_t at = 0; at < n;) {
				at += split_piece(rule, text + at, n - at, false);
				assert_true(at <= border);
				if (at == border && border < n) {
					last = border;
					border = split_border(text, n, border + 1);
					found++;
				}
			}
			assert_int_equal(split_last_border(text, n), last);
		}
	}
	assert_true(found > 10000);
}

/* Nothing is longer than the longest piece, and that much of the text always tells. */
static void the_longest_piece_has_an_end(void **state)
{
	(void)state;
	size_t n = SPLIT_PIECE_MAX + 100;
	uint8_t *text = alloc_must(n);
	static const char fill[] = {'a', ' ', '\n', '.', '7'};
	for (size_t i = 0; i < sizeof fill; i++) {
		memset(text, fill[i], n);
		assert_int_equal(split_piece(SPLIT_gpt2, text, n, true), SPLIT_PIECE_MAX);
		assert_int_equal(split_piece(SPLIT_gpt2, text, n - 100, true), 0);
		assert_int_equal(split_piece(SPLIT_llama3, text, n, true),
			fill[i] == '7' ? 3 : SPLIT_PIECE_MAX);
		assert_int_equal(split_piece(SPLIT_bpe, text, n, true), SPLIT_BPE_MAX);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpt2_splits_as_its_expression),
		cmocka_unit_test(llama3_splits_as_its_expression),
		cmocka_unit_test(classes_are_those_of_unicode),
		cmocka_unit_test(windows_say_the_same_or_nothing),
		cmocka_unit_test(borders_hold_in_every_rule),
		cmocka_unit_test(the_longest_piece_has_an_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
