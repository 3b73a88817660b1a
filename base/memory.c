#include "base/memory.h"
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define KIB 1024u

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* The number after name in a file of such lines ("MemAvailable:  123 kB"); an empty name: at the
 * beginning of the file. */
static bool number(const char *path, const char *name, uint64_t *out)
{
	char line[256];
	FILE *f = fopen(path, "re");
	bool found = false;
	while (f && !found && fgets(line, sizeof line, f)) {
		char *end, *at = line + strlen(name);
		if (strncmp(line, name, strlen(name)))
			continue;
		*out = strtoull(at, &end, 10);
		found = end != at;
	}
	if (f)
		fclose(f);
	return found;
}

/* What one control group leaves.  "max" is no number, and no limit. */
struct group_files {
	const char *limit, *used, *idle;
};

static uint64_t left_in_group(const char *folder, const struct group_files *files)
{
	char path[PATH_MAX + 64];
	uint64_t limit, used, idle = 0;
	snprintf(path, sizeof path, "%s/%s", folder, files->limit);
	if (!number(path, "", &limit))
		return UINT64_MAX;
	snprintf(path, sizeof path, "%s/%s", folder, files->used);
	if (!number(path, "", &used))
		return UINT64_MAX;
	snprintf(path, sizeof path, "%s/memory.stat", folder);
	(void)number(path, files->idle, &idle);
	return minus(limit, minus(used, idle));
}

/* The group at path below top and all that it is in. */
static uint64_t left_in_groups(const char *top, const char *path, const struct group_files *files)
{
	char folder[PATH_MAX];
	uint64_t left = UINT64_MAX;
	int n = snprintf(folder, sizeof folder, "%s%s", top, path);
	if (n < 0 || (size_t)n >= sizeof folder)
		return left;
	for (;;) {
		left = least(left, left_in_group(folder, files));
		if (strlen(folder) <= strlen(top))
			return left;
		*strrchr(folder, '/') = 0;
	}
}

/* Lines are "0::/path" of version 2, and "7:memory:/path" of version 1. */
static uint64_t left_by_groups(const char *root)
{
	static const struct group_files one = {"memory.limit_in_bytes", "memory.usage_in_bytes",
						"total_inactive_file "},
					two = {"memory.max", "memory.current", "inactive_file "};
	char path[PATH_MAX], line[PATH_MAX], top[PATH_MAX];
	uint64_t left = UINT64_MAX;
	snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		char *kind = strchr(line, ':'), *group = kind ? strchr(kind + 1, ':') : NULL;
		if (!group)
			continue;
		bool is_one = !strncmp(kind, ":memory:", 8), is_two = group == kind + 1;
		snprintf(top, sizeof top, "%s/sys/fs/cgroup%s", root, is_one ? "/memory" : "");
		if (is_one || is_two)
			left = least(left, left_in_groups(top, group + 1, is_one ? &one : &two));
	}
	if (f)
		fclose(f);
	return left;
}

static uint64_t left_by_limit(void)
{
	struct rlimit limit;
	uint64_t size;
	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY ||
		!number("/proc/self/status", "VmSize:", &size))
		return UINT64_MAX;
	return minus(limit.rlim_cur, size * KIB);
}

uint64_t memory_available(const char *root)
{
	char path[PATH_MAX];
	uint64_t machine, left = least(left_by_groups(root), left_by_limit());
	snprintf(path, sizeof path, "%s/proc/meminfo", root);
	return number(path, "MemAvailable:", &machine) ? least(left, machine * KIB) : left;
}

uint64_t memory_held(void)
{
	uint64_t kib = 0;
	(void)number("/proc/self/status", "RssAnon:", &kib);
	return kib * KIB;
}

uint64_t memory_peak(void)
{
	struct rusage use;
	return getrusage(RUSAGE_SELF, &use) ? 0 : (uint64_t)use.ru_maxrss * KIB;
}
