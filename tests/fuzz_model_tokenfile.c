/* A token shard from anywhere is read or refused with a reason; what is read is written again as
 * the same bytes. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "model/tokenfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct tokenfile *f, const uint8_t *data, size_t size)
{
	uint32_t *ids = alloc_must((size_t)f->count * sizeof *ids);
	int32_t id;
	for (size_t i = 0; i < f->count; i++) {
		tokenfile_ids(f, i, 1, &id);
		ids[i] = (uint32_t)id;
	}
	struct buf b;
	buf_init(&b, size);
	tokenfile_write(&b, f->width, ids, (size_t)f->count);
	if (!buf_ok(&b) || b.len != size || memcmp(b.data, data, size) != 0)
		abort();
	buf_release(&b);
	free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tokenfile f;
	struct why why = {0};
	enum err err = tokenfile_parse("input", data, size, &f, &why);
	if (err && (!why.text[0] || why.code != err))
		abort();
	if (!err)
		check(&f, data, size);
	return 0;
}
