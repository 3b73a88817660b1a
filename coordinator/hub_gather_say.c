#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "coordinator/hub_gather_parts.h"
#include "coordinator/hub_link.h"
#include "round/object.h"

#define WAIT_UNKNOWN (10 * CLOCK_SECOND) /* while no rate is known */
#define WAIT_LEAST (5 * CLOCK_SECOND)
#define WAIT_MOST (600 * CLOCK_SECOND)
#define WAIT_TIMES 4.0 /* what the bytes need at the slowest rate */
/* After a restart members come back one after another. */
#define WAIT_RESTARTED (60 * CLOCK_SECOND)

static const uint8_t *key_of(const struct hub *h, uint32_t number)
{
	return members_at(h->run.members, number)->curve;
}

uint64_t hub_gather_say_patience(const struct hub *h, uint64_t bytes, uint64_t now)
{
	double slowest = 0;
	for (uint32_t i = 0; i < h->n_members; i++) {
		const struct hub_member *m = &h->members[i];
		if (m->linked && m->rate > 0 && (slowest <= 0 || m->rate < slowest))
			slowest = m->rate;
	}
	uint64_t wait = WAIT_UNKNOWN;
	if (slowest > 0) {
		double seconds = WAIT_TIMES * (double)bytes / slowest;
		wait = seconds < clock_seconds(WAIT_MOST - WAIT_LEAST)
			       ? WAIT_LEAST + (uint64_t)(seconds * (double)CLOCK_SECOND)
			       : WAIT_MOST;
	}
	if (now < h->start_ns + WAIT_RESTARTED && wait < WAIT_RESTARTED)
		wait = WAIT_RESTARTED;
	return now + wait;
}

void hub_gather_say_list(struct hub *h, uint32_t shard, bool witness)
{
	const struct gather_shard *s = &h->gather->shards[shard];
	shoal_header header = {.which_body = witness ? MSG_witness : MSG_gather};
	struct buf b;
	size_t n;
	if (witness)
		header.body.witness = (shoal_witness){
			.round = h->announced, .shard = shard, .aggregator = s->aggregator};
	else
		header.body.gather = (shoal_gather){.round = h->announced, .shard = shard};
	buf_init(&b, MSG_PAYLOAD_MAX); /* ROUNDS_MEMBERS_MAX of them fit */
	for (uint32_t i = 0; i < s->n; i++) {
		buf_put_u32(&b, s->rows[i].peer);
		buf_put(&b, s->rows[i].id.b, sizeof s->rows[i].id.b);
	}
	uint8_t *bytes = buf_steal(&b, &n);
	struct shared *payload = shared_new(bytes, n);
	link_send(h->link, key_of(h, witness ? s->witness : s->aggregator), &header, payload);
	shared_drop(payload);
}

void hub_gather_say_want(struct hub *h, uint32_t shard)
{
	const struct gather_shard *s = &h->gather->shards[shard];
	shoal_header header = {.which_body = MSG_want};
	header.body.want.kind = OBJECT_bundle;
	header.body.want.offset = h->announced;
	for (unsigned i = 0; i < 4; i++)
		header.body.want.name[i] = (uint8_t)(shard >> 8 * i);
	link_send(h->link, key_of(h, s->aggregator), &header, NULL);
}

/* The blob store is the desk's, so from the file; whoever gets it looks at it. */
static enum err push_row(
	struct hub *h, struct gather_shard *s, const struct store_contribution *c, struct why *why)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	char *path = blob_path(h->run.blobs, &c->blob);
	enum err err = file_read(path, (size_t)c->bytes, &bytes, &n, why);
	free(path);
	if (err)
		return err;
	struct shared *shared = shared_new(bytes, n);
	const struct link_object o = {.kind = OBJECT_contribution, .bytes = shared};
	s->moving[s->n_moving++] = link_push(h->link, key_of(h, s->aggregator), &o);
	shared_drop(shared);
	return ERR_OK;
}

enum err hub_gather_say_rest(struct hub *h, uint32_t shard, struct why *why)
{
	struct gather_shard *s = &h->gather->shards[shard];
	enum err err = ERR_OK;
	s->n_moving = 0;
	s->moving = alloc_must_resize(s->moving, s->n + 1u, sizeof *s->moving);
	for (uint32_t i = 0; !err && i < s->n; i++)
		if (s->rows[i].via == STORE_HERE)
			err = push_row(h, s, &s->rows[i], why);
	return err;
}

void hub_gather_say_plans(struct hub *h)
{
	for (uint32_t i = 0; i < rounds_ask_members(h->rounds); i++) {
		const struct rounds_member *m = rounds_ask_member(h->rounds, i);
		if (m && m->assigned && hub_member(h, i)->linked)
			hub_link_plan(h, i);
	}
}
