#include "round/contribution.h"
#include <inttypes.h>
#include <string.h>
#include "compress/frame.h"

#define PURPOSE "shoal contribution 1"
#define FIXED 152u /* what precedes the spans */

static const uint8_t magic[8] = {'S', 'H', 'O', 'A', 'L', 'C', 'O', 'N'};

size_t contribution_bound(const struct codec_params *codec, size_t n)
{
	return CONTRIBUTION_HEAD_MAX + frame_bound(codec_bound(codec, n));
}

/* ---- writing */

static void put_signed(const struct contribution *c, struct buf *out)
{
	buf_put(out, magic, sizeof magic);
	buf_put_u16(out, CONTRIBUTION_VERSION);
	buf_put_u16(out, (uint16_t)c->n_spans);
	buf_put_u32(out, c->peer);
	buf_put(out, c->run.b, sizeof c->run.b);
	buf_put(out, c->parent.b, sizeof c->parent.b);
	buf_put_u64(out, c->round);
	buf_put_u32(out, c->shard);
	buf_put_u32(out, c->part);
	buf_put_u64(out, c->tokens);
	buf_put_u32(out, c->codec);
	buf_put_u32(out, 0);
	buf_put_u64(out, c->planes_len);
	buf_put(out, c->planes.b, sizeof c->planes.b);
	for (uint32_t i = 0; i < c->n_spans; i++) {
		buf_put_u64(out, c->spans[i].first);
		buf_put_u64(out, c->spans[i].last);
	}
}

enum err contribution_seal(struct contribution *c, const struct codec_params *codec,
	const struct planes *planes, const struct sign_key *key, struct buf *out)
{
	size_t start = out->len;
	c->codec = codec_number(codec);
	c->planes_len = planes->bytes.len;
	c->planes = hash_of(planes->bytes.data, planes->bytes.len);
	put_signed(c, out);
	size_t signed_len = out->len - start;
	uint8_t *signature = buf_grow(out, SIGN_BYTES);
	if (!signature) {
		bool room = out->max - start >= CONTRIBUTION_HEAD_MAX;
		out->len = start;
		return room ? ERR_nomem : ERR_toobig;
	}
	sign_bytes(key, PURPOSE, out->data + start, signed_len, signature);
	enum err err = frame_pack(planes, out);
	if (err)
		out->len = start;
	return err;
}

/* ---- reading */

static void get_signed(struct rd *r, struct contribution *c)
{
	c->n_spans = rd_u16(r);
	c->peer = rd_u32(r);
	rd_copy(r, c->run.b, sizeof c->run.b);
	rd_copy(r, c->parent.b, sizeof c->parent.b);
	c->round = rd_u64(r);
	c->shard = rd_u32(r);
	c->part = rd_u32(r);
	c->tokens = rd_u64(r);
	c->codec = rd_u32(r);
	if (rd_u32(r) != 0)
		r->failed = true;
	c->planes_len = rd_u64(r);
	rd_copy(r, c->planes.b, sizeof c->planes.b);
	for (uint32_t i = 0; i < c->n_spans && i < SPAN_MAX; i++) {
		c->spans[i].first = rd_u64(r);
		c->spans[i].last = rd_u64(r);
	}
}

static enum err check_spans(const struct contribution *c, struct why *why)
{
	if (c->n_spans < 1 || c->n_spans > SPAN_MAX)
		return err_why(why, ERR_syntax,
			"a contribution names %" PRIu32 " intervals of data, not 1 to %d",
			c->n_spans, SPAN_MAX);
	for (uint32_t i = 0; i < c->n_spans; i++) {
		const struct span *s = &c->spans[i];
		if (s->first >= s->last)
			return err_why(why, ERR_syntax,
				"a contribution names data [%" PRIu64 ", %" PRIu64
				"), which is none",
				s->first, s->last);
		for (uint32_t j = 0; j < i; j++)
			if (s->first < c->spans[j].last && c->spans[j].first < s->last)
				return err_why(why, ERR_syntax,
					"a contribution names sequence %" PRIu64 " twice",
					s->first > c->spans[j].first ? s->first
								     : c->spans[j].first);
	}
	return ERR_OK;
}

/* All that precedes the frame; *r stands behind it. */
static enum err parse_statement(struct rd *r, struct contribution_view *out, struct why *why)
{
	const uint8_t *kind = rd_bytes(r, sizeof magic);
	if (!kind || memcmp(kind, magic, sizeof magic) != 0)
		return err_why(why, ERR_magic, "%zu bytes are no contribution", out->len);
	uint16_t version = rd_u16(r);
	if (rd_ok(r) && version != CONTRIBUTION_VERSION)
		return err_why(why, ERR_version,
			"a contribution is of version %u, this program reads %d", version,
			CONTRIBUTION_VERSION);
	get_signed(r, &out->says);
	if (!rd_ok(r))
		return err_why(why, ERR_truncated, "a contribution of %zu bytes ends in its header",
			out->len);
	enum err err = check_spans(&out->says, why);
	if (err)
		return err;
	out->signed_len = FIXED + sizeof(struct span) * out->says.n_spans;
	out->signature = rd_bytes(r, SIGN_BYTES);
	return out->signature
		       ? ERR_OK
		       : err_why(why, ERR_truncated,
				 "a contribution of %zu bytes ends before its payload", out->len);
}

enum err contribution_parse(
	const uint8_t *bytes, size_t len, struct contribution_view *out, struct why *why)
{
	struct rd r;
	*out = (struct contribution_view){.bytes = bytes, .len = len};
	rd_init(&r, bytes, len);
	enum err err = parse_statement(&r, out, why);
	if (!err && rd_left(&r) == 0)
		err = err_why(why, ERR_truncated,
			"a contribution of %zu bytes ends before its payload", len);
	if (err)
		return err;
	out->frame = r.at;
	out->frame_len = rd_left(&r);
	return ERR_OK;
}

enum err contribution_parse_statement(
	const uint8_t *bytes, size_t len, struct contribution_view *out, struct why *why)
{
	struct rd r;
	*out = (struct contribution_view){.bytes = bytes, .len = len};
	rd_init(&r, bytes, len);
	enum err err = parse_statement(&r, out, why);
	if (!err && rd_left(&r))
		err = err_why(why, ERR_syntax, "the statement of a contribution has %zu bytes more",
			rd_left(&r));
	return err;
}

enum err contribution_verify(
	const struct contribution_view *v, const uint8_t key[static SIGN_PUBLIC], struct why *why)
{
	if (sign_verify(key, PURPOSE, v->bytes, v->signed_len, v->signature))
		return err_why(why, ERR_signature,
			"the signature of a contribution is not that of peer %" PRIu32,
			v->says.peer);
	return ERR_OK;
}

/* ---- the vector */

uint64_t contribution_seed(const struct hash *run, uint64_t round, uint32_t shard)
{
	static const char purpose[] = "shoal randk";
	struct hash_state *h = hash_begin();
	hash_add(h, purpose, sizeof purpose - 1);
	hash_add(h, run->b, sizeof run->b);
	hash_add_u64(h, round);
	hash_add_u32(h, shard);
	struct hash all = hash_end(h);
	struct rd r;
	rd_init(&r, all.b, sizeof all.b);
	return rd_u64(&r);
}

enum err contribution_codec(
	const struct contribution *c, const struct codec_params *codec, struct why *why)
{
	if (c->codec == codec_number(codec))
		return ERR_OK;
	char name[CODEC_NAME_MAX];
	codec_describe(codec, name);
	return err_why(why, ERR_unsupported,
		"a contribution uses codec number %" PRIu32 ", the run uses %" PRIu32 ", %s",
		c->codec, codec_number(codec), name);
}

static enum err check_seed(
	const struct contribution *c, const struct codec_params *says, struct why *why)
{
	if (!select_row(says->select)->takes_seed ||
		says->seed == contribution_seed(&c->run, c->round, c->shard))
		return ERR_OK;
	return err_why(why, ERR_shape,
		"a contribution drew its places from another seed than that of round %" PRIu64
		" shard %" PRIu32,
		c->round, c->shard);
}

enum err contribution_decode(const struct contribution_view *v, const struct codec_params *codec,
	size_t n, struct codec_vector *out, struct why *why)
{
	*out = (struct codec_vector){0};
	enum err err = contribution_codec(&v->says, codec, why);
	if (err)
		return err;
	struct buf planes;
	buf_init(&planes, codec_bound(codec, n));
	err = frame_unpack(v->frame, v->frame_len, &planes, why);
	if (!err) {
		struct hash h = hash_of(planes.data, planes.len);
		if (planes.len != v->says.planes_len || !hash_equal(&h, &v->says.planes))
			err = err_why(why, ERR_hash,
				"the payload of a contribution is not the one that was signed");
	}
	if (!err)
		err = codec_open(codec, n, &planes, out, why);
	if (!err)
		err = check_seed(&v->says, &out->params, why);
	if (err)
		codec_release(out);
	buf_release(&planes);
	return err;
}

struct hash contribution_id(const struct contribution_view *v)
{
	return hash_of(v->bytes, v->signed_len);
}
