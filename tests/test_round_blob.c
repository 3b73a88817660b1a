/* Blobs: whole or not there, under their own names only, within their cap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "round/blob.h"
#include "tests/help_round.h"

static struct blob_store *store(uint64_t cap)
{
	struct blob_store *s;
	struct why why = {0};
	if (blob_open(help_round_path("blobs"), cap, &s, &why))
		fail_msg("%s", why.text);
	return s;
}

/* Writes over the blob's file behind the store's back. */
static void spoil(const struct blob_store *s, const struct hash *name)
{
	char *path = blob_path(s, name);
	int fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "!", 1, 1), 1);
	close(fd);
	free(path);
}

static void what_is_put_is_got(void **state)
{
	(void)state;
	struct blob_store *s = store(0);
	struct hash name, again, other;
	struct why why = {0};
	uint8_t *bytes;
	size_t n;
	uint64_t size;
	assert_int_equal(blob_put(s, "hello", 5, &name, &why), ERR_OK);
	assert_int_equal(blob_put(s, "hello", 5, &again, &why), ERR_OK);
	assert_int_equal(blob_put(s, "", 0, &other, &why), ERR_OK);
	assert_true(hash_equal(&name, &again));
	assert_int_equal(blob_total(s), 5);
	assert_true(blob_has(s, &name));
	assert_int_equal(blob_size(s, &name, &size), ERR_OK);
	assert_int_equal(size, 5);
	assert_int_equal(blob_get(s, &name, 5, &bytes, &n, &why), ERR_OK);
	assert_int_equal(n, 5);
	assert_string_equal((char *)bytes, "hello");
	free(bytes);
	assert_int_equal(blob_get(s, &name, 4, &bytes, &n, &why), ERR_toobig);
	assert_int_equal(blob_verify(s, &name, &why), ERR_OK);
	blob_close(s);

	s = store(0); /* found again */
	struct hash *names;
	assert_int_equal(blob_total(s), 5);
	assert_int_equal(blob_list(s, &names, &n, &why), ERR_OK);
	assert_int_equal(n, 2);
	assert_true(memcmp(&names[0], &names[1], sizeof names[0]) < 0);
	free(names);
	assert_int_equal(blob_remove(s, &name, &why), ERR_OK);
	assert_int_equal(blob_remove(s, &name, &why), ERR_missing);
	assert_int_equal(blob_get(s, &name, 5, &bytes, &n, &why), ERR_missing);
	help_round_told(&why, ERR_missing, "there is no blob 2cf24dba5fb0a30e");
	assert_int_equal(blob_verify(s, &name, &why), ERR_missing);
	assert_int_equal(blob_total(s), 0);
	blob_close(s);
}

static void a_damaged_blob_is_noticed_and_removed(void **state)
{
	(void)state;
	struct blob_store *s = store(0);
	struct hash a, b;
	struct why why = {0};
	uint8_t *bytes;
	size_t n;
	assert_int_equal(blob_put(s, "hello", 5, &a, &why), ERR_OK);
	assert_int_equal(blob_put(s, "world", 5, &b, &why), ERR_OK);
	spoil(s, &a);
	spoil(s, &b);
	assert_int_equal(blob_get(s, &a, 100, &bytes, &n, &why), ERR_hash);
	help_round_told(&why, ERR_hash, "it was damaged and is removed");
	assert_int_equal(blob_verify(s, &b, &why), ERR_hash);
	assert_false(blob_has(s, &a));
	assert_false(blob_has(s, &b));
	assert_int_equal(blob_total(s), 0);
	blob_close(s);
}

static void a_finished_file_is_taken_over(void **state)
{
	(void)state;
	struct blob_store *s = store(0);
	struct hash name, again;
	struct why why = {0};
	const char *path = help_round_path("snapshot");
	assert_int_equal(blob_adopt(s, path, &name, &why), ERR_missing);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(file_write(path, "hello", 5, 0644, &why), ERR_OK);
		assert_int_equal(blob_adopt(s, path, i ? &again : &name, &why), ERR_OK);
		assert_false(file_exists(path));
		assert_int_equal(blob_total(s), 5);
	}
	assert_true(hash_equal(&name, &again));
	assert_int_equal(blob_verify(s, &name, &why), ERR_OK);
	blob_close(s);
}

static void the_cap_holds(void **state)
{
	(void)state;
	struct blob_store *s = store(10);
	struct hash name, big = help_round_hash(1);
	struct blob_part *part, *second;
	struct why why = {0};
	assert_int_equal(blob_put(s, "hello", 5, &name, &why), ERR_OK);
	assert_int_equal(blob_put(s, "worlds", 6, &name, &why), ERR_full);
	help_round_told(&why, ERR_full, "holds 5 bytes of at most 10, 6 more do not fit");
	assert_int_equal(blob_part_open(s, &big, 6, &part, &why), ERR_full);
	assert_int_equal(blob_part_open(s, &big, BLOB_MAX + 1, &part, &why), ERR_toobig);
	assert_int_equal(blob_part_open(s, &big, 5, &part, &why), ERR_OK);
	assert_int_equal(blob_part_open(s, &big, 5, &second, &why), ERR_busy);
	/* What was promised to the download is not given away. */
	assert_int_equal(blob_put(s, "x", 1, &name, &why), ERR_full);
	assert_int_equal(blob_part_put(part, "abc", 3, &why), ERR_OK);
	assert_int_equal(blob_put(s, "x", 1, &name, &why), ERR_full);
	blob_part_close(part);
	assert_int_equal(blob_total(s), 8);
	assert_int_equal(blob_put(s, "xy", 2, &name, &why), ERR_OK);
	const char *path = help_round_path("file");
	assert_int_equal(file_write(path, "1", 1, 0644, &why), ERR_OK);
	assert_int_equal(blob_adopt(s, path, &name, &why), ERR_full);
	assert_true(file_exists(path));
	blob_close(s);
}

static void a_download_goes_on_where_it_was(void **state)
{
	(void)state;
	static const char text[] = "what is fetched in several pieces";
	const size_t n = sizeof text - 1;
	struct hash name = hash_of(text, n);
	struct why why = {0};
	struct blob_part *part;
	for (size_t done = 0; done < n; done += 10) { /* a new process each time */
		struct blob_store *s = store(0);
		assert_int_equal(blob_total(s), done);
		assert_int_equal(blob_part_open(s, &name, n, &part, &why), ERR_OK);
		assert_int_equal(blob_part_have(part), done);
		size_t piece = n - done < 10 ? n - done : 10;
		assert_int_equal(blob_part_put(part, text + done, piece, &why), ERR_OK);
		assert_false(blob_has(s, &name));
		if (done + piece == n) {
			assert_int_equal(blob_part_put(part, "x", 1, &why), ERR_toobig);
			assert_int_equal(blob_part_commit(part, &why), ERR_OK);
			assert_true(blob_has(s, &name));
			assert_int_equal(blob_verify(s, &name, &why), ERR_OK);
			assert_int_equal(blob_part_open(s, &name, n, &part, &why), ERR_exists);
		} else if (done == 10)
			assert_int_equal(blob_part_commit(part, &why), ERR_truncated);
		blob_close(s); /* closes the part too */
	}
}

static void a_download_that_is_another_one_is_thrown_away(void **state)
{
	(void)state;
	struct blob_store *s = store(100);
	struct hash name = hash_of("right", 5);
	struct blob_part *part;
	struct why why = {0};
	assert_int_equal(blob_part_open(s, &name, 5, &part, &why), ERR_OK);
	assert_int_equal(blob_part_put(part, "wrong", 5, &why), ERR_OK);
	assert_int_equal(blob_part_commit(part, &why), ERR_hash);
	help_round_told(&why, ERR_hash, "is not what was asked for");
	assert_int_equal(blob_total(s), 0);

	assert_int_equal(blob_part_open(s, &name, 5, &part, &why), ERR_OK);
	assert_int_equal(blob_part_have(part), 0);
	assert_int_equal(blob_part_put(part, "righ", 4, &why), ERR_OK);
	blob_part_close(part);
	/* Said to be shorter now: what is there cannot be its beginning. */
	assert_int_equal(blob_part_open(s, &name, 3, &part, &why), ERR_OK);
	assert_int_equal(blob_part_have(part), 0);
	blob_part_close(part);
	assert_int_equal(blob_part_open(s, &name, 5, &part, &why), ERR_OK);
	assert_int_equal(blob_part_put(part, "right", 5, &why), ERR_OK);
	assert_int_equal(blob_part_commit(part, &why), ERR_OK);
	assert_int_equal(blob_total(s), 5);
	blob_close(s);
}

static void foreign_names_are_left_alone(void **state)
{
	(void)state;
	struct why why = {0};
	struct hash outside = hash_of("secret", 6);
	char hex[HASH_HEX], name[200];
	hash_hex(&outside, hex);
	assert_int_equal(file_mkdirs(help_round_path("blobs"), 0755, &why), ERR_OK);
	static const char *const names[] = {"notes.txt", "0123", "lost.Qk3TdE.tmp"};
	for (size_t i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "blobs/%s", names[i]);
		assert_int_equal(
			file_write(help_round_path(name), "secret", 6, 0644, &why), ERR_OK);
	}
	/* A link under a blob's name leads out of the folder: it is no blob. */
	assert_int_equal(file_write(help_round_path("secret"), "secret", 6, 0644, &why), ERR_OK);
	snprintf(name, sizeof name, "blobs/%s", hex);
	assert_int_equal(symlink(help_round_path("secret"), help_round_path(name)), 0);
	snprintf(name, sizeof name, "blobs/%s.part", hex);
	assert_int_equal(symlink(help_round_path("secret"), help_round_path(name)), 0);
	struct blob_store *s = store(0);
	struct blob_part *part;
	uint8_t *bytes;
	size_t n;
	assert_int_equal(blob_total(s), 0);
	assert_false(blob_has(s, &outside));
	assert_int_equal(blob_get(s, &outside, 100, &bytes, &n, &why), ERR_missing);
	assert_int_not_equal(blob_part_open(s, &outside, 6, &part, &why), ERR_OK);
	blob_close(s);
	assert_true(file_exists(help_round_path("blobs/notes.txt")));
	assert_true(file_exists(help_round_path("blobs/0123")));
	assert_false(file_exists(help_round_path("blobs/lost.Qk3TdE.tmp")));
}

static void a_folder_that_cannot_be_is_told(void **state)
{
	(void)state;
	struct why why = {0};
	struct blob_store *s;
	assert_int_equal(file_write(help_round_path("file"), "", 0, 0644, &why), ERR_OK);
	assert_int_not_equal(blob_open(help_round_path("file/blobs"), 0, &s, &why), ERR_OK);
	assert_non_null(strstr(why.text, "file"));
	blob_close(NULL);
	blob_part_close(NULL);
}

#define ON_DISK(name) cmocka_unit_test_setup_teardown(name, help_round_setup, help_round_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_DISK(what_is_put_is_got),
		ON_DISK(a_damaged_blob_is_noticed_and_removed),
		ON_DISK(a_finished_file_is_taken_over),
		ON_DISK(the_cap_holds),
		ON_DISK(a_download_goes_on_where_it_was),
		ON_DISK(a_download_that_is_another_one_is_thrown_away),
		ON_DISK(foreign_names_are_left_alone),
		ON_DISK(a_folder_that_cannot_be_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
