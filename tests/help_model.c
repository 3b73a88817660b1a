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
#include "base/file.h"
#include "base/rng.h"
#include "tests/help_model.h"

static char folder[256];
/* Everything handed out, freed by the teardown. */
static void *given[4096];
static size_t n_given;

static void *give(void *p)
{
	assert_true(n_given < sizeof given / sizeof given[0]);
	return given[n_given++] = p;
}

int help_model_setup(void **state)
{
	(void)state;
	const char *tmp = getenv("TMPDIR");
	snprintf(folder, sizeof folder, "%s/shoal-model.XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(folder) ? 0 : -1;
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

int help_model_teardown(void **state)
{
	(void)state;
	alloc_fail_at(0);
	while (n_given > 0)
		free(given[--n_given]);
	return nftw(folder, drop, 16, FTW_DEPTH | FTW_PHYS);
}

const char *help_model_path(const char *name)
{
	return give(alloc_must_printf("%s%s%s", folder, *name ? "/" : "", name));
}

void help_model_write(const char *name, const void *bytes, size_t n)
{
	struct why why = {0};
	if (file_write(help_model_path(name), bytes, n, 0644, &why))
		fail_msg("%s", why.text);
}

uint8_t *help_model_read(const char *name, size_t *n)
{
	uint8_t *bytes;
	struct why why = {0};
	if (file_read(help_model_path(name), 1u << 30, &bytes, n, &why))
		fail_msg("%s", why.text);
	return give(bytes);
}

size_t help_model_entries(const char *name)
{
	size_t n = 0;
	DIR *dir = opendir(help_model_path(name));
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2; /* "." and ".." */
}

void help_model_told(const struct why *why, enum err code, const char *part)
{
	if (why->code != code || !strstr(why->text, part))
		fail_msg("%s: \"%s\" is not %s with \"%s\"", err_name(why->code), why->text,
			err_name(code), part);
}

char *help_model_prose(uint64_t seed, size_t n)
{
	static const char *const words[] = {"the", "and", "of", "that", "unto", "shall", "lord",
		"king", "begat", "house", "na\xc3\xafve", "12", "3", "don't", "(see", "below)",
		"it;", "was", "said", "going", "singing", "ring"};
	size_t n_words = sizeof words / sizeof words[0], at = 0;
	char *text = give(alloc_must(n + 32));
	for (uint64_t i = 0; at < n; i++) {
		/* Squaring favours the front of the list, as words do. */
		double u = rng_unit(seed, 1, i);
		const char *word = words[(size_t)(u * u * (double)n_words)];
		uint32_t gap = rng_u32(seed, 2, i) % 32;
		at += (size_t)snprintf(text + at, 32, "%s%s", word,
			gap == 0   ? ".\n"
			: gap == 1 ? "  "
			: gap == 2 ? ", "
				   : " ");
	}
	text[n] = 0;
	return text;
}
