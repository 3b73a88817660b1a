/* An index from anywhere beside two sound files: it is refused with a reason, or every tensor can
 * be found and the folder has a hash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "model/weightset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/shoal-fuzz-weightset.XXXXXX";
static char paths[3][80];

static void leave(void)
{
	for (size_t i = 0; i < 3; i++)
		unlink(paths[i]);
	rmdir(dir);
}

static void put(const char *path, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
		abort();
}

static void make_folder(void)
{
	static const char files[2][84] = {
		"\x40\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
		"\"data_offsets\":[0,4]}}              \0\0\x80\x3f",
		"\x40\0\0\0\0\0\0\0{\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
		"\"data_offsets\":[0,4]}}              \0\0\0\x40"};
	if (!mkdtemp(dir))
		abort();
	snprintf(paths[0], sizeof paths[0], "%s/x.safetensors", dir);
	snprintf(paths[1], sizeof paths[1], "%s/y.safetensors", dir);
	snprintf(paths[2], sizeof paths[2], "%s/" WEIGHTSET_INDEX, dir);
	put(paths[0], files[0], 8 + 64 + 4);
	put(paths[1], files[1], 8 + 64 + 4);
	atexit(leave);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weightset *w = NULL;
	struct why why = {0};
	if (!paths[0][0])
		make_folder();
	put(paths[2], data, size);
	enum err err = weightset_open(dir, &w, &why);
	if (err && (!why.text[0] || why.code != err || w))
		abort();
	if (err)
		return 0;
	for (size_t i = 0; i < weightset_count(w); i++)
		if (weightset_find(w, weightset_at(w, i)->name) != weightset_at(w, i))
			abort();
	struct hash h = weightset_hash(w);
	if (hash_is_zero(&h))
		abort();
	weightset_close(w);
	return 0;
}
