#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "coordinator/hub_gather_parts.h"
#include "coordinator/hub_topology.h"
#include "round/normlimit.h"
#include "round/turns.h"

static void add_row(void *arg, const struct store_contribution *c)
{
	struct hub *h = arg;
	struct hub_gather *g = h->gather;
	if (c->shard >= g->n_shards || !members_at(h->run.members, c->peer))
		return;
	struct gather_shard *s = &g->shards[c->shard];
	s->rows = alloc_must_resize(s->rows, s->n + 1, sizeof *s->rows);
	s->rows[s->n++] = *c;
}

enum err hub_gather_list_load(struct hub *h, struct why *why)
{
	for (uint32_t i = 0; i < h->gather->n_shards; i++)
		h->gather->shards[i].n = 0;
	return store_contribution_list(h->run.store, add_row, h, why);
}

uint64_t hub_gather_list_bytes(const struct gather_shard *s)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < s->n; i++)
		bytes += s->rows[i].bytes;
	return bytes;
}

uint32_t hub_gather_list_here(const struct gather_shard *s)
{
	uint32_t here = 0;
	for (uint32_t i = 0; i < s->n; i++)
		here += s->rows[i].via == STORE_HERE;
	return here;
}

static bool is_linked(const struct hub *h, uint32_t number)
{
	return number < h->n_members && h->members[number].linked;
}

uint32_t hub_gather_list_holder(const struct hub *h, uint32_t shard)
{
	const struct gather_shard *s = &h->gather->shards[shard];
	uint32_t holder = MEMBERS_NONE;
	for (uint32_t i = 0; i < s->n; i++) {
		const uint32_t via = s->rows[i].via;
		if (via == STORE_HERE)
			continue;
		if (holder != MEMBERS_NONE && via != holder)
			return MEMBERS_NONE;
		holder = via;
	}
	const uint32_t planned = hub_topology_aggregator(h, shard);
	if (s->lost || !is_linked(h, holder) || (planned != MEMBERS_NONE && planned != holder))
		return MEMBERS_NONE;
	return holder;
}

static bool may_witness(const struct hub *h, const struct gather_shard *s, uint32_t row)
{
	return s->rows[row].peer != s->aggregator && is_linked(h, s->rows[row].peer);
}

/* By lot, and by one that its aggregator cannot know before it has answered. */
uint32_t hub_gather_list_witness(const struct hub *h, uint32_t shard)
{
	const struct gather_shard *s = &h->gather->shards[shard];
	uint64_t lot;
	uint32_t eligible = 0, i = 0;
	for (uint32_t k = 0; k < s->n; k++)
		eligible += may_witness(h, s, k);
	if (!eligible)
		return MEMBERS_NONE;
	rng_secret(&lot, sizeof lot);
	for (uint32_t left = (uint32_t)(lot % eligible); !may_witness(h, s, i) || left--; i++)
		;
	return s->rows[i].peer;
}

/* As the gate has it for what comes here. */
static double norm_limit(const struct hub *h, uint32_t shard, uint32_t peer)
{
	const struct rounds_member *m = rounds_ask_member(h->rounds, peer);
	const struct spec_round *r = &h->run.spec->round;
	if (!m)
		return 0;
	const uint64_t given =
		span_count(m->spans, m->n_spans) - m->listed[turns_fragment(r, h->announced)];
	return normlimit(h->run.spec, h->run.exchange.rule.row, h->run.files.n[shard],
		given / h->run.spec->train.batch);
}

struct desk_job *hub_gather_list_job(struct hub *h, uint32_t shard, struct link_event *e)
{
	const struct gather_shard *s = &h->gather->shards[shard];
	struct desk_job *j = desk_job_new(DESK_update);
	struct desk_update *u = &j->update;
	memcpy(u->link, e->key, sizeof u->link);
	u->ref = e->ref;
	u->number = s->aggregator;
	u->turn = s->turn;
	u->bytes = e->payload;
	u->len = e->payload_len;
	e->payload = NULL;
	u->what.parent = run_head(&h->run).hash;
	u->what.round = h->announced;
	u->what.shard = shard;
	u->what.whole = s->state == GATHER_proving;
	u->what.count = s->n;
	u->items = alloc_must_zero(s->n + 1u, sizeof *u->items);
	for (uint32_t i = 0; i < s->n; i++) {
		u->items[i] = (struct gathered_item){.peer = s->rows[i].peer,
			.tokens = s->rows[i].tokens,
			.planes = s->rows[i].planes,
			.norm_limit = norm_limit(h, shard, s->rows[i].peer)};
		memcpy(u->items[i].key, members_at(h->run.members, s->rows[i].peer)->sign,
			SIGN_PUBLIC);
	}
	return j;
}
