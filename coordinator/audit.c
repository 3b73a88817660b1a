#include "coordinator/audit.h"
#include <stdlib.h>
#include "base/alloc.h"

static void parts_free(struct update_part *parts, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		free((void *)(uintptr_t)parts[i].bytes);
	free(parts);
}

static enum err read_parts(
	const struct audit *a, const struct update *u, struct update_part *parts, struct why *why)
{
	const size_t most = contribution_bound(&a->expect->codec, a->expect->n);
	for (uint32_t i = 0; i < u->count; i++) {
		uint8_t *bytes = NULL;
		struct why said = {0};
		enum err err =
			blob_get(a->blobs, &u->inputs[i], most, &bytes, &parts[i].len, &said);
		parts[i].bytes = bytes;
		if (err)
			return err_why(why, err,
				"the contribution of member %u that was merged cannot be read: %s",
				u->accepted[i].peer, said.text);
	}
	return ERR_OK;
}

static enum err same_list(const struct update *merged, const struct update *bundle, struct why *why)
{
	for (uint32_t i = 0; i < merged->count; i++) {
		const struct ledger_accepted *x = &merged->accepted[i], *y = &bundle->accepted[i];
		if (x->peer != y->peer || x->tokens != y->tokens ||
			!hash_equal(&x->planes, &y->planes))
			return err_why(why, ERR_hash,
				"the contribution of member %u is not the one that was merged",
				x->peer);
	}
	return ERR_OK;
}

/* Merges the bundle and compares what comes out. */
static enum err compare(const struct audit *a, const struct update *merged,
	const struct update *bundle, struct why *why)
{
	struct buf bytes;
	struct update again = {0};
	buf_init(&bytes, update_merge_bound(&a->expect->codec, a->expect->merged, a->expect->n,
				 merged->count));
	enum err err = update_merge(bundle, &a->exchange->rule, a->expect->merged, &bytes, why);
	if (!err && !bytes.len)
		err = err_why(why, ERR_hash,
			"%u contributions were merged that have fewer bytes as they are",
			merged->count);
	if (!err)
		err = update_open(bytes.data, bytes.len, &again, why);
	if (!err)
		err = update_verify(&again, a->expect, why);
	if (!err && !hash_equal(&again.merged, &merged->merged))
		err = err_why(why, ERR_hash,
			"the %u contributions that were merged come to something else",
			merged->count);
	update_release(&again);
	buf_release(&bytes);
	return err;
}

enum err audit_merged(const struct audit *a, const struct update *merged, struct why *why)
{
	struct update_part *parts = alloc_must_zero(merged->count, sizeof *parts);
	struct update bundle = {0};
	struct buf bytes;
	buf_init(&bytes, UPDATE_HEAD + merged->count * (8 + contribution_bound(&a->expect->codec,
								    a->expect->n)));
	enum err err = read_parts(a, merged, parts, why);
	if (!err)
		err = update_encode(&merged->head, parts, merged->count, &bytes, why);
	parts_free(parts, merged->count);
	if (!err)
		err = update_open(bytes.data, bytes.len, &bundle, why);
	if (!err)
		err = update_verify(&bundle, a->expect, why);
	if (!err)
		err = same_list(merged, &bundle, why);
	if (!err)
		err = compare(a, merged, &bundle, why);
	update_release(&bundle);
	buf_release(&bytes);
	return err;
}
