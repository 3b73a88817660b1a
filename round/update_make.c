#include "round/update_make.h"
#include <inttypes.h>

static enum err open_made(const struct update_make *m, struct update_made *made, struct why *why)
{
	enum err err = update_open(made->bytes.data, made->bytes.len, &made->update, why);
	return err ? err : update_verify(&made->update, &m->expect, why);
}

enum err update_make_bundle(const struct update_make *m, const struct update_part *parts,
	uint32_t count, struct update_made *out, struct why *why)
{
	const struct update_head head = {.run = m->expect.run,
		.parent = m->expect.parent,
		.round = m->round,
		.shard = m->shard};
	size_t size = UPDATE_HEAD;
	for (uint32_t i = 0; i < count; i++)
		size += 8 + parts[i].len;
	*out = (struct update_made){0};
	buf_init(&out->bytes, size);
	enum err err = update_encode(&head, parts, count, &out->bytes, why);
	if (!err)
		err = open_made(m, out, why);
	if (err)
		update_make_release(out);
	return err;
}

static enum err check_place(
	const struct update_make *m, const struct update_head *h, struct why *why)
{
	if (h->round == m->round && h->shard == m->shard && !h->part)
		return ERR_OK;
	return err_why(why, ERR_shape,
		"an update is of round %" PRIu64 " shard %" PRIu32 " part %" PRIu32
		", expected is round %" PRIu64 " shard %" PRIu32,
		h->round, h->shard, h->part, m->round, m->shard);
}

enum err update_make_open(const struct update_make *m, uint8_t *bytes, size_t len,
	struct update_made *out, struct why *why)
{
	*out = (struct update_made){.bytes = {.data = bytes, .len = len, .cap = len, .max = len}};
	enum err err = update_open(bytes, len, &out->update, why);
	if (!err)
		err = check_place(m, &out->update.head, why);
	if (!err)
		err = update_verify(&out->update, &m->expect, why);
	if (err)
		update_make_release(out);
	return err;
}

enum err update_make_smaller(const struct update_make *m, struct update_made *made, struct why *why)
{
	struct buf merged;
	if (!m->expect.merged || !made->update.count)
		return ERR_OK;
	buf_init(&merged, update_merge_bound(&m->expect.codec, m->expect.merged, m->expect.n,
				  made->update.count));
	enum err err = update_merge(&made->update, &m->rule, m->expect.merged, &merged, why);
	if (err || !merged.len) {
		buf_release(&merged);
		return err;
	}
	update_make_release(made);
	made->bytes = merged;
	return open_made(m, made, why);
}

void update_make_release(struct update_made *made)
{
	if (!made)
		return;
	update_release(&made->update);
	buf_release(&made->bytes);
}
