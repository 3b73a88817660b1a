/* State files: everything comes back aligned, and whatever is wrong with one is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/file.h"
#include "model/statefile.h"
#include "tests/help_model.h"

static struct hash run_of(const char *text)
{
	return hash_of(text, strlen(text));
}

static enum err write_state(const char *path, const char *run, int64_t steps, struct why *why)
{
	static const float weights[] = {1, 2, 3};
	json_t *meta = json_pack("{s:I}", "steps", (json_int_t)steps);
	struct statefile_head head = {.kind = "local", .run = run_of(run), .meta = meta};
	struct statefile_out *f = NULL;
	enum err e = statefile_create(path, &head, &f, why);
	if (!e)
		e = statefile_section(f, "weights", sizeof weights, why);
	for (unsigned i = 0; i < 3 && !e; i++)
		e = statefile_put(f, &weights[i], sizeof *weights, why);
	if (!e)
		e = statefile_add(f, "nothing", NULL, 0, why);
	if (!e)
		e = statefile_add(f, "odd", "abcde", 5, why);
	json_decref(meta);
	if (!e)
		return statefile_commit(f, why);
	statefile_discard(f);
	return e;
}

static enum err open_state(const char *path, const char *run, struct why *why)
{
	struct statefile *s = NULL;
	struct hash id = run_of(run);
	enum err e = statefile_open(path, "local", &id, &s, why);
	statefile_close(s);
	return e;
}

static void what_is_written_is_read(void **state)
{
	(void)state;
	struct why why = {0};
	const char *path = help_model_path("s");
	assert_int_equal(write_state(path, "mine", 7, &why), ERR_OK);
	struct statefile *s = NULL;
	struct hash run = run_of("mine");
	assert_int_equal(statefile_open(path, "local", &run, &s, &why), ERR_OK);
	assert_string_equal(statefile_kind(s), "local");
	struct hash got = statefile_run(s);
	assert_true(hash_equal(&got, &run));
	assert_int_equal(json_integer_value(json_object_get(statefile_meta(s), "steps")), 7);
	assert_int_equal(statefile_count(s), 3);
	static const char *const names[] = {"weights", "nothing", "odd"};
	static const size_t lens[] = {12, 0, 5};
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(statefile_at(s, i)->name, names[i]);
		assert_int_equal(statefile_at(s, i)->len, lens[i]);
		assert_int_equal((uintptr_t)statefile_at(s, i)->bytes % 8, 0);
	}
	const uint8_t *bytes;
	float weights[3];
	assert_int_equal(statefile_find(s, "weights", 12, &bytes, &why), ERR_OK);
	memcpy(weights, bytes, 12);
	assert_true(weights[0] == 1 && weights[1] == 2 && weights[2] == 3);
	assert_int_equal(statefile_find(s, "odd", 5, &bytes, &why), ERR_OK);
	assert_memory_equal(bytes, "abcde", 5);
	assert_int_equal(statefile_find(s, "odd", 4, &bytes, &why), ERR_shape);
	help_model_told(&why, ERR_shape, "section odd of the state has 5 bytes instead of 4");
	assert_int_equal(statefile_find(s, "even", 4, &bytes, &why), ERR_missing);
	help_model_told(&why, ERR_missing, "no section even");
	statefile_close(s);
	statefile_close(NULL);
	/* The same state, the same bytes. */
	size_t n, m;
	assert_int_equal(write_state(help_model_path("t"), "mine", 7, &why), ERR_OK);
	const uint8_t *first = help_model_read("s", &n), *second = help_model_read("t", &m);
	assert_int_equal(n, m);
	assert_memory_equal(first, second, n);
}

static void writing_is_whole_or_not_at_all(void **state)
{
	(void)state;
	struct why why;
	json_t *meta = json_object();
	struct statefile_head head = {.kind = "sixteen-letters!", .meta = meta};
	struct statefile_out *f = NULL;
	const char *path = help_model_path("s");
	assert_int_equal(statefile_create(path, &head, &f, &why), ERR_OK);
	assert_int_equal(statefile_section(f, "a", 4, &why), ERR_OK);
	assert_int_equal(statefile_put(f, "abc", 3, &why), ERR_OK);
	assert_int_equal(statefile_section(f, "b", 4, &why), ERR_state);
	help_model_told(&why, ERR_state, "1 bytes of a section are missing");
	assert_int_equal(statefile_put(f, "de", 2, &why), ERR_state);
	help_model_told(&why, ERR_state, "1 bytes too many");
	assert_int_equal(statefile_commit(f, &why), ERR_state);
	assert_int_equal(help_model_entries(""), 0);
	assert_int_equal(statefile_create(help_model_path("no/s"), &head, &f, &why), ERR_missing);
	statefile_discard(NULL);
	json_object_set_new(meta, "a", json_string(help_model_prose(1, STATEFILE_META_MAX)));
	assert_int_equal(statefile_create(path, &head, &f, &why), ERR_toobig);
	json_object_clear(meta);
	/* Names may fill their fields, and no section is a state, too. */
	assert_int_equal(statefile_create(path, &head, &f, &why), ERR_OK);
	char name[STATEFILE_NAME_MAX + 1];
	memset(name, 'n', STATEFILE_NAME_MAX);
	name[STATEFILE_NAME_MAX] = 0;
	assert_int_equal(statefile_add(f, name, "x", 1, &why), ERR_OK);
	assert_int_equal(statefile_commit(f, &why), ERR_OK);
	struct statefile *s = NULL;
	assert_int_equal(statefile_open(path, "sixteen-letters!", NULL, &s, &why), ERR_OK);
	assert_string_equal(statefile_at(s, 0)->name, name);
	statefile_close(s);
	json_decref(meta);
}

/* ---- damage */

static enum err parse(const uint8_t *bytes, size_t n, struct why *why)
{
	struct statefile_bytes from = {.name = "it", .bytes = bytes, .len = n};
	struct statefile *s = NULL;
	struct hash run = run_of("mine");
	enum err e = statefile_parse(&from, "local", &run, &s, why);
	statefile_close(s);
	return e;
}

static void every_cut_is_seen(void **state)
{
	(void)state;
	struct why why;
	assert_int_equal(write_state(help_model_path("s"), "mine", 7, &why), ERR_OK);
	size_t n;
	const uint8_t *whole = help_model_read("s", &n);
	for (size_t cut = 0; cut < n; cut++) {
		/* An exact copy, so that reading beyond it is seen. */
		uint8_t *bytes = alloc_must(cut + 1);
		memcpy(bytes, whole, cut);
		assert_int_equal(parse(bytes, cut, &why), cut < 8 ? ERR_magic : ERR_truncated);
		free(bytes);
	}
	assert_int_equal(parse(whole, n, &why), ERR_OK);
}

static void every_flip_is_seen(void **state)
{
	(void)state;
	struct why why;
	assert_int_equal(write_state(help_model_path("s"), "mine", 7, &why), ERR_OK);
	size_t n;
	uint8_t *bytes = help_model_read("s", &n);
	for (size_t bit = 0; bit < 8 * n; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		enum err e = parse(bytes, n, &why);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(e, ERR_OK);
		assert_true(bit >= 64 || e == ERR_magic);
		assert_true(bit < 64 || bit >= 96 || e == ERR_version);
		/* Of the run id, the meta and the hash: only the hash can tell. */
		assert_true(bit < 256 || bit >= 512 || e == ERR_hash);
		assert_true(bit < 8 * (n - 32) || e == ERR_hash);
	}
}

static void strangers_are_named(void **state)
{
	(void)state;
	struct why why;
	const char *path = help_model_path("s");
	assert_int_equal(write_state(path, "mine", 7, &why), ERR_OK);
	assert_int_equal(open_state(path, "yours", &why), ERR_wrong_run);
	char mine[HASH_HEX], yours[HASH_HEX], both[120];
	struct hash a = run_of("mine"), b = run_of("yours");
	hash_hex(&a, mine);
	hash_hex(&b, yours);
	snprintf(both, sizeof both, "run %.12s, this is run %.12s", mine, yours);
	help_model_told(&why, ERR_wrong_run, both);
	struct statefile *s = NULL;
	assert_int_equal(statefile_open(path, "snapshot", NULL, &s, &why), ERR_magic);
	help_model_told(&why, ERR_magic, "kind \"local\", not \"snapshot\"");
	assert_int_equal(statefile_open(path, "local", NULL, &s, &why), ERR_OK);
	statefile_close(s);
	size_t n;
	uint8_t *bytes = help_model_read("s", &n);
	bytes[8] = 9;
	assert_int_equal(parse(bytes, n, &why), ERR_version);
	help_model_told(&why, ERR_version, "version 9, this program reads version 1");
	help_model_write(
		"t", "Something else entirely, but long enough to hold a head of this.", 64);
	assert_int_equal(open_state(help_model_path("t"), "mine", &why), ERR_magic);
	help_model_told(&why, ERR_magic, "not a state file");
	help_model_write("t", "", 0);
	assert_int_equal(open_state(help_model_path("t"), "mine", &why), ERR_truncated);
	assert_int_equal(open_state(help_model_path("none"), "mine", &why), ERR_missing);
}

/* Signed again after each change, so that only the structure is wrong. */
static enum err parse_with(struct buf *b, struct why *why)
{
	struct hash h = hash_of(b->data, b->len);
	buf_put(b, h.b, sizeof h.b);
	enum err e = parse(b->data, b->len, why);
	buf_release(b);
	return e;
}

static struct buf head_with(const char *meta, uint32_t meta_len)
{
	struct buf b;
	struct hash run = run_of("mine");
	static const uint8_t zeros[64];
	buf_init(&b, 1u << 20);
	buf_put(&b, "SHOALSTA", 8);
	buf_put_u32(&b, STATEFILE_VERSION);
	buf_put_u32(&b, meta_len);
	buf_put(&b, "local\0\0\0\0\0\0\0\0\0\0\0", 16);
	buf_put(&b, run.b, sizeof run.b);
	buf_put(&b, meta, strlen(meta));
	buf_put(&b, zeros, -strlen(meta) % 8);
	return b;
}

static void put_section(struct buf *b, const char *name, uint64_t len)
{
	char field[STATEFILE_NAME_MAX] = {0};
	memcpy(field, name, strlen(name));
	buf_put(b, field, sizeof field);
	buf_put_u64(b, len);
}

static void bad_structure_is_refused(void **state)
{
	(void)state;
	struct why why;
	struct buf b = head_with("{}", 2);
	put_section(&b, "", 0);
	assert_int_equal(parse_with(&b, &why), ERR_OK);
	b = head_with("{}", 2);
	put_section(&b, "", 1);
	assert_int_equal(parse_with(&b, &why), ERR_syntax);
	help_model_told(&why, ERR_syntax, "sections are missing");
	b = head_with("[]", 2);
	put_section(&b, "", 0);
	assert_int_equal(parse_with(&b, &why), ERR_syntax);
	help_model_told(&why, ERR_syntax, "meta is not a JSON object");
	b = head_with("{{", 2);
	put_section(&b, "", 0);
	assert_int_equal(parse_with(&b, &why), ERR_syntax);
	help_model_told(&why, ERR_syntax, "meta is not sound");
	b = head_with("{}", UINT32_MAX);
	put_section(&b, "", 0);
	assert_int_equal(parse_with(&b, &why), ERR_syntax);
	help_model_told(&why, ERR_syntax, "larger than allowed");
	b = head_with("{}x", 2); /* what should be padding */
	put_section(&b, "", 0);
	assert_int_equal(parse_with(&b, &why), ERR_syntax);
	b = head_with("{}", 2);
	put_section(&b, "a", UINT64_MAX);
	assert_int_equal(parse_with(&b, &why), ERR_truncated);
	b = head_with("{}", 2);
	put_section(&b, "a", UINT64_MAX - 7);
	put_section(&b, "", 0);
	assert_int_equal(parse_with(&b, &why), ERR_truncated);
	b = head_with("{}", 2);
	put_section(&b, "", 0);
	put_section(&b, "", 0);
	assert_int_equal(parse_with(&b, &why), ERR_syntax);
	help_model_told(&why, ERR_syntax, "something follows its end");
	b = head_with("{}", 2);
	buf_put_u64(&b, 0x6100); /* a name that begins with a zero byte */
	buf_put(&b, (const uint8_t[64]){0}, 64);
	assert_int_equal(parse_with(&b, &why), ERR_syntax);
}

/* ---- series */

static const struct hash *mine(void)
{
	static struct hash h;
	h = run_of("mine");
	return &h;
}

static void write_number(const struct statefile_series *series, uint64_t number, const char *run)
{
	char *path = statefile_path(series, number);
	assert_int_equal(write_state(path, run, (int64_t)number, NULL), ERR_OK);
	free(path);
}

static void spoil(const struct statefile_series *series, uint64_t number, size_t keep)
{
	char *path = statefile_path(series, number);
	assert_int_equal(truncate(path, (off_t)keep), 0);
	free(path);
}

static void the_newest_good_one_is_opened(void **state)
{
	(void)state;
	struct statefile_series series = {
		.dir = help_model_path(""), .prefix = "local", .kind = "local", .run = mine()};
	struct statefile *s = NULL;
	struct buf passed;
	struct why why;
	uint64_t number = 0;
	buf_init(&passed, 1u << 16);
	assert_int_equal(statefile_open_newest(&series, &s, &number, &passed, &why), ERR_missing);
	help_model_told(&why, ERR_missing, "there is no file local-NUMBER.state");
	static const uint64_t numbers[] = {9, 10, 100, 1000};
	for (size_t i = 0; i < 4; i++)
		write_number(&series, numbers[i], "mine");
	write_number(&series, 5000000000000, "other");
	help_model_write("local-000000009999.state.tmp", "x", 1);
	help_model_write("local-77777.state", "x", 1);
	help_model_write("other-000000007777.state", "x", 1);
	spoil(&series, 1000, 70);
	assert_int_equal(statefile_open_newest(&series, &s, &number, &passed, &why), ERR_OK);
	assert_int_equal(number, 100);
	assert_int_equal(json_integer_value(json_object_get(statefile_meta(s), "steps")), 100);
	statefile_close(s);
	buf_put_u8(&passed, 0);
	const char *lines = (const char *)passed.data;
	const char *second = strchr(lines, '\n');
	assert_non_null(second);
	assert_true(strstr(lines, "local-5000000000000.state belongs to run") < second);
	assert_non_null(strstr(second, "local-000000001000.state ends too early"));
	assert_int_equal(strlen(strchr(second + 1, '\n')), 1);

	buf_clear(&passed);
	for (size_t i = 0; i < 4; i++)
		spoil(&series, numbers[i], 3);
	assert_int_equal(statefile_open_newest(&series, &s, &number, &passed, &why), ERR_wrong_run);
	help_model_told(&why, ERR_wrong_run, "local-5000000000000.state");
	series.dir = help_model_path("nowhere");
	assert_int_equal(statefile_open_newest(&series, &s, &number, &passed, &why), ERR_missing);
	buf_release(&passed);
}

static void old_ones_are_pruned(void **state)
{
	(void)state;
	struct statefile_series series = {
		.dir = help_model_path(""), .prefix = "p", .kind = "local"};
	for (uint64_t i = 8; i < 13; i++)
		write_number(&series, i, "mine");
	help_model_write("p-x.state", "x", 1);
	statefile_prune(&series, 2);
	assert_int_equal(help_model_entries(""), 3);
	char *path = statefile_path(&series, 11);
	assert_int_equal(open_state(path, "mine", NULL), ERR_OK);
	free(path);
	statefile_prune(&series, 0);
	assert_int_equal(help_model_entries(""), 1);
	series.dir = "/nonexistent";
	statefile_prune(&series, 0);
}

static void what_a_killed_writer_left_is_swept(void **state)
{
	(void)state;
	struct statefile_series series = {
		.dir = help_model_path(""), .prefix = "local", .kind = "local"};
	write_number(&series, 8, "mine");
	help_model_write("local-000000000009.state.Qk3TdE.tmp", "x", 1);
	help_model_write("locally.tmp", "x", 1);
	statefile_sweep(&series);
	assert_int_equal(help_model_entries(""), 2);
	assert_true(file_exists(help_model_path("locally.tmp")));
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	struct statefile_series series = {
		.dir = help_model_path(""), .prefix = "p", .kind = "local"};
	enum err e;
	long n = 1;
	do {
		struct statefile *s = NULL;
		struct buf passed;
		uint64_t number;
		buf_init(&passed, 1000);
		char *path = statefile_path(&series, 3);
		alloc_fail_at(n++);
		e = write_state(path, "mine", 3, NULL);
		free(path);
		if (!e)
			e = statefile_open_newest(&series, &s, &number, &passed, NULL);
		statefile_close(s);
		buf_release(&passed);
		assert_true(e == ERR_OK || e == ERR_nomem);
	} while (e);
	assert_true(n > 3);
	assert_int_equal(help_model_entries(""), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, help_model_setup, help_model_teardown)
		T(what_is_written_is_read),
		T(writing_is_whole_or_not_at_all),
		T(every_cut_is_seen),
		T(every_flip_is_seen),
		T(strangers_are_named),
		T(bad_structure_is_refused),
		T(the_newest_good_one_is_opened),
		T(old_ones_are_pruned),
		T(what_a_killed_writer_left_is_swept),
		T(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
