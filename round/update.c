#include "round/update.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "round/update_parts.h"

/* Bytes, with its length. */
#define LEAST_PART (8u + CONTRIBUTION_HEAD_MAX - 16u * (SPAN_MAX - 1))
#define LISTED 76u /* bytes of a contribution in a merged update's list */

static const uint8_t magic[8] = {'S', 'H', 'O', 'A', 'L', 'U', 'P', 'D'};

/* Whether a contribution belongs into this bundle, after one of peer before (or none). */
static enum err check_part(const struct update_head *h, const struct contribution *c,
	const struct contribution *before, struct why *why)
{
	if (!hash_equal(&c->run, &h->run) || !hash_equal(&c->parent, &h->parent) ||
		c->round != h->round || c->shard != h->shard || c->part != h->part)
		return err_why(why, ERR_syntax,
			"the contribution of peer %" PRIu32 " is not for the update it is in",
			c->peer);
	if (before && c->peer <= before->peer)
		return err_why(why, ERR_syntax,
			"the contribution of peer %" PRIu32 " follows that of peer %" PRIu32,
			c->peer, before->peer);
	return ERR_OK;
}

/* ---- writing */

static void put_head(
	const struct update_head *h, enum update_kind kind, uint32_t count, struct buf *out)
{
	buf_put(out, magic, sizeof magic);
	buf_put_u16(out, UPDATE_VERSION);
	buf_put_u16(out, (uint16_t)kind);
	buf_put_u32(out, count);
	buf_put(out, h->run.b, sizeof h->run.b);
	buf_put(out, h->parent.b, sizeof h->parent.b);
	buf_put_u64(out, h->round);
	buf_put_u32(out, h->shard);
	buf_put_u32(out, h->part);
}

enum err update_encode(const struct update_head *head, const struct update_part *parts,
	uint32_t count, struct buf *out, struct why *why)
{
	if (count > RULE_PEERS_MAX)
		return err_why(why, ERR_toobig, "%" PRIu32 " contributions are more than %d", count,
			RULE_PEERS_MAX);
	struct contribution_view v, before;
	size_t size = UPDATE_HEAD;
	for (uint32_t i = 0; i < count; i++) {
		enum err err = contribution_parse(parts[i].bytes, parts[i].len, &v, why);
		if (!err)
			err = check_part(head, &v.says, i ? &before.says : NULL, why);
		if (err)
			return err;
		before = v;
		size += 8 + parts[i].len;
	}
	if (size > out->max - out->len)
		return err_why(why, ERR_toobig, "an update of %zu bytes is more than fits", size);
	size_t start = out->len;
	put_head(head, UPDATE_bundle, count, out);
	for (uint32_t i = 0; i < count; i++) {
		buf_put_u64(out, parts[i].len);
		buf_put(out, parts[i].bytes, parts[i].len);
	}
	if (buf_ok(out))
		return ERR_OK;
	out->len = start;
	return err_why(why, ERR_nomem, "no memory for an update of %zu bytes", size);
}

void update_put_merged(const struct update *bundle, const struct buf *frame, struct buf *out)
{
	put_head(&bundle->head, UPDATE_merged, bundle->count, out);
	for (uint32_t i = 0; i < bundle->count; i++) {
		const struct ledger_accepted *a = &bundle->accepted[i];
		const struct contribution_view *v = &bundle->views[i];
		struct hash received = hash_of(v->bytes, v->len);
		buf_put_u32(out, a->peer);
		buf_put_u64(out, a->tokens);
		buf_put(out, a->planes.b, sizeof a->planes.b);
		buf_put(out, received.b, sizeof received.b);
	}
	buf_put_u64(out, frame->len);
	buf_put(out, frame->data, frame->len);
}

size_t update_merged_bound(uint32_t count, size_t frame)
{
	return UPDATE_HEAD + (size_t)LISTED * count + 8 + frame;
}

/* ---- reading */

static enum err get_head(struct rd *r, struct update *u, struct why *why)
{
	const uint8_t *what = rd_bytes(r, sizeof magic);
	if (!what || memcmp(what, magic, sizeof magic) != 0)
		return err_why(why, ERR_magic, "these bytes are no update");
	uint16_t version = rd_u16(r), kind = rd_u16(r);
	if (rd_ok(r) && version != UPDATE_VERSION)
		return err_why(why, ERR_version,
			"an update is of version %u, this program reads %d", version,
			UPDATE_VERSION);
	u->count = rd_u32(r);
	rd_copy(r, u->head.run.b, sizeof u->head.run.b);
	rd_copy(r, u->head.parent.b, sizeof u->head.parent.b);
	u->head.round = rd_u64(r);
	u->head.shard = rd_u32(r);
	u->head.part = rd_u32(r);
	if (!rd_ok(r))
		return err_why(why, ERR_truncated, "an update ends inside its header");
	if (kind > UPDATE_merged)
		return err_why(why, ERR_unsupported,
			"an update is of kind %u: install a newer version", kind);
	u->kind = (enum update_kind)kind;
	// Every contribution has at least so many bytes: the count is bounded by what is there.
	size_t least = u->kind == UPDATE_merged ? LISTED : LEAST_PART;
	if (u->count > rd_left(r) / least || u->count > RULE_PEERS_MAX)
		return err_why(why, ERR_truncated,
			"an update of %" PRIu32 " contributions has not room for them", u->count);
	return ERR_OK;
}

static enum err get_part(struct rd *r, struct update *u, uint32_t i, struct why *why)
{
	uint64_t len = rd_u64(r);
	const uint8_t *bytes = len <= rd_left(r) ? rd_bytes(r, (size_t)len) : NULL;
	if (!bytes)
		return err_why(why, ERR_truncated,
			"an update ends inside contribution %" PRIu32 " of %" PRIu32, i + 1,
			u->count);
	enum err err = contribution_parse(bytes, (size_t)len, &u->views[i], why);
	if (!err)
		err = check_part(
			&u->head, &u->views[i].says, i ? &u->views[i - 1].says : NULL, why);
	const struct contribution *c = &u->views[i].says;
	if (!err)
		u->accepted[i] = (struct ledger_accepted){c->peer, c->tokens, c->planes};
	return err;
}

static enum err get_listed(struct rd *r, struct update *u, uint32_t i, struct why *why)
{
	struct ledger_accepted *a = &u->accepted[i];
	a->peer = rd_u32(r);
	a->tokens = rd_u64(r);
	rd_copy(r, a->planes.b, sizeof a->planes.b);
	rd_copy(r, u->inputs[i].b, sizeof u->inputs[i].b);
	if (i > 0 && a->peer <= u->accepted[i - 1].peer)
		return err_why(why, ERR_syntax,
			"a merged update lists peer %" PRIu32 " after peer %" PRIu32, a->peer,
			u->accepted[i - 1].peer);
	return ERR_OK;
}

static enum err get_frame(struct rd *r, struct update *u, struct why *why)
{
	uint64_t len = rd_u64(r);
	u->frame = len && len <= rd_left(r) ? rd_bytes(r, (size_t)len) : NULL;
	u->frame_len = (size_t)len;
	if (!u->frame)
		return err_why(why, ERR_truncated, "a merged update ends inside its vector");
	return ERR_OK;
}

static enum err take_memory(struct update *u)
{
	const size_t n = (size_t)u->count + 1;
	const bool merged = u->kind == UPDATE_merged;
	u->accepted = alloc_try(n, sizeof *u->accepted);
	if (merged)
		u->inputs = alloc_try(n, sizeof *u->inputs);
	else
		u->views = alloc_try(n, sizeof *u->views);
	return u->accepted && (merged ? u->inputs != NULL : u->views != NULL) ? ERR_OK : ERR_nomem;
}

enum err update_open(const uint8_t *bytes, size_t len, struct update *out, struct why *why)
{
	*out = (struct update){0};
	struct rd r;
	rd_init(&r, bytes, len);
	enum err err = get_head(&r, out, why);
	if (!err && take_memory(out))
		err = err_why(
			why, ERR_nomem, "no memory for %" PRIu32 " contributions", out->count);
	const bool merged = out->kind == UPDATE_merged;
	for (uint32_t i = 0; i < out->count && !err; i++)
		err = merged ? get_listed(&r, out, i, why) : get_part(&r, out, i, why);
	if (!err && merged)
		err = get_frame(&r, out, why);
	if (!err && rd_left(&r) > 0)
		err = err_why(why, ERR_syntax, "%zu bytes follow an update", rd_left(&r));
	if (err)
		update_release(out);
	return err;
}

void update_drop_vectors(struct update *u)
{
	const uint32_t n = u->kind == UPDATE_merged ? 1 : u->count;
	for (uint32_t i = 0; u->vectors && i < n; i++)
		codec_release(&u->vectors[i]);
	free(u->vectors);
	u->vectors = NULL;
}

void update_release(struct update *u)
{
	if (!u)
		return;
	update_drop_vectors(u);
	free(u->accepted);
	free(u->views);
	free(u->inputs);
	*u = (struct update){0};
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

/* ---- using it */

enum err update_inputs(const struct update *u, struct rule_input **out)
{
	*out = alloc_try((size_t)u->count + 1, sizeof **out);
	if (!*out)
		return ERR_nomem;
	for (uint32_t i = 0; i < u->count; i++)
		(*out)[i] = (struct rule_input){
			u->accepted[i].peer, u->accepted[i].tokens, &u->vectors[i]};
	return ERR_OK;
}

enum err update_apply(const struct update *u, const struct rule_params *p, struct rule_state *state,
	struct why *why)
{
	struct rule_input *inputs = NULL;
	if (u->kind == UPDATE_merged)
		return rule_apply_merged(p, &u->vectors[0], state, why);
	if (update_inputs(u, &inputs))
		return err_why(why, ERR_nomem, "no memory for %" PRIu32 " contributions", u->count);
	enum err err = rule_apply(p, inputs, u->count, state, why);
	free(inputs);
	return err;
}
