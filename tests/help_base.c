#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "tests/help_base.h"

static char folder[256];
// Everything handed out, freed by the teardown.
static void *given[256];
static size_t n_given;

static void *give(void *p)
{
	assert_true(n_given < sizeof given / sizeof given[0]);
	return given[n_given++] = p;
}

int help_base_setup(void **state)
{
	(void)state;
	const char *tmp = getenv("TMPDIR");
	snprintf(folder, sizeof folder, "%s/shoal-base.XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(folder) ? 0 : -1;
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

int help_base_teardown(void **state)
{
	(void)state;
	while (n_given > 0)
		free(given[--n_given]);
	return nftw(folder, drop, 16, FTW_DEPTH | FTW_PHYS);
}

const char *help_base_path(const char *name)
{
	return give(alloc_must_printf("%s%s%s", folder, *name ? "/" : "", name));
}

void help_base_write(const char *name, const void *bytes, size_t n)
{
	FILE *f = fopen(help_base_path(name), "we");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

const char *help_base_read(const char *name, size_t *n)
{
	char *text = NULL;
	size_t room = 0;
	FILE *f = fopen(help_base_path(name), "re");
	assert_non_null(f);
	// The delimiter never comes in these tests, so this is the whole file.
	ssize_t len = getdelim(&text, &room, '\xff', f);
	fclose(f);
	if (len < 0) {
		free(text);
		text = alloc_must_strdup("");
		len = 0;
	}
	if (n)
		*n = (size_t)len;
	return give(text);
}

size_t help_base_entries(const char *name)
{
	size_t n = 0;
	DIR *dir = opendir(help_base_path(name));
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2; // "." and ".."
}
