#include <inttypes.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "round/update_parts.h"

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
		err = update_merge_open(u, expect, why);
	for (uint32_t i = 0; i < u->count && u->kind == UPDATE_bundle && !err; i++)
		err = verify_one(&u->views[i], expect, &u->vectors[i], why);
	if (err)
		update_drop_vectors(u);
	return err;
}
