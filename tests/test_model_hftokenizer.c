/* tokenizer.json and GPT-2's two files: what we write we read again, what we cannot do is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "model/hftokenizer.h"
#include "model/tokenizer_open.h"
#include "tests/help_model.h"
#include "tests/help_vocabulary.h"

static struct tokenizer *tiny(enum tokenizer_kind kind)
{
	static const struct tokenizer_merge merges[] = {{'t', 'h'}, {256, 'e'}, {' ', 257}};
	struct vocabulary v;
	struct tokenizer *t = NULL;
	enum err e = ERR_OK;
	if (kind == TOKENIZER_byte)
		e = tokenizer_new_byte(&t, NULL);
	else if (kind == TOKENIZER_bpe)
		e = tokenizer_new_bpe(merges, 3, &t, NULL);
	else if (help_vocabulary(&v))
		e = tokenizer_new_words(kind, kind == TOKENIZER_llama3, &v, &t, NULL);
	assert_int_equal(e, ERR_OK);
	return t;
}

static char *printed(const struct tokenizer *t)
{
	char *text;
	struct why why = {0};
	if (hftokenizer_print(t, &text, &why))
		fail_msg("%s", why.text);
	return text;
}

static struct tokenizer *parsed(const char *text)
{
	struct tokenizer *t = NULL;
	struct why why = {0};
	if (hftokenizer_parse(text, strlen(text), &t, &why))
		fail_msg("%s", why.text);
	return t;
}

static void every_kind_is_read_again(void **state)
{
	(void)state;
	for (int kind = TOKENIZER_byte; kind <= TOKENIZER_llama3; kind++) {
		struct tokenizer *t = tiny((enum tokenizer_kind)kind);
		char *text = printed(t);
		struct tokenizer *again = parsed(text);
		char *twice = printed(again);
		assert_string_equal(tokenizer_text(again), tokenizer_text(t));
		assert_string_equal(twice, text);
		free(twice);
		free(text);
		tokenizer_free(again);
		tokenizer_free(t);
	}
}

/* The text of the tiny gpt2 with the first `from` replaced. */
static char *changed(const char *from, const char *to)
{
	struct tokenizer *t = tiny(TOKENIZER_gpt2);
	char *text = printed(t), *at = strstr(text, from);
	if (!at)
		fail_msg("%s is not in the file", from);
	char *out = alloc_must_printf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
	free(text);
	tokenizer_free(t);
	return out;
}

static void other_ways_to_say_it_are_read(void **state)
{
	(void)state;
	static const struct {
		const char *from, *to;
	} rows[] = {
		{"\"t h\"", "[\"t\", \"h\"]"},
		{"\"type\": \"BPE\",\n", ""},
		{"\"unk_token\": null", "\"unk_token\": \"<|endoftext|>\""},
		{"\"continuing_subword_prefix\": null", "\"continuing_subword_prefix\": \"\""},
		{"\"post_processor\": null",
			"\"post_processor\": {\"type\":\"ByteLevel\",\"trim_offsets\":false}"},
		{"\"post_processor\": null",
			"\"post_processor\": {\"type\":\"Sequence\",\"processors\":[{\"type\":"
			"\"ByteLevel\"},{\"type\":\"TemplateProcessing\"}]}"},
		/* The mark need not stand among the words. */
		{",\n   \"<|endoftext|>\": 269", ""},
	};
	struct tokenizer *t = tiny(TOKENIZER_gpt2);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char *text = changed(rows[i].from, rows[i].to);
		struct tokenizer *same = parsed(text);
		assert_string_equal(tokenizer_text(same), tokenizer_text(t));
		tokenizer_free(same);
		free(text);
	}
	tokenizer_free(t);
}

static void what_we_cannot_do_is_named(void **state)
{
	(void)state;
	static const struct {
		const char *from, *to;
		enum err code;
		const char *part;
	} rows[] = {
		{"\"truncation\": null", "\"truncation\": {}", ERR_unsupported, "\"truncation\""},
		{"\"padding\": null", "\"padding\": {}", ERR_unsupported, "\"padding\""},
		{"\"normalizer\": null", "\"normalizer\": {\"type\":\"NFC\"}", ERR_unsupported,
			"\"normalizer\""},
		{"\"version\"", "\"colour\": 1, \"version\"", ERR_unsupported, "\"colour\""},
		{"\"add_prefix_space\": false", "\"add_prefix_space\": true", ERR_unsupported,
			"add_prefix_space"},
		{"\"use_regex\": true", "\"use_regex\": false", ERR_unsupported, "use_regex"},
		{"\"type\": \"ByteLevel\"", "\"type\": \"Metaspace\"", ERR_unsupported,
			"pre_tokenizer"},
		{"\"decoder\": {", "\"decoder\": null, \"post_processor2\": {", ERR_unsupported,
			"post_processor2"},
		{"\"post_processor\": null", "\"post_processor\": {\"type\":\"X\"}",
			ERR_unsupported, "\"post_processor\""},
		{"\"type\": \"BPE\"", "\"type\": \"Unigram\"", ERR_unsupported, "model.type"},
		{"\"dropout\": null", "\"dropout\": 0.1", ERR_unsupported, "model.dropout"},
		{"\"end_of_word_suffix\": null", "\"end_of_word_suffix\": \"</w>\"",
			ERR_unsupported, "model.end_of_word_suffix"},
		{"\"fuse_unk\"", "\"fuse_all\"", ERR_unsupported, "model.fuse_all"},
		{"\"special\": true", "\"special\": false", ERR_unsupported,
			"added_tokens[0].special"},
		{"\"lstrip\": false", "\"lstrip\": true", ERR_unsupported,
			"added_tokens[0].lstrip"},
		{"\"content\"", "\"contents\"", ERR_syntax, "added_tokens[0]"},
		{"\"id\": 269", "\"id\": 268", ERR_duplicate, "both have the id 268"},
		{"\"id\": 269", "\"id\": -1", ERR_range, "below 262144"},
		{"\"!\": 0", "\"!\": 262144", ERR_range, "below 262144"},
		{"\"!\": 0", "\"!\": 270", ERR_missing, "no word with the id 0"},
		{"\"!\": 0", "\"!!\": 0", ERR_unsupported, "no word for the byte 33"},
		{"\"!\": 0", "\"a b\": 0", ERR_unsupported, "not of the byte-level kind"},
		{"\"t h\"", "\"th\"", ERR_syntax, "merge 0, \"th\""},
		{"\"t h\"", "\"t h e\"", ERR_syntax, "merge 0, \"t h e\""},
		{"\"t h\"", "\"z z\"", ERR_range, "no word of the vocabulary"},
		{"\"t h\"", "[\"t\"]", ERR_syntax, "model.merges[0]"},
		{"\"t h\"", "7", ERR_syntax, "model.merges[0]"},
		{"\"th e\"", "\"t h\"", ERR_duplicate, "as merge 0 does already"},
		{"\"merges\": [", "\"merges\": 1, \"vocab2\": [", ERR_unsupported, "vocab2"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char *text = changed(rows[i].from, rows[i].to);
		struct tokenizer *t = NULL;
		struct why why = {0};
		assert_int_equal(hftokenizer_parse(text, strlen(text), &t, &why), rows[i].code);
		help_model_told(&why, rows[i].code, rows[i].part);
		assert_null(t);
		free(text);
	}
}

/* Our own expression goes with our own kinds only. */
static void our_own_kind_must_be_whole(void **state)
{
	(void)state;
	struct tokenizer *t = tiny(TOKENIZER_bpe), *other = NULL;
	char *text = printed(t), *at = strstr(text, "\"\u0120the\": 258");
	struct why why = {0};
	assert_non_null(at);
	char *more = alloc_must_printf("%.*s\"then\": 259,%s", (int)(at - text), text, at);
	assert_int_equal(hftokenizer_parse(more, strlen(more), &other, &why), ERR_unsupported);
	help_model_told(&why, ERR_unsupported, "model.vocab");
	assert_null(other);
	free(more);
	at = strstr(text, "+(?= [^");
	at[0] = '*';
	assert_int_equal(hftokenizer_parse(text, strlen(text), &other, &why), ERR_unsupported);
	help_model_told(&why, ERR_unsupported, "pre_tokenizer.pattern");
	free(text);
	tokenizer_free(t);
}

/* ---- GPT-2's two files, and paths */

static void write_files(const char *words_name, const char *merges_name)
{
	struct vocabulary v;
	struct buf words, merges;
	assert_true(help_vocabulary(&v));
	help_vocabulary_files(&v, &words, &merges);
	assert_true(buf_ok(&words) && buf_ok(&merges));
	help_model_write(words_name, words.data, words.len);
	help_model_write(merges_name, merges.data, merges.len);
	buf_release(&words);
	buf_release(&merges);
	vocabulary_release(&v);
}

static void assert_opens(const char *name, const struct tokenizer *as)
{
	struct tokenizer *t = NULL;
	struct why why = {0};
	if (tokenizer_open(help_model_path(name), &t, &why))
		fail_msg("%s", why.text);
	assert_string_equal(tokenizer_text(t), tokenizer_text(as));
	tokenizer_free(t);
}

static void assert_refused(const char *name, enum err code, const char *part)
{
	struct tokenizer *t = NULL;
	struct why why = {0};
	assert_int_equal(tokenizer_open(help_model_path(name), &t, &why), code);
	help_model_told(&why, code, part);
	assert_null(t);
}

static void every_form_opens(void **state)
{
	(void)state;
	struct tokenizer *t = tiny(TOKENIZER_gpt2), *byte = tiny(TOKENIZER_byte);
	assert_refused("", ERR_missing, "holds no tokenizer");
	assert_refused("none", ERR_missing, "none");
	write_files("vocab.json", "merges.txt");
	assert_opens("", t);
	write_files("encoder.json", "vocab.bpe");
	help_model_write("merges.txt", "nothing", 7);
	assert_opens("", t);
	assert_refused("encoder.json", ERR_magic, "give the folder");
	help_model_write("own", tokenizer_text(t), strlen(tokenizer_text(t)));
	assert_opens("own", t);
	/* tokenizer.json says more, and goes first. */
	char *text = printed(byte);
	help_model_write("tokenizer.json", text, strlen(text));
	assert_opens("", byte);
	assert_opens("tokenizer.json", byte);
	free(text);
	help_model_write("tokenizer.json", "{\"model\":{}}", 12);
	assert_refused("", ERR_unsupported, "tokenizer.json: ");
	tokenizer_free(t);
	tokenizer_free(byte);
}

static void bad_pairs_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *merges;
		enum err code;
		const char *part;
	} rows[] = {
		{"#version: 0.2\nt h\n\nth e", ERR_OK, ""},
		{"t h\r\nth e\r\n", ERR_OK, ""},
		{"", ERR_OK, ""},
		{"#version: 0.2\n#version: 0.2\n", ERR_syntax, "merge 0"},
		{"t h\nt h\n", ERR_duplicate, "as merge 0"},
		{"t  h\n", ERR_syntax, "merge 0"},
		{"t \n", ERR_syntax, "merge 0"},
		{"\xff\xfe x\n", ERR_syntax, "merge 0"},
		{"z z\n", ERR_range, "no word"},
	};
	write_files("encoder.json", "vocab.bpe");
	size_t n;
	const uint8_t *words = help_model_read("encoder.json", &n);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct tokenizer *t = NULL;
		struct why why = {0};
		struct hftokenizer_files f = {.words = words,
			.n_words = n,
			.merges = rows[i].merges,
			.n_merges = strlen(rows[i].merges)};
		enum err e = hftokenizer_pair(&f, &t, &why);
		assert_int_equal(e, rows[i].code);
		if (e)
			help_model_told(&why, rows[i].code, rows[i].part);
		tokenizer_free(t);
	}
	struct hftokenizer_files f = {.words = "[]", .n_words = 2};
	struct tokenizer *t = NULL;
	struct why why = {0};
	assert_int_equal(hftokenizer_pair(&f, &t, &why), ERR_syntax);
	f.words = "{}";
	assert_int_equal(hftokenizer_pair(&f, &t, &why), ERR_unsupported);
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	write_files("encoder.json", "vocab.bpe");
	long n = 1;
	for (enum err e = ERR_nomem; e; n++) {
		struct tokenizer *t = NULL;
		alloc_fail_at(n);
		e = tokenizer_open(help_model_path(""), &t, NULL);
		alloc_fail_at(0);
		assert_true(e == ERR_OK || e == ERR_nomem);
		tokenizer_free(t);
	}
	assert_true(n > 10);
}

/* GPT-2's own files: the tokenizer.json that we make of them is the same tokenizer. */
static void gpt2_goes_through_tokenizer_json(void **state)
{
	(void)state;
	const char *folder = getenv("GPT2_VOCAB");
	if (!folder)
		skip();
	struct tokenizer *t = NULL;
	struct why why = {0};
	if (tokenizer_open(folder, &t, &why))
		fail_msg("%s", why.text);
	char *text = printed(t);
	struct tokenizer *again = parsed(text);
	assert_string_equal(tokenizer_text(again), tokenizer_text(t));
	free(text);
	tokenizer_free(again);
	tokenizer_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, help_model_setup, help_model_teardown)
		T(every_kind_is_read_again),
		T(other_ways_to_say_it_are_read),
		T(what_we_cannot_do_is_named),
		T(our_own_kind_must_be_whole),
		T(every_form_opens),
		T(bad_pairs_are_refused),
		T(each_allocation_may_fail),
		T(gpt2_goes_through_tokenizer_json),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
