#include "round/update.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

/* Bytes, with its length. */
#define LEAST_PART (8u + CONTRIBUTION_HEAD_MAX - 16u * (SPAN_MAX - 1))

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

static void put_head(const struct update_head *h, uint32_t count, struct buf *out)
{
	buf_put(out, magic, sizeof magic);
	buf_put_u16(out, UPDATE_VERSION);
	buf_put_u16(out, 0);
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
	put_head(head, count, out);
	for (uint32_t i = 0; i < count; i++) {
		buf_put_u64(out, parts[i].len);
		buf_put(out, parts[i].bytes, parts[i].len);
	}
	if (buf_ok(out))
		return ERR_OK;
	out->len = start;
	return err_why(why, ERR_nomem, "no memory for an update of %zu bytes", size);
}

/* ---- reading */

static enum err get_head(struct rd *r, struct update *u, struct why *why)
{
	const uint8_t *kind = rd_bytes(r, sizeof magic);
	if (!kind || memcmp(kind, magic, sizeof magic) != 0)
		return err_why(why, ERR_magic, "these bytes are no update");
	uint16_t version = rd_u16(r), zero = rd_u16(r);
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
	if (zero)
		return err_why(why, ERR_syntax, "a reserved field of an update is not zero");
	// Every contribution has at least so many bytes: the count is bounded by what is there.
	if (u->count > rd_left(r) / LEAST_PART || u->count > RULE_PEERS_MAX)
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
	return err;
}

enum err update_open(const uint8_t *bytes, size_t len, struct update *out, struct why *why)
{
	*out = (struct update){0};
	struct rd r;
	rd_init(&r, bytes, len);
	enum err err = get_head(&r, out, why);
	if (!err) {
		out->views = alloc_try((size_t)out->count + 1, sizeof *out->views);
		if (!out->views)
			err = err_why(why, ERR_nomem, "no memory for %" PRIu32 " contributions",
				out->count);
	}
	for (uint32_t i = 0; i < out->count && !err; i++)
		err = get_part(&r, out, i, why);
	if (!err && rd_left(&r) > 0)
		err = err_why(why, ERR_syntax, "%zu bytes follow an update", rd_left(&r));
	if (err)
		update_release(out);
	return err;
}

static void drop_vectors(struct update *u)
{
	for (uint32_t i = 0; u->vectors && i < u->count; i++)
		codec_release(&u->vectors[i]);
	free(u->vectors);
	u->vectors = NULL;
}

void update_release(struct update *u)
{
	if (!u)
		return;
	drop_vectors(u);
	free(u->views);
	*u = (struct update){0};
}

/* ---- truth */

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
	drop_vectors(u);
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
	for (uint32_t i = 0; i < u->count && !err; i++)
		err = verify_one(&u->views[i], expect, &u->vectors[i], why);
	if (err)
		drop_vectors(u);
	return err;
}

enum err update_accepted(const struct update *u, struct ledger_accepted **out)
{
	struct ledger_accepted *a = alloc_try((size_t)u->count + 1, sizeof *a);
	if (!a)
		return ERR_nomem;
	for (uint32_t i = 0; i < u->count; i++) {
		const struct contribution *c = &u->views[i].says;
		a[i] = (struct ledger_accepted){c->peer, c->tokens, c->planes};
	}
	*out = a;
	return ERR_OK;
}

enum err update_matches(const struct update *u, const struct ledger_entry *e, struct why *why)
{
	if (u->head.round != e->round || u->head.shard != e->shard || u->head.part != e->part ||
		u->count != e->count)
		return err_why(why, ERR_hash,
			"an update of %" PRIu32 " contributions to round %" PRIu64 " shard %" PRIu32
			" is not that of ledger entry %" PRIu64 ": %" PRIu32 " to round %" PRIu64
			" shard %" PRIu32,
			u->count, u->head.round, u->head.shard, e->sequence, e->count, e->round,
			e->shard);
	for (uint32_t i = 0; i < u->count; i++) {
		const struct contribution *c = &u->views[i].says;
		const struct ledger_accepted *a = &e->accepted[i];
		if (c->peer != a->peer || c->tokens != a->tokens ||
			!hash_equal(&c->planes, &a->planes))
			return err_why(why, ERR_hash,
				"contribution %" PRIu32 " of an update, peer %" PRIu32
				", is not the one that ledger entry %" PRIu64 " lists",
				i + 1, c->peer, e->sequence);
	}
	struct hash update = ledger_update_hash(e->accepted, e->count);
	if (!hash_equal(&update, &e->update))
		return err_why(why, ERR_hash,
			"the update of ledger entry %" PRIu64 " is not the list it carries",
			e->sequence);
	return ERR_OK;
}

enum err update_inputs(const struct update *u, struct rule_input **out)
{
	struct rule_input *in = alloc_try((size_t)u->count + 1, sizeof *in);
	if (!in)
		return ERR_nomem;
	for (uint32_t i = 0; i < u->count; i++)
		in[i] = (struct rule_input){
			u->views[i].says.peer, u->views[i].says.tokens, &u->vectors[i]};
	*out = in;
	return ERR_OK;
}
