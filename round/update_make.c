#include "round/update_make.h"

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
		update_made_release(out);
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
	update_made_release(made);
	made->bytes = merged;
	return open_made(m, made, why);
}

void update_made_release(struct update_made *made)
{
	if (!made)
		return;
	update_release(&made->update);
	buf_release(&made->bytes);
}
