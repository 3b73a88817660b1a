/* An update, alone or behind its ledger entry, is refused with a sentence, or is one that would be
 * written with the same bytes (a merged one: with the same list and the same vector). */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "round/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define N 100u
static const struct codec_params codecs[] = {{SELECT_topk, VALUES_two, false, 64, 4, 0, 0},
	{SELECT_all, VALUES_int8, false, 64, 64, 0, 0},
	{SELECT_randk, VALUES_sign, false, 64, 4, 0, 0}};

static bool lookup(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	(void)arg;
	memset(out, (int)peer, SIGN_PUBLIC);
	return peer != 3;
}

static void check_bundle(struct update *u, const uint8_t *data, size_t size)
{
	struct update_part *parts = alloc_must_zero((size_t)u->count + 1, sizeof *parts);
	struct buf again;
	struct why why = {0};
	for (uint32_t i = 0; i < u->count; i++)
		parts[i] = (struct update_part){u->views[i].bytes, u->views[i].len};
	buf_init(&again, size);
	if (update_encode(&u->head, parts, u->count, &again, &why) || again.len != size ||
		memcmp(again.data, data, size) != 0)
		abort();
	buf_release(&again);
	free(parts);
}

static void check_truth(struct update *u, const struct codec_params *codec)
{
	struct update_expect expect = {.run = u->head.run,
		.parent = u->head.parent,
		.codec = *codec,
		.merged = VALUES_int8,
		.n = N,
		.key = lookup};
	struct why why = {0};
	enum err err = update_verify(u, &expect, &why);
	if (err ? u->vectors || why.code != err || !why.text[0] : !u->vectors)
		abort();
	if (err || u->kind != UPDATE_merged)
		return;
	struct rule_params rule;
	float params[N] = {0};
	struct rule_state state = {params, NULL, N};
	if (rule_find("mean_R", 1, 0, &rule, &why) || update_apply(u, &rule, &state, &why))
		abort(); // whatever floats it holds, zero less them is finite
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct update u;
	struct record r;
	struct why why = {0};
	enum err err = update_open(data, size, &u, &why);
	if (err ? u.views != NULL || why.code != err || !why.text[0] : false)
		abort();
	if (!err && u.kind == UPDATE_bundle)
		check_bundle(&u, data, size);
	if (!err && u.kind == UPDATE_merged && u.frame + u.frame_len != data + size)
		abort();
	for (size_t i = 0; !err && i < sizeof codecs / sizeof *codecs; i++)
		check_truth(&u, &codecs[i]);
	update_release(&u);
	err = record_open(data, size, &r, &why);
	if (!err && update_matches(&r.update, &r.entry, &why) && !why.text[0])
		abort();
	record_release(&r);
	return 0;
}
