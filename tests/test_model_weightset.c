/* Weights in several files: index and files must agree, and nothing outside the folder is read. */
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
#include "model/safetensors_out.h"
#include "model/weightset.h"
#include "tests/help_model.h"

/* A file with tensors of one element, named by the letters. */
static void put_file(const char *name, const char *letters)
{
	char names[8][2];
	struct safetensors_plan plans[8];
	size_t n = strlen(letters);
	for (size_t i = 0; i < n; i++) {
		names[i][0] = letters[i];
		names[i][1] = 0;
		plans[i] = (struct safetensors_plan){.name = names[i], .rank = 1, .dim = {1}};
	}
	struct safetensors_plans all = {.tensors = plans, .n_tensors = n};
	struct safetensors_out *f = NULL;
	assert_int_equal(safetensors_out_open(help_model_path(name), &all, &f, NULL), ERR_OK);
	for (size_t i = 0; i < n; i++) {
		float value = letters[i];
		assert_int_equal(safetensors_out_put(f, &value, 1, NULL), ERR_OK);
	}
	assert_int_equal(safetensors_out_commit(f, NULL), ERR_OK);
}

static void put_index(const char *text)
{
	help_model_write("d/" WEIGHTSET_INDEX, text, strlen(text));
}

static void make(void)
{
	assert_int_equal(file_mkdirs(help_model_path("d"), 0755, NULL), ERR_OK);
	put_file("d/x.safetensors", "ab");
	put_file("d/y.safetensors", "c");
	put_file("outside.safetensors", "c");
}

#define MAP(rest) "{\"metadata\":{},\"weight_map\":{" rest "}}"
#define GOOD MAP("\"a\":\"x.safetensors\",\"c\":\"y.safetensors\",\"b\":\"x.safetensors\"")

/* Headers are parsed and kept: what they may have is bounded for all files together. */
static void headers_are_bounded_together(void **state)
{
	(void)state;
	enum { BYTES = SAFETENSORS_HEADER_MAX / 2 + 100 };
	static const char *const names[] = {"d/x.safetensors", "d/y.safetensors"};
	static const char head[] = "{\"__metadata__\":{\"a\":\"", tail[] = "\"}}";
	make();
	char *file = alloc_must(8 + BYTES);
	for (int i = 0; i < 8; i++)
		file[i] = (char)((uint64_t)BYTES >> 8 * i);
	memset(file + 8, 'z', BYTES);
	memcpy(file + 8, head, sizeof head - 1);
	memcpy(file + 8 + BYTES - (sizeof tail - 1), tail, sizeof tail - 1);
	help_model_write(names[0], file, 8 + BYTES);
	help_model_write(names[1], file, 8 + BYTES);
	free(file);
	put_index(MAP("\"a\":\"x.safetensors\",\"c\":\"y.safetensors\""));
	struct weightset *w = NULL;
	struct why why = {0};
	assert_int_equal(weightset_open(help_model_path("d"), &w, &why), ERR_toobig);
	assert_non_null(strstr(why.text, "bytes together, up to y.safetensors"));
}

static void several_files_are_one_set(void **state)
{
	(void)state;
	struct weightset *w = NULL;
	struct why why = {0};
	make();
	put_index(GOOD);
	if (weightset_open(help_model_path("d"), &w, &why))
		fail_msg("%s", why.text);
	assert_int_equal(weightset_count(w), 3);
	for (size_t i = 0; i < 3; i++) {
		const struct safetensors_tensor *t = weightset_at(w, i);
		float value = 0;
		assert_ptr_equal(weightset_find(w, t->name), t);
		assert_int_equal(safetensors_read(t, 0, 1, &value, NULL), ERR_OK);
		assert_true(value == (float)t->name[0]);
	}
	assert_null(weightset_find(w, "d"));

	/* The hash is of the list of files, in the order of their names. */
	char text[400], hex[2][HASH_HEX];
	const char *const names[] = {"d/x.safetensors", "d/y.safetensors"};
	for (size_t i = 0; i < 2; i++) {
		size_t n;
		const uint8_t *bytes = help_model_read(names[i], &n);
		struct hash h = hash_of(bytes, n);
		hash_hex(&h, hex[i]);
	}
	snprintf(text, sizeof text, "{\"x.safetensors\":\"%s\",\"y.safetensors\":\"%s\"}", hex[0],
		hex[1]);
	struct hash must = hash_of(text, strlen(text)), is = weightset_hash(w);
	assert_true(hash_equal(&must, &is));
	weightset_close(w);
}

static void lying_indices_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *index;
		enum err code;
		const char *part;
	} rows[] = {
		{"{", ERR_truncated, "index.json"},
		{"{}", ERR_syntax, "weight_map"},
		{"[]", ERR_syntax, "weight_map"},
		{"{\"weight_map\":[]}", ERR_syntax, "weight_map"},
		{MAP(""), ERR_range, "names 0 files"},
		{MAP("\"a\":3"), ERR_syntax, "tensor a lies in \"\""},
		{MAP("\"a\":\"../outside.safetensors\""), ERR_syntax, "same folder"},
		{MAP("\"a\":\"/etc/x.safetensors\""), ERR_syntax, "same folder"},
		{MAP("\"a\":\".safetensors\""), ERR_syntax, "same folder"},
		{MAP("\"a\":\"..safetensors\""), ERR_syntax, "same folder"},
		{MAP("\"a\":\"x.bin\""), ERR_syntax, "same folder"},
		{MAP("\"a\":\"z.safetensors\""), ERR_missing, "z.safetensors"},
		{MAP("\"a\":\"x.safetensors\""), ERR_syntax, "tensor b lies in x.safetensors"},
		{MAP("\"a\":\"x.safetensors\",\"b\":\"y.safetensors\",\"c\":\"y.safetensors\""),
			ERR_syntax, "the index has it in y.safetensors"},
		{MAP("\"a\":\"x.safetensors\",\"b\":\"x.safetensors\",\"e\":\"x.safetensors\""),
			ERR_missing, "tensor e is not in x.safetensors"},
	};
	make();
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct weightset *w = NULL;
		struct why why = {0};
		put_index(rows[i].index);
		assert_int_equal(weightset_open(help_model_path("d"), &w, &why), rows[i].code);
		help_model_told(&why, rows[i].code, rows[i].part);
	}
}

/* A tensor in two files: the index can only have it in one. */
static void a_tensor_in_two_files_is_refused(void **state)
{
	(void)state;
	struct weightset *w = NULL;
	struct why why = {0};
	make();
	put_file("d/y.safetensors", "bc");
	put_index(GOOD);
	assert_int_equal(weightset_open(help_model_path("d"), &w, &why), ERR_syntax);
	help_model_told(&why, ERR_syntax, "tensor b lies in y.safetensors");
}

/* A header as large as that of a model of 405 billion parameters in one file, and ten times so. */
static void headers_of_large_models_are_read(void **state)
{
	(void)state;
	enum { TENSORS = 11380 };
	static struct safetensors_plan plans[TENSORS];
	static char names[TENSORS][80];
	struct safetensors_out *f = NULL;
	struct safetensors *s = NULL;
	for (size_t i = 0; i < TENSORS; i++) {
		snprintf(names[i], sizeof names[i],
			"model.layers.%zu.self_attn.post_attention_layernorm.weight", i);
		plans[i] = (struct safetensors_plan){.name = names[i], .rank = 2, .dim = {1, 1}};
	}
	const struct safetensors_plans all = {.tensors = plans, .n_tensors = TENSORS};
	assert_int_equal(safetensors_out_open(help_model_path("big"), &all, &f, NULL), ERR_OK);
	for (size_t i = 0; i < TENSORS; i++) {
		float value = (float)i;
		assert_int_equal(safetensors_out_put(f, &value, 1, NULL), ERR_OK);
	}
	assert_int_equal(safetensors_out_commit(f, NULL), ERR_OK);
	assert_int_equal(safetensors_open(help_model_path("big"), &s, NULL), ERR_OK);
	assert_int_equal(safetensors_count(s), TENSORS);
	safetensors_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, help_model_setup, help_model_teardown)
		T(several_files_are_one_set),
		T(lying_indices_are_refused),
		T(a_tensor_in_two_files_is_refused),
		T(headers_of_large_models_are_read),
		T(headers_are_bounded_together),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
