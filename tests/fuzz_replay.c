/* The main of a fuzz target without a fuzzer: runs it over every file of the folders given, by
 * default tests/data/fuzz/NAME for a program called fuzz_NAME.  A folder that is missing or empty
 * fails, because a test that looked at nothing is none.  V=1 names each file before it is run. */
#include "base/alloc.h"
#include "base/file.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MOST ((size_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_plain(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static enum err replay_file(const char *path, struct why *why)
{
	uint8_t *bytes;
	size_t len;
	enum err err = file_read(path, INPUT_MOST, &bytes, &len, why);
	if (err)
		return err;
	// A block of exactly this size, so that address sanitizer sees the first byte too many.
	uint8_t *exact = alloc_must(len);
	memcpy(exact, bytes, len);
	free(bytes);
	LLVMFuzzerTestOneInput(exact, len);
	free(exact);
	return ERR_OK;
}

/* In the order of names, so that a failure comes at the same place every time. */
static enum err replay_folder(const char *folder, size_t *count, struct why *why)
{
	struct dirent **list;
	int n = scandir(folder, &list, is_plain, alphasort);
	if (n <= 0)
		return err_why(why, ERR_missing, "%s holds no inputs; put seeds there", folder);
	enum err err = ERR_OK;
	for (int i = 0; i < n; i++) {
		char *path = alloc_must_printf("%s/%s", folder, list[i]->d_name);
		if (getenv("V"))
			fprintf(stderr, "%s\n", path);
		if (!err)
			err = replay_file(path, why);
		*count += !err;
		free(path);
		free(list[i]);
	}
	free(list);
	return err;
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	const char *name = slash ? slash + 1 : argv[0];
	if (strncmp(name, "fuzz_", 5) == 0)
		name += 5;
	char *usual = alloc_must_printf("tests/data/fuzz/%s", name);
	size_t count = 0;
	struct why why;
	enum err err = argc > 1 ? ERR_OK : replay_folder(usual, &count, &why);
	for (int i = 1; !err && i < argc; i++)
		err = replay_folder(argv[i], &count, &why);
	free(usual);
	if (err) {
		fprintf(stderr, "%s: %s\n", name, why.text);
		return 1;
	}
	printf("%zu inputs replayed\n", count);
	return 0;
}
