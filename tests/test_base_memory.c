/* What is left for a process, as the files of made-up machines tell it, and its own limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/arena.h"
#include "base/file.h"
#include "base/memory.h"
#include "tests/help_base.h"

#define MIB ((uint64_t)1 << 20)

static void put(const char *name, const char *text)
{
	char folder[512];
	struct why why;
	snprintf(folder, sizeof folder, "%s", help_base_path(name));
	*strrchr(folder, '/') = 0;
	assert_int_equal(file_mkdirs(folder, 0700, &why), ERR_OK);
	help_base_write(name, text, strlen(text));
}

static uint64_t left(void)
{
	return memory_available(help_base_path(""));
}

static void nothing_tells(void **state)
{
	(void)state;
	assert_true(left() == UINT64_MAX);
}

static void the_machine_tells(void **state)
{
	(void)state;
	put("proc/meminfo",
		"MemTotal:       24000000 kB\nMemFree:  5 kB\nMemAvailable:   2048 kB\n");
	assert_true(left() == 2 * MIB);
	put("proc/meminfo", "MemTotal:       24000000 kB\n");
	assert_true(left() == UINT64_MAX);
	put("proc/meminfo", "MemAvailable: many\n");
	assert_true(left() == UINT64_MAX);
}

/* The group itself has no limit, what it is in has; pages that can be dropped are not counted. */
static void control_groups_tell(void **state)
{
	(void)state;
	put("proc/meminfo", "MemAvailable:   1048576 kB\n");
	put("proc/self/cgroup", "0::/a/b\n");
	put("sys/fs/cgroup/a/b/memory.max", "max\n");
	put("sys/fs/cgroup/a/b/memory.current", "1048576\n");
	assert_true(left() == 1024 * MIB);
	put("sys/fs/cgroup/a/memory.max", "104857600\n");
	put("sys/fs/cgroup/a/memory.current", "62914560\n");
	assert_true(left() == 40 * MIB);
	put("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 10485760\nactive_file 7\n");
	assert_true(left() == 50 * MIB);
	put("sys/fs/cgroup/memory.max", "94371840\n");
	put("sys/fs/cgroup/memory.current", "199371840\n");
	assert_true(left() == 0);
}

static void control_groups_of_version_1_tell(void **state)
{
	(void)state;
	put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/c\n1:name=systemd:/x\n0::/\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n");
	assert_true(left() > UINT64_MAX / 4);
	put("sys/fs/cgroup/memory/docker/c/memory.limit_in_bytes", "5242880\n");
	put("sys/fs/cgroup/memory/docker/c/memory.usage_in_bytes", "3145728\n");
	put("sys/fs/cgroup/memory/docker/c/memory.stat", "total_inactive_file 1048576\n");
	assert_true(left() == 3 * MIB);
}

static void odd_files_tell_nothing(void **state)
{
	(void)state;
	static const char *const odd[] = {
		"", "0", "0:", "0::", "0::/", "::::\n:memory:", "\n\n0::x"};
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		put("proc/self/cgroup", odd[i]);
		assert_true(left() == UINT64_MAX);
	}
}

/* In a child, whose address space is limited. */
static void the_processs_own_limit_tells(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* a sanitizer maps terabytes */
#endif
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		struct rlimit limit = {512 * MIB, 512 * MIB};
		struct arena a;
		setrlimit(RLIMIT_AS, &limit);
		uint64_t before = memory_available("");
		bool ok = before < 512 * MIB && before > 256 * MIB;
		ok = ok && !arena_init(&a, 128 * MIB);
		uint64_t after = memory_available("");
		_exit(ok && after <= before - 128 * MIB && after > before - 130 * MIB ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void what_is_touched_is_held(void **state)
{
	(void)state;
	struct arena a;
	uint64_t before = memory_held(), peak = memory_peak();
	assert_int_equal(arena_init(&a, 64 * MIB), ERR_OK);
	assert_true(memory_held() < before + 32 * MIB);
	memset(a.base, 1, a.size);
	assert_true(memory_held() >= before + 60 * MIB);
	arena_release(&a);
	assert_true(memory_held() < before + 32 * MIB);
	assert_true(memory_peak() >= before + 60 * MIB && memory_peak() >= peak);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, help_base_setup, help_base_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(nothing_tells),
		CASE(the_machine_tells),
		CASE(control_groups_tell),
		CASE(control_groups_of_version_1_tell),
		CASE(odd_files_tell_nothing),
		CASE(the_processs_own_limit_tells),
		CASE(what_is_touched_is_held),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
