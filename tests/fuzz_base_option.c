/* A config file and a command line from anywhere are refused with a sentence, or give values that
 * are within their bounds and, printed as a config file, read back to the same.  Up to the first
 * byte 0xff the input is the file; after it, the arguments, one a line. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/option.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool flag;
static int64_t whole;
static double real;
static const char *text;
static uint64_t bytes, time_ns;

static const struct option_row rows[] = {
	{"flag", OPTION_flag, &flag, "no", 0, 0, ""},
	{"min-peers", OPTION_int, &whole, "3", -5, 100, ""},
	{"lr", OPTION_real, &real, "0.001", -1, 1, ""},
	{"place", OPTION_text, &text, "here", 0, 0, ""},
	{"memory", OPTION_bytes, &bytes, "1M", 0, 0, ""},
	{"grace", OPTION_seconds, &time_ns, "5", 0, 7200, ""},
};
#define ROWS (sizeof rows / sizeof rows[0])
#define ARGS_MOST 12

/* A file in memory under a path of its own. */
static int memory_file(const void *content, size_t n, char path[static 40])
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, content, n) != (ssize_t)n)
		abort();
	snprintf(path, 40, "/proc/self/fd/%d", fd);
	return fd;
}

static char *print(size_t *n)
{
	char *out = NULL;
	FILE *f = open_memstream(&out, n);
	if (!f)
		abort();
	option_print(rows, ROWS, f);
	fclose(f);
	return out;
}

static void read_back(void)
{
	size_t n, m;
	char path[40], *first = print(&n);
	int fd = memory_file(first, n, path);
	char *argv[] = {path, (char[]){"--config"}, path, NULL};
	struct why why;
	text = "here";
	if (option_read(rows, ROWS, &(struct option_args){.argc = 3, .argv = argv}, &why))
		abort();
	char *second = print(&m);
	// A text that the file cannot carry is a comment there, and then the default comes back.
	if (!strstr(first, "# place") && (n != m || memcmp(first, second, n) != 0))
		abort();
	free(second);
	free(first);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *mark = size ? memchr(data, 0xff, size) : NULL;
	size_t n_file = mark ? (size_t)(mark - data) : size;
	size_t n_args = mark ? size - n_file - 1 : 0;
	char path[40], *args = alloc_must(n_args + 1);
	if (n_args > 0)
		memcpy(args, mark + 1, n_args);
	args[n_args] = '\0';

	int fd = memory_file(data, n_file, path);
	char *argv[ARGS_MOST + 4] = {path, (char[]){"--config"}, path};
	int argc = 3;
	for (char *at = args; *at && argc < ARGS_MOST + 3;) {
		size_t len = strcspn(at, "\n");
		argv[argc++] = at;
		bool more = at[len] == '\n';
		at[len] = '\0';
		at += len + more;
	}
	const char *words[2];
	struct option_args given = {.argc = argc, .argv = argv, .words = words, .max_words = 2};
	struct why why = {0};
	if (option_read(rows, ROWS, &given, &why)) {
		if (!why.text[0] || !why.code)
			abort();
	} else {
		if (given.n_words > 2 || whole < -5 || whole > 100 || !(real >= -1 && real <= 1) ||
			time_ns > 7200000000000u || !text)
			abort();
		read_back();
	}
	text = NULL;
	close(fd);
	free(args);
	return 0;
}
