#include <inttypes.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "compress/frame.h"
#include "round/update_parts.h"
#include "round/weighed.h"

/* ---- how it is encoded */

/* As merge_params has it: with the places of all, where those are sent or differ. */
static struct codec_params params_of(const struct codec_params *codec, uint32_t values, bool joined)
{
	struct codec_params p = *codec;
	p.values = (enum values)values;
	if (joined)
		p = (struct codec_params){SELECT_topk, p.values, p.dct, p.chunk, p.chunk, 0, 0};
	return p;
}

/* Bytes of the planes at most, whatever was sent. */
static size_t planes_bound(const struct codec_params *codec, uint32_t values, size_t n)
{
	const struct codec_params alike = params_of(codec, values, false);
	const struct codec_params joined = params_of(codec, values, true);
	size_t a = codec_bound(&alike, n), b = codec_bound(&joined, n);
	return a > b ? a : b;
}

/* Drawn places are all the same, unless somebody kept fewer of them: the planes say it. */
static bool is_joined(const struct codec_params *codec, const struct buf *planes)
{
	const struct select_row *row = select_row(codec->select);
	bool says = planes->len > 0 && planes->data[0] == SELECT_topk;
	return row->sends_places || (row->takes_seed && says);
}

static enum err open_vector(
	struct update *u, const struct update_expect *e, struct buf *planes, struct why *why)
{
	const struct codec_params p = params_of(&e->codec, e->merged, is_joined(&e->codec, planes));
	enum err err = codec_open(&p, e->n, planes, &u->vectors[0], why);
	if (err || !select_row(p.select)->takes_seed)
		return err;
	if (u->vectors[0].params.seed != contribution_seed(&e->run, u->head.round, u->head.shard))
		return err_why(why, ERR_shape,
			"a merged update of round %" PRIu64 " shard %" PRIu32
			" has places of another seed",
			u->head.round, u->head.shard);
	return ERR_OK;
}

enum err update_merge_open(struct update *u, const struct update_expect *expect, struct why *why)
{
	if (!expect->merged)
		return err_why(why, ERR_unsupported,
			"round %" PRIu64 " shard %" PRIu32
			" has a merged update, which this run does not allow",
			u->head.round, u->head.shard);
	struct buf planes;
	buf_init(&planes, planes_bound(&expect->codec, expect->merged, expect->n));
	enum err err = frame_unpack(u->frame, u->frame_len, &planes, why);
	if (!err) {
		u->merged = hash_of(planes.data, planes.len);
		err = open_vector(u, expect, &planes, why);
	}
	buf_release(&planes);
	return err;
}

/* ---- making it */

size_t update_merge_bound(
	const struct codec_params *codec, uint32_t values, size_t n, uint32_t count)
{
	return update_merged_bound(count, frame_bound(planes_bound(codec, values, n)));
}

static size_t bytes_of_planes(const struct update *bundle)
{
	size_t bytes = 0;
	for (uint32_t i = 0; i < bundle->count; i++)
		bytes += bundle->vectors[i].planes.len;
	return bytes;
}

static enum err put(
	const struct update *bundle, const struct planes *planes, struct buf *out, struct why *why)
{
	struct buf frame;
	size_t start = out->len;
	buf_init(&frame, frame_bound(planes->bytes.len));
	enum err err = frame_pack(planes, &frame);
	if (!err) {
		update_put_merged(bundle, &frame, out);
		err = buf_ok(out) ? ERR_OK : ERR_toobig;
	}
	buf_release(&frame);
	if (!err)
		return ERR_OK;
	out->len = start;
	return err_why(why, err, "no room for a merged update of %zu bytes", planes->bytes.len);
}

enum err update_merge(const struct update *bundle, const struct rule_params *p, uint32_t values,
	struct buf *out, struct why *why)
{
	if (bundle->count < 2)
		return ERR_OK;
	struct rule_input *inputs = NULL;
	struct weighed w = {0};
	struct planes planes;
	const struct codec_vector *first = &bundle->vectors[0];
	planes_init(&planes, planes_bound(&first->params, values, first->n));
	enum err err = update_inputs(bundle, &inputs);
	if (err)
		err_why(why, err, "no memory to merge %" PRIu32 " contributions", bundle->count);
	if (!err)
		err = weighed_init(p, inputs, bundle->count, first->n, &w, why);
	if (!err)
		err = merge_encode(&w.config, (enum values)values, NULL, &planes, why);
	if (!err && planes.bytes.len < bytes_of_planes(bundle))
		err = put(bundle, &planes, out, why);
	weighed_release(&w);
	planes_release(&planes);
	free(inputs);
	return err;
}
