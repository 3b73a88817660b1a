#include "round/gate.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Whether it belongs to this run and to this point of it. */
static enum err check_place(
	const struct gate_expect *e, const struct contribution *c, struct why *why)
{
	char theirs[HASH_HEX], ours[HASH_HEX];
	if (!hash_equal(&c->run, &e->run)) {
		hash_hex(&c->run, theirs);
		hash_hex(&e->run, ours);
		return err_why(why, ERR_wrong_run,
			"the contribution is for run %.12s, this is run %.12s: join with this "
			"run's "
			"link",
			theirs, ours);
	}
	if (c->round != e->round)
		return err_why(why, ERR_wrong_round,
			"the contribution is for round %" PRIu64 ", open is round %" PRIu64,
			c->round, e->round);
	if (!hash_equal(&c->parent, &e->parent)) {
		hash_hex(&c->parent, theirs);
		hash_hex(&e->parent, ours);
		return err_why(why, ERR_wrong_parent,
			"the contribution starts from ledger head %.12s, round %" PRIu64
			" starts from %.12s",
			theirs, e->round, ours);
	}
	if (c->shard != e->shard || c->part != e->part)
		return err_why(why, ERR_shape,
			"the contribution is for shard %" PRIu32 " part %" PRIu32
			", expected is shard %" PRIu32 " part %" PRIu32,
			c->shard, c->part, e->shard, e->part);
	return ERR_OK;
}

/* Who made it, and whether it is new. */
static enum err check_sender(
	const struct gate_expect *e, const struct contribution_view *v, struct why *why)
{
	if (v->says.peer != e->peer)
		return err_why(why, ERR_unknown_peer,
			"the contribution is signed as peer %" PRIu32
			", it came from peer %" PRIu32,
			v->says.peer, e->peer);
	enum err err = contribution_verify(v, e->key, why);
	if (err || !e->have)
		return err;
	struct hash id = contribution_id(v);
	if (hash_equal(&id, &e->have_id))
		return err_why(why, ERR_duplicate,
			"this contribution to round %" PRIu64 " shard %" PRIu32
			" was received already",
			e->round, e->shard);
	return err_why(why, ERR_exists,
		"peer %" PRIu32 " contributed to round %" PRIu64 " shard %" PRIu32
		" already, something else: the first one counts",
		e->peer, e->round, e->shard);
}

static enum err check_tokens(
	const struct gate_expect *e, const struct contribution *c, struct why *why)
{
	if (!span_is_prefix(c->spans, c->n_spans, e->assigned, e->n_assigned))
		return err_why(why, ERR_tokens,
			"the contribution claims data from sequence %" PRIu64
			" on that peer %" PRIu32 " was not given in round %" PRIu64,
			c->spans[0].first, c->peer, c->round);
	/* No overflow: the spans lie within what was assigned here. */
	uint64_t tokens = span_count(c->spans, c->n_spans) * e->sequence_tokens;
	if (c->tokens != tokens)
		return err_why(why, ERR_tokens,
			"the contribution claims %" PRIu64 " tokens, its data has %" PRIu64,
			c->tokens, tokens);
	return ERR_OK;
}

enum err gate_norm(double norm, double limit, struct why *why)
{
	if (limit > 0 && norm > limit)
		return err_why(why, ERR_norm,
			"the contribution has norm %.6g, the limit is %.6g: training may have "
			"diverged here",
			norm, limit);
	return ERR_OK;
}

static enum err check_vector(const struct gate_expect *e, const struct contribution_view *v,
	struct gate_passed *out, struct why *why)
{
	enum err err = contribution_decode(v, &e->codec, e->n, &out->vector, why);
	if (err)
		return err;
	out->norm = sqrt(out->vector.norm_squared);
	err = gate_norm(out->norm, e->norm_limit, why);
	if (err)
		codec_release(&out->vector);
	return err;
}

static enum err check_statement(
	const struct gate_expect *e, const struct contribution_view *v, struct why *why)
{
	enum err err = check_place(e, &v->says, why);
	if (!err)
		err = check_sender(e, v, why);
	if (!err)
		err = check_tokens(e, &v->says, why);
	return err;
}

enum err gate_check(const struct gate_expect *e, const uint8_t *bytes, size_t len,
	struct gate_passed *out, struct why *why)
{
	*out = (struct gate_passed){0};
	size_t most = contribution_bound(&e->codec, e->n);
	if (len > most)
		return err_why(why, ERR_toobig,
			"the contribution has %zu bytes, one to shard %" PRIu32 " has at most %zu",
			len, e->shard, most);
	struct contribution_view v;
	enum err err = contribution_parse(bytes, len, &v, why);
	if (!err)
		err = check_statement(e, &v, why);
	if (!err)
		err = check_vector(e, &v, out, why);
	if (err)
		return err;
	out->says = v.says;
	out->id = contribution_id(&v);
	return ERR_OK;
}

/* What the planes would be refused for, as far as it stands in front of them. */
static enum err check_planes(
	const struct gate_expect *e, const struct contribution *c, struct why *why)
{
	enum err err = contribution_codec(c, &e->codec, why);
	if (!err && c->planes_len > codec_bound(&e->codec, e->n))
		err = err_why(why, ERR_toobig,
			"the contribution has planes of %" PRIu64 " bytes, those of shard %" PRIu32
			" have at most %zu",
			c->planes_len, e->shard, codec_bound(&e->codec, e->n));
	return err;
}

enum err gate_statement(const struct gate_expect *e, const uint8_t *bytes, size_t len,
	struct gate_passed *out, struct why *why)
{
	struct contribution_view v;
	*out = (struct gate_passed){0};
	enum err err = contribution_parse_statement(bytes, len, &v, why);
	if (!err)
		err = check_statement(e, &v, why);
	if (!err)
		err = check_planes(e, &v.says, why);
	if (err)
		return err;
	out->says = v.says;
	out->id = contribution_id(&v);
	return ERR_OK;
}
