#include "sim/intake.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "round/gate.h"
#include "round/normlimit.h"
#include "round/turns.h"

static uint32_t shards(const struct intake *in)
{
	return in->archive->files.n_shards;
}

static struct intake_arrival *arrival(const struct intake *in, uint32_t member, uint32_t shard)
{
	return &in->arrived[(size_t)member * shards(in) + shard];
}

void intake_init(struct intake *in)
{
	in->arrived = alloc_must_zero((size_t)in->members * shards(in), sizeof *in->arrived);
	in->counts = alloc_must_zero(shards(in), sizeof *in->counts);
	in->inputs = alloc_must_zero(shards(in), sizeof *in->inputs);
}

void intake_release(struct intake *in)
{
	for (uint32_t i = 0; in->inputs && i < shards(in); i++)
		free(in->inputs[i]);
	free(in->inputs);
	free(in->counts);
	free(in->arrived);
	*in = (struct intake){0};
}

static struct gate_expect expectation(
	const struct intake *in, uint32_t member, uint32_t shard, struct span *spans)
{
	const struct rounds_member *m = rounds_ask_member(in->rounds, member);
	const struct intake_arrival *a = arrival(in, member, shard);
	struct gate_expect e = {.run = in->spec->id,
		.parent = ledger_at(in->archive->ledger).hash,
		.round = rounds_ask_round(in->rounds),
		.shard = shard,
		.n = in->archive->files.n[shard],
		.codec = in->archive->exchange.codec,
		.peer = member,
		.assigned = spans,
		.sequence_tokens = in->spec->train.seq,
		.have = a->have,
		.have_id = a->id};
	memcpy(e.key, roster_by_number(in->roster, member)->sign.b, sizeof e.key);
	if (m && m->assigned && rounds_ask_state(in->rounds) == ROUNDS_open) {
		const uint32_t fragment = turns_fragment(&in->spec->round, e.round);
		e.n_assigned = span_tail(m->spans, m->n_spans, m->listed[fragment], spans);
	}
	const uint64_t steps = span_count(spans, e.n_assigned) / in->spec->train.batch;
	e.norm_limit = normlimit(in->spec, in->archive->exchange.rule.row, e.n, steps);
	return e;
}

static enum err check(const struct intake *in, uint32_t member, const struct shared *bytes,
	struct gate_passed *passed, struct why *why)
{
	struct contribution_view v;
	struct span spans[SPAN_MAX];
	enum err err = contribution_parse(shared_data(bytes), shared_len(bytes), &v, why);
	if (!err && v.says.shard >= shards(in))
		err = err_why(why, ERR_shape, "there is no shard %u", v.says.shard);
	if (!err && !turns_has(&in->spec->round, v.says.round, v.says.shard))
		err = err_why(why, ERR_shape, "it is not the turn of shard %u", v.says.shard);
	if (err)
		return err;
	const struct gate_expect e = expectation(in, member, v.says.shard, spans);
	err = gate_check(&e, shared_data(bytes), shared_len(bytes), passed, why);
	if (!err)
		codec_release(&passed->vector);
	return err;
}

enum err intake_take(struct intake *in, uint32_t member, const struct shared *bytes, uint64_t now,
	bool *own, struct why *why)
{
	struct gate_passed passed;
	struct hash blob;
	enum err err = check(in, member, bytes, &passed, why);
	*own = err == ERR_nomem;
	if (err)
		return err;
	if ((err = blob_put(
		     in->archive->blobs, shared_data(bytes), shared_len(bytes), &blob, why))) {
		*own = true;
		return err;
	}
	const uint64_t sequences = span_count(passed.says.spans, passed.says.n_spans);
	/* Before the machine hears of it: it may close the round at once. */
	struct intake_arrival *a = arrival(in, member, passed.says.shard);
	*a = (struct intake_arrival){.have = true, .id = passed.id, .blob = blob};
	if (rounds_on_contribution(in->rounds, member, sequences, now)) {
		in->bytes += shared_len(bytes);
		return ERR_OK;
	}
	*a = (struct intake_arrival){0};
	*own = blob_remove(in->archive->blobs, &blob, why) != ERR_OK;
	return err_why(why, ERR_tokens,
		"the shards of one round must be trained on the same data: this one says %llu "
		"sequences",
		(unsigned long long)sequences);
}

enum err intake_drop(struct intake *in, uint32_t member, struct why *why)
{
	enum err err = ERR_OK;
	for (uint32_t i = 0; !err && i < shards(in); i++) {
		struct intake_arrival *a = arrival(in, member, i);
		if (a->have)
			err = blob_remove(in->archive->blobs, &a->blob, why);
		*a = (struct intake_arrival){0};
	}
	return err;
}

struct archive_round intake_round(struct intake *in)
{
	for (uint32_t shard = 0; shard < shards(in); shard++) {
		struct closing_input *list = alloc_must_resize(
			in->inputs[shard], in->members, sizeof *in->inputs[shard]);
		uint32_t n = 0;
		for (uint32_t i = 0; i < in->members; i++) {
			const struct intake_arrival *a = arrival(in, i, shard);
			if (!a->have)
				continue;
			list[n] = (struct closing_input){.peer = i, .blob = a->blob};
			memcpy(list[n++].key, roster_by_number(in->roster, i)->sign.b, SIGN_PUBLIC);
		}
		in->inputs[shard] = list;
		in->counts[shard] = n;
	}
	return (struct archive_round){
		.round = rounds_ask_round(in->rounds), .counts = in->counts, .inputs = in->inputs};
}

void intake_clear(struct intake *in)
{
	memset(in->arrived, 0, (size_t)in->members * shards(in) * sizeof *in->arrived);
	in->bytes = 0;
}
