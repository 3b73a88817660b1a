#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "round/update_parts.h"

void update_drop_vectors(struct update *u)
{
	const uint32_t n = u->kind == UPDATE_merged ? 1 : u->count;
	for (uint32_t i = 0; u->vectors && i < n; i++)
		codec_release(&u->vectors[i]);
	free(u->vectors);
	u->vectors = NULL;
}

static enum err verify_one(const struct contribution_view *v, const struct update_expect *expect,
	struct codec_vector *vector, struct why *why)
{
	uint8_t key[SIGN_PUBLIC];
	if (!expect->key(expect->arg, v->says.peer, key))
		return err_why(why, ERR_unknown_peer,
			"an update has a contribution of peer %" PRIu32
			", who is not on the roster known here",
			v->says.peer);
	enum err err = contribution_verify(v, key, why);
	if (err)
		return err;
	return contribution_decode(v, &expect->codec, expect->n, vector, why);
}

enum err update_verify(struct update *u, const struct update_expect *expect, struct why *why)
{
	update_drop_vectors(u);
	if (!hash_equal(&u->head.run, &expect->run))
		return err_why(why, ERR_wrong_run, "an update is of another run");
	if (!hash_equal(&u->head.parent, &expect->parent))
		return err_why(why, ERR_wrong_parent,
			"an update of round %" PRIu64 " starts from another ledger head than the "
			"round does",
			u->head.round);
	u->vectors = alloc_try((size_t)u->count + 1, sizeof *u->vectors);
	if (!u->vectors)
		return err_why(why, ERR_nomem, "no memory for %" PRIu32 " vectors", u->count);
	enum err err = ERR_OK;
	if (u->kind == UPDATE_merged)
		err = update_open_merged(u, expect, why);
	for (uint32_t i = 0; i < u->count && u->kind == UPDATE_bundle && !err; i++)
		err = verify_one(&u->views[i], expect, &u->vectors[i], why);
	if (err)
		update_drop_vectors(u);
	return err;
}

/* ---- with the ledger */

enum err update_list(const struct update *u, struct ledger_entry *e)
{
	e->accepted = alloc_try((size_t)u->count + 1, sizeof *e->accepted);
	if (!e->accepted)
		return ERR_nomem;
	memcpy(e->accepted, u->accepted, u->count * sizeof *e->accepted);
	e->count = u->count;
	e->kind = u->kind;
	e->merged = u->merged;
	e->update = ledger_update_hash(e);
	return ERR_OK;
}

enum err update_matches(const struct update *u, const struct ledger_entry *e, struct why *why)
{
	static const char *const kinds[] = {
		[UPDATE_bundle] = "a bundle", [UPDATE_merged] = "a merged update"};
	if (u->head.round != e->round || u->head.shard != e->shard || u->head.part != e->part ||
		u->kind != e->kind || u->count != e->count)
		return err_why(why, ERR_hash,
			"%s of %" PRIu32 " contributions to round %" PRIu64 " shard %" PRIu32
			" is not the update of ledger entry %" PRIu64 ": %s of %" PRIu32
			" to round %" PRIu64 " shard %" PRIu32,
			kinds[u->kind], u->count, u->head.round, u->head.shard, e->sequence,
			kinds[e->kind], e->count, e->round, e->shard);
	for (uint32_t i = 0; i < u->count; i++) {
		const struct ledger_accepted *c = &u->accepted[i], *a = &e->accepted[i];
		if (c->peer != a->peer || c->tokens != a->tokens ||
			!hash_equal(&c->planes, &a->planes))
			return err_why(why, ERR_hash,
				"contribution %" PRIu32 " of an update, peer %" PRIu32
				", is not the one that ledger entry %" PRIu64 " lists",
				i + 1, c->peer, e->sequence);
	}
	if (u->kind == UPDATE_merged && !hash_equal(&u->merged, &e->merged))
		return err_why(why, ERR_hash,
			"the vector of a merged update is not the one that ledger entry %" PRIu64
			" lists",
			e->sequence);
	struct hash update = ledger_update_hash(e);
	if (!hash_equal(&update, &e->update))
		return err_why(why, ERR_hash,
			"the update of ledger entry %" PRIu64 " is not the list it carries",
			e->sequence);
	return ERR_OK;
}
