/* Files: whole or not at all, on good days and on full disks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "tests/help_base.h"

static void assert_told(const struct why *why, enum err code, const char *part)
{
	assert_int_equal(why->code, code);
	if (!strstr(why->text, part))
		fail_msg("\"%s\" does not say \"%s\"", why->text, part);
}

static void a_file_is_read_whole(void **state)
{
	(void)state;
	struct why why;
	uint8_t *bytes;
	size_t len;
	help_base_write("f", "abc\0def", 7);
	const char *f = help_base_path("f");
	assert_int_equal(file_read(f, 7, &bytes, &len, &why), ERR_OK);
	assert_int_equal(len, 7);
	assert_memory_equal(bytes, "abc\0def\0", 8);
	free(bytes);
	assert_int_equal(file_read(f, SIZE_MAX, &bytes, &len, &why), ERR_OK);
	free(bytes);
	assert_int_equal(file_read(f, 6, &bytes, &len, &why), ERR_toobig);
	assert_null(bytes);
	assert_told(&why, ERR_toobig, f);
	help_base_write("empty", "", 0);
	assert_int_equal(file_read(help_base_path("empty"), 0, &bytes, &len, &why), ERR_OK);
	assert_int_equal(len, 0);
	assert_int_equal(bytes[0], 0);
	free(bytes);

	assert_int_equal(file_read(help_base_path("none"), 9, &bytes, &len, &why), ERR_missing);
	assert_told(&why, ERR_missing, "none: No such file");
	assert_int_equal(file_read(help_base_path(""), 9, &bytes, &len, &why), ERR_io);
	assert_told(&why, ERR_io, "directory");
}

/* What has no size beforehand: a file of /proc, an endless device, a pipe that grows. */
static void a_file_without_size_is_bounded(void **state)
{
	(void)state;
	struct why why;
	uint8_t *bytes;
	size_t len;
	assert_int_equal(file_read("/proc/self/status", 1 << 20, &bytes, &len, &why), ERR_OK);
	assert_true(len > 100);
	assert_memory_equal(bytes, "Name:", 5);
	free(bytes);
	assert_int_equal(file_read("/proc/self/status", 10, &bytes, &len, &why), ERR_toobig);
	assert_int_equal(file_read("/dev/zero", 300000, &bytes, &len, &why), ERR_toobig);
	assert_int_equal(file_read("/dev/null", 10, &bytes, &len, &why), ERR_OK);
	free(bytes);
}

/* A named pipe among downloaded files, say: nobody waits for a writer who never comes. */
static void a_pipe_without_a_writer_is_empty(void **state)
{
	(void)state;
	struct why why;
	uint8_t *bytes;
	size_t len;
	struct file_map map;
	struct hash h;
	uint64_t size = 0;
	const char *pipe = help_base_path("pipe");
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_int_equal(file_read(pipe, 10, &bytes, &len, &why), ERR_OK);
	assert_int_equal(len, 0);
	free(bytes);
	assert_int_equal(file_map(pipe, &map, &why), ERR_unsupported);
	assert_int_equal(hash_file(pipe, &h, &size), ERR_OK);
	assert_int_equal(size, 0);
}

/* As a shell's <(command): what comes is waited for. */
static void a_pipe_is_read_to_its_end(void **state)
{
	(void)state;
	struct why why;
	uint8_t *bytes;
	size_t len;
	const char *pipe = help_base_path("pipe");
	assert_int_equal(mkfifo(pipe, 0600), 0);
	int hold = open(pipe, O_RDWR | O_CLOEXEC);
	pid_t child = fork();
	assert_true(hold >= 0 && child >= 0);
	if (!child) {
		alarm(20);
		for (int i = 0, left = 0; i < 3; i++) {
			if (write(hold, "abc", 3) != 3)
				_exit(1);
			do /* until the reader has it and waits for more */
				sched_yield();
			while (!ioctl(hold, FIONREAD, &left) && left);
		}
		_exit(0);
	}
	close(hold);
	assert_int_equal(file_read(pipe, 10, &bytes, &len, &why), ERR_OK);
	assert_int_equal(len, 9);
	assert_memory_equal(bytes, "abcabcabc", 9);
	free(bytes);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	struct why why;
	uint8_t *bytes;
	size_t len;
	enum err err;
	long n = 0;
	do {
		alloc_fail_at(++n);
		err = file_read("/dev/zero", 300000, &bytes, &len, &why);
		assert_null(bytes);
	} while (err == ERR_nomem);
	assert_int_equal(err, ERR_toobig);
	assert_true(n >= 4);
	alloc_fail_at(0);
}

static void a_file_is_written_whole_or_not(void **state)
{
	(void)state;
	struct why why;
	struct stat st;
	const char *f = help_base_path("f");
	assert_int_equal(file_write(f, "one", 3, 0640, &why), ERR_OK);
	assert_int_equal(stat(f, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(file_write(f, NULL, 0, 0600, &why), ERR_OK);
	assert_int_equal(file_write(f, "two", 3, 0600, &why), ERR_OK);
	assert_string_equal(help_base_read("f", NULL), "two");

	struct file_out *out;
	assert_int_equal(file_out_open(f, 0600, &out, &why), ERR_OK);
	assert_int_equal(file_out_put(out, "three", 5, &why), ERR_OK);
	assert_string_equal(help_base_read("f", NULL), "two");
	file_out_discard(out);
	assert_string_equal(help_base_read("f", NULL), "two");
	assert_int_equal(help_base_entries(""), 1);
	file_out_discard(NULL);

	assert_int_equal(file_out_open(f, 0600, &out, &why), ERR_OK);
	assert_int_equal(file_out_put(out, "fo", 2, &why), ERR_OK);
	assert_int_equal(file_out_put(out, "ur", 2, &why), ERR_OK);
	assert_int_equal(file_out_commit(out, &why), ERR_OK);
	assert_string_equal(help_base_read("f", NULL), "four");
	assert_int_equal(help_base_entries(""), 1);

	assert_int_equal(file_write(help_base_path("no/f"), "x", 1, 0600, &why), ERR_missing);
	assert_told(&why, ERR_missing, "no/f: No such file or directory; check");
	assert_int_equal(file_write(help_base_path("f/x"), "x", 1, 0600, &why), ERR_missing);
	// A folder stands where the file should be: found at the rename, nothing left behind.
	assert_int_equal(file_mkdirs(help_base_path("d"), 0700, &why), ERR_OK);
	assert_int_equal(file_write(help_base_path("d"), "x", 1, 0600, &why), ERR_io);
	assert_told(&why, ERR_io, "directory");
	assert_int_equal(help_base_entries(""), 2);
}

static void a_relative_name_works(void **state)
{
	(void)state;
	struct why why;
	char before[4096];
	assert_non_null(getcwd(before, sizeof before));
	assert_int_equal(chdir(help_base_path("")), 0);
	enum err err = file_write("plain", "x", 1, 0600, &why);
	uint64_t here = 0, there = 0;
	enum err space = file_space("not/yet/there", &there);
	enum err same = file_space(".", &here);
	assert_int_equal(chdir(before), 0);
	assert_int_equal(err, ERR_OK);
	assert_string_equal(help_base_read("plain", NULL), "x");
	assert_int_equal(space, ERR_OK);
	assert_int_equal(same, ERR_OK);
	assert_true(here > 0 && there > 0);
	assert_int_equal(file_space("/not/there/at/all", &there), ERR_OK);
	assert_int_equal(file_space(help_base_path("plain/x"), &there), ERR_missing);
}

static void what_a_killed_writer_left_is_swept(void **state)
{
	(void)state;
	struct why why;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct file_out *out;
		if (file_out_open(help_base_path("f"), 0600, &out, &why) ||
			file_out_put(out, "half", 4, &why))
			_exit(1);
		raise(SIGKILL);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_false(file_exists(help_base_path("f")));
	assert_int_equal(help_base_entries(""), 1);
	help_base_write("keep", "x", 1);
	help_base_write(".tmp", "x", 1);
	help_base_write("mine.tmp", "x", 1);
	file_sweep(help_base_path(""), "f.");
	assert_int_equal(help_base_entries(""), 3);
	assert_true(file_exists(help_base_path("mine.tmp")));
	file_sweep(help_base_path(""), "");
	assert_int_equal(help_base_entries(""), 2);
	assert_true(file_exists(help_base_path("keep")));
	file_sweep(help_base_path("none"), "");
}

static void folders_are_made(void **state)
{
	(void)state;
	struct why why;
	assert_int_equal(file_mkdirs(help_base_path("a//b/c/"), 0700, &why), ERR_OK);
	assert_true(file_exists(help_base_path("a/b/c")));
	assert_int_equal(file_mkdirs(help_base_path("a/b/c"), 0700, &why), ERR_OK);
	assert_int_equal(file_mkdirs("/", 0700, &why), ERR_OK);
	assert_int_equal(file_mkdirs("", 0700, &why), ERR_OK);
	help_base_write("f", "x", 1);
	assert_int_equal(file_mkdirs(help_base_path("f"), 0700, &why), ERR_exists);
	assert_told(&why, ERR_exists, "f: File exists; remove it");
	assert_int_equal(file_mkdirs(help_base_path("f/x"), 0700, &why), ERR_exists);
}

static void a_lock_is_held_once(void **state)
{
	(void)state;
	struct why why;
	int fd = -1, second = -1;
	const char *lock = help_base_path("lock");
	assert_int_equal(file_lock(lock, &fd, &why), ERR_OK);
	assert_int_equal(file_lock(lock, &second, &why), ERR_busy);
	char pid[40];
	snprintf(pid, sizeof pid, "process %ld", (long)getpid());
	assert_told(&why, ERR_busy, pid);
	close(fd);
	help_base_write("lock", "garbage and more of it than a number has", 40);
	assert_int_equal(file_lock(lock, &fd, &why), ERR_OK);
	close(fd);
	assert_int_equal(file_lock(help_base_path("no/lock"), &fd, &why), ERR_missing);
	assert_told(&why, ERR_missing, "no/lock");
}

static void a_file_is_mapped(void **state)
{
	(void)state;
	struct why why;
	struct file_map m;
	help_base_write("f", "mapped", 6);
	assert_int_equal(file_map(help_base_path("f"), &m, &why), ERR_OK);
	assert_int_equal(m.len, 6);
	assert_memory_equal(m.data, "mapped", 6);
	// Replaced by a rename meanwhile: the mapping keeps the old content.
	assert_int_equal(file_write(help_base_path("f"), "x", 1, 0600, &why), ERR_OK);
	assert_memory_equal(m.data, "mapped", 6);
	file_unmap(&m);
	file_unmap(&m);
	file_unmap(NULL);
	help_base_write("empty", "", 0);
	assert_int_equal(file_map(help_base_path("empty"), &m, &why), ERR_truncated);
	assert_told(&why, ERR_truncated, "empty");
	assert_int_equal(file_map("/dev/null", &m, &why), ERR_unsupported);
	assert_int_equal(file_map(help_base_path("none"), &m, &why), ERR_missing);
	assert_int_equal(file_map(help_base_path(""), &m, &why), ERR_io);
	assert_null(m.data);
}

/* In a child, because root's effective user and limits belong to the whole process. */
static int child_status(int (*body)(void))
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(body());
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static int write_forbidden(void)
{
	struct why why;
	if (chmod(help_base_path(""), 0555) != 0 || (geteuid() == 0 && seteuid(65534) != 0))
		return 1;
	if (file_write(help_base_path("f"), "x", 1, 0600, &why) != ERR_permission)
		return 2;
	return strstr(why.text, "owner and mode") ? 0 : 3;
}

static void a_forbidden_folder_is_named(void **state)
{
	(void)state;
	assert_int_equal(child_status(write_forbidden), 0);
	assert_int_equal(chmod(help_base_path(""), 0700), 0);
	assert_int_equal(help_base_entries(""), 0);
}

/* More than fits, in pieces; what was there before must still be there, and nothing else. */
static int write_too_much(enum err expected)
{
	struct why why;
	struct file_out *out;
	static uint8_t piece[65536];
	const char *f = help_base_path("full/f");
	if (file_write(f, "old", 3, 0600, &why) || file_out_open(f, 0600, &out, &why))
		return 1;
	enum err err = ERR_OK;
	for (int i = 0; !err && i < 64; i++)
		err = file_out_put(out, piece, sizeof piece, &why);
	if (err != expected || !strstr(why.text, f))
		return 2;
	// A put after the failed one must not make a file with a hole.
	if (file_out_put(out, "x", 1, &why) != expected || file_out_commit(out, &why) != expected)
		return 3;
	uint8_t *bytes;
	size_t len;
	if (file_read(f, 100, &bytes, &len, &why) || len != 3 || memcmp(bytes, "old", 3) != 0)
		return 4;
	free(bytes);
	return help_base_entries("full") == 1 ? 0 : 5;
}

static int write_beyond_limit(void)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct rlimit limit = {1 << 20, 1 << 20};
	if (sigaction(SIGXFSZ, &ignore, NULL) != 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0)
		return 1;
	return write_too_much(ERR_io);
}

static void a_limit_on_size_leaves_the_old_file(void **state)
{
	(void)state;
	struct why why;
	assert_int_equal(file_mkdirs(help_base_path("full"), 0700, &why), ERR_OK);
	assert_int_equal(child_status(write_beyond_limit), 0);
}

#define NO_MOUNT 77

static int write_to_full_disk(void)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
		mount("tmpfs", help_base_path("full"), "tmpfs", 0, "size=1m") != 0)
		return NO_MOUNT;
	return write_too_much(ERR_full);
}

static void a_full_disk_leaves_the_old_file(void **state)
{
	(void)state;
	struct why why;
	assert_int_equal(file_mkdirs(help_base_path("full"), 0700, &why), ERR_OK);
	int status = child_status(write_to_full_disk);
	if (status == NO_MOUNT)
		skip(); // no right to mount here: the limit on size above stands in
	assert_int_equal(status, 0);
}

#define with_folder(test) cmocka_unit_test_setup_teardown(test, help_base_setup, help_base_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_folder(a_file_is_read_whole),
		with_folder(a_file_without_size_is_bounded),
		with_folder(a_pipe_without_a_writer_is_empty),
		with_folder(a_pipe_is_read_to_its_end),
		with_folder(each_allocation_may_fail),
		with_folder(a_file_is_written_whole_or_not),
		with_folder(a_relative_name_works),
		with_folder(what_a_killed_writer_left_is_swept),
		with_folder(folders_are_made),
		with_folder(a_lock_is_held_once),
		with_folder(a_file_is_mapped),
		with_folder(a_forbidden_folder_is_named),
		with_folder(a_limit_on_size_leaves_the_old_file),
		with_folder(a_full_disk_leaves_the_old_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
