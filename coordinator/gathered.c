#include "coordinator/gathered.h"
#include <math.h>
#include <string.h>
#include "round/gate.h"

static bool find_key(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	const struct gathered_expect *g = arg;
	for (uint32_t i = 0; i < g->count; i++) {
		if (g->items[i].peer != peer)
			continue;
		memcpy(out, g->items[i].key, SIGN_PUBLIC);
		return true;
	}
	return false;
}

static enum err same_list(const struct gathered_expect *g, const struct update *u, struct why *why)
{
	if (u->count != g->count)
		return err_why(why, ERR_hash,
			"an update of shard %u was made of %u contributions, %u count", g->shard,
			u->count, g->count);
	for (uint32_t i = 0; i < g->count; i++) {
		const struct ledger_accepted *have = &u->accepted[i];
		const struct gathered_item *want = &g->items[i];
		if (have->peer != want->peer || have->tokens != want->tokens ||
			!hash_equal(&have->planes, &want->planes))
			return err_why(why, ERR_hash,
				"an update of shard %u has another contribution of peer %u than "
				"the one that counts",
				g->shard, want->peer);
	}
	return ERR_OK;
}

/* The aggregator should have refused them. */
static enum err check_norms(
	const struct gathered_expect *g, const struct update *u, struct why *why)
{
	enum err err = ERR_OK;
	for (uint32_t i = 0; !err && i < u->count && u->kind == UPDATE_bundle; i++)
		err = gate_norm(sqrt(u->vectors[i].norm_squared), g->items[i].norm_limit, why);
	return err;
}

enum err gathered_check(const struct gathered_expect *g, uint8_t *bytes, size_t len,
	struct update_made *out, enum update_kind *came, struct why *why)
{
	const struct update_make how = {.expect = {.run = g->run,
						.parent = g->parent,
						.codec = g->exchange.codec,
						.merged = g->exchange.merged,
						.n = g->n,
						.key = find_key,
						.arg = (void *)(uintptr_t)g},
		.rule = g->exchange.rule,
		.round = g->round,
		.shard = g->shard};
	enum err err = update_make_open(&how, bytes, len, out, why);
	if (err)
		return err;
	*came = out->update.kind;
	if (g->whole && *came != UPDATE_bundle)
		err = err_why(
			why, ERR_shape, "a merged update of shard %u came as its bundle", g->shard);
	if (!err)
		err = same_list(g, &out->update, why);
	if (!err)
		err = check_norms(g, &out->update, why);
	if (!err && *came == UPDATE_bundle)
		err = update_make_smaller(&how, out, why);
	if (err)
		update_make_release(out);
	return err;
}
