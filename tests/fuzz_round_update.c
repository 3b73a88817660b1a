/* A bundle, alone or behind its ledger entry, is refused with a sentence, or is one that would be
 * written with the same bytes. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "round/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool lookup(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	(void)arg;
	memset(out, (int)peer, SIGN_PUBLIC);
	return peer != 3;
}

static void check(struct update *u, const uint8_t *data, size_t size)
{
	struct update_part *parts = alloc_must_zero((size_t)u->count + 1, sizeof *parts);
	struct update_expect expect = {.run = u->head.run,
		.parent = u->head.parent,
		.codec = {SELECT_topk, VALUES_two, false, 64, 4, 0, 0},
		.n = 100,
		.key = lookup};
	struct buf again;
	struct why why = {0};
	for (uint32_t i = 0; i < u->count; i++)
		parts[i] = (struct update_part){u->views[i].bytes, u->views[i].len};
	buf_init(&again, size);
	if (update_encode(&u->head, parts, u->count, &again, &why) || again.len != size ||
		memcmp(again.data, data, size) != 0)
		abort();
	if (update_verify(u, &expect, &why) && u->vectors)
		abort();
	buf_release(&again);
	free(parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct update u;
	struct record r;
	struct why why = {0};
	enum err err = update_open(data, size, &u, &why);
	if (err ? u.views != NULL || why.code != err || !why.text[0] : false)
		abort();
	if (!err)
		check(&u, data, size);
	update_release(&u);
	err = record_open(data, size, &r, &why);
	if (!err && update_matches(&r.update, &r.entry, &why) && !why.text[0])
		abort();
	record_release(&r);
	return 0;
}
