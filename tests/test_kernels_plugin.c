/* What lies where the plug-in belongs is loaded only if it is a whole file of the program's owner.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "kernels/cpu/plugin.h"
#include "kernels/cpu/plugin_file.h"

/* ---- a scratch folder */

static const char *const names[] = {"so", "pipe", "folder", "none"};
static char folder[] = "/tmp/shoal-plugin-XXXXXX", at[sizeof folder + 16];

static const char *path_of(const char *name)
{
	snprintf(at, sizeof at, "%s/%.10s", folder, name);
	return at;
}

static int setup(void **state)
{
	(void)state;
	memset(strrchr(folder, '-') + 1, 'X', 6);
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		(void)remove(path_of(names[i]));
	return rmdir(folder);
}

static void put(const char *name, const void *bytes, size_t n)
{
	struct why why;
	if (file_write(path_of(name), bytes, n, 0644, &why))
		fail_msg("%s", why.text);
}

/* ---- tests */

/* A shared object to play with: this test's own program, which is one for the linker. */
static void put_object(const char *name, size_t *size)
{
	struct why why;
	uint8_t *bytes;
	if (file_read("/proc/self/exe", SIZE_MAX, &bytes, size, &why))
		fail_msg("%s", why.text);
	put(name, bytes, *size);
	free(bytes);
}

static void refused(const char *name, const char *reason)
{
	char why[160] = "";
	assert_false(plugin_file_check(path_of(name), why, sizeof why));
	if (!strstr(why, reason))
		fail_msg("\"%s\" does not say \"%s\"", why, reason);
	memset(why, 0, sizeof why);
	assert_null(plugin_load(path_of(name), why, sizeof why));
	assert_non_null(strstr(why, reason));
}

static void taken(const char *name)
{
	char why[160] = "";
	if (!plugin_file_check(path_of(name), why, sizeof why))
		fail_msg("%s", why);
}

static void a_whole_object_is_taken(void **state)
{
	(void)state;
	size_t size;
	put_object("so", &size);
	taken("so");
}

/* Where the last segment of this program ends in its file; symbols may follow. */
static size_t end_of_segments(void)
{
	const ElfW(Phdr) *s = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	size_t end = 0;
	for (unsigned long i = 0; i < getauxval(AT_PHNUM); i++)
		if (s[i].p_type == PT_LOAD && s[i].p_offset + s[i].p_filesz > end)
			end = s[i].p_offset + s[i].p_filesz;
	return end;
}

/* The linker would die of SIGBUS. */
static void one_that_is_cut_off_is_refused(void **state)
{
	(void)state;
	size_t size, end = end_of_segments();
	put_object("so", &size);
	assert_true(end > 4096 && end <= size);
	assert_int_equal(truncate(path_of("so"), (off_t)end), 0);
	taken("so");
	const size_t ends[] = {end - 1, end / 2, 4096, 100, 64, 63, 16, 4, 1, 0};
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		assert_int_equal(truncate(path_of("so"), (off_t)ends[i]), 0);
		refused("so", "cut off or damaged");
	}
}

static void what_is_no_object_is_refused(void **state)
{
	(void)state;
	static const char script[] = "#!/bin/sh\necho a script that is longer than the header is\n";
	put("so", script, sizeof script - 1);
	refused("so", "cut off or damaged");
	assert_int_equal(mkdir(path_of("folder"), 0755), 0);
	refused("folder", "not a plain file");
	assert_int_equal(mkfifo(path_of("pipe"), 0644), 0);
	refused("pipe", "not a plain file");
	refused("none", "No such file");
}

static void one_that_others_can_change_is_refused(void **state)
{
	(void)state;
	size_t size;
	struct stat self;
	assert_int_equal(stat("/proc/self/exe", &self), 0);
	if (self.st_mode & S_IWOTH)
		skip(); /* a file system without modes: the program is as open */
	put_object("so", &size);
	assert_int_equal(chmod(path_of("so"), 0666), 0);
	refused("so", "changed by others");
	assert_int_equal(chmod(path_of("so"), 0664), 0);
	taken("so");
}

static void one_of_another_user_is_refused(void **state)
{
	(void)state;
	size_t size;
	put_object("so", &size);
	if (chown(path_of("so"), 12345, (gid_t)-1) != 0)
		skip(); /* only root gives files away */
	refused("so", "changed by others");
	assert_int_equal(chown(path_of("so"), 0, (gid_t)-1), 0);
	taken("so");
}

#define with_folder(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_folder(a_whole_object_is_taken),
		with_folder(one_that_is_cut_off_is_refused),
		with_folder(what_is_no_object_is_refused),
		with_folder(one_that_others_can_change_is_refused),
		with_folder(one_of_another_user_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
