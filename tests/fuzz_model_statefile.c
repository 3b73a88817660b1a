/* A state file from anywhere, the hash at its end made right (no fuzzer would find it): it is read
 * or refused with a reason, and what is read lies within the file. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "model/statefile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct statefile *s, const uint8_t *bytes, size_t size)
{
	if (!json_is_object(statefile_meta(s)) || strcmp(statefile_kind(s), "local") != 0)
		abort();
	for (size_t i = 0; i < statefile_count(s); i++) {
		const struct statefile_section *section = statefile_at(s, i);
		const uint8_t *found;
		if (section->bytes < bytes ||
			section->len > size - (size_t)(section->bytes - bytes))
			abort();
		enum err e = statefile_find(s, section->name, section->len, &found, NULL);
		if (e != ERR_OK && e != ERR_shape) /* a name may come twice */
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = alloc_must(size + sizeof(struct hash));
	if (size)
		memcpy(bytes, data, size);
	struct hash h = hash_of(bytes, size);
	memcpy(bytes + size, h.b, sizeof h.b);
	struct statefile_bytes from = {
		.name = "input", .bytes = bytes, .len = size + sizeof(struct hash)};
	struct statefile *s = NULL;
	struct why why = {0};
	enum err err = statefile_parse(&from, "local", NULL, &s, &why);
	if (err && (!why.text[0] || why.code != err || s))
		abort();
	if (!err)
		check(s, bytes, from.len);
	statefile_close(s);
	free(bytes);
	return 0;
}
