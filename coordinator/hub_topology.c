#include "coordinator/hub_topology.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/log.h"

struct hub_topology {
	uint32_t aggregator[GRAPH_SHARDS_MAX]; /* member, by shard; MEMBERS_NONE: the coordinator */
	bool follows[ROUNDS_MEMBERS_MAX];
	bool banned[ROUNDS_MEMBERS_MAX];
};

struct hub_topology *hub_topology_new(void)
{
	struct hub_topology *t = alloc_must_zero(1, sizeof *t);
	for (uint32_t i = 0; i < GRAPH_SHARDS_MAX; i++)
		t->aggregator[i] = MEMBERS_NONE;
	return t;
}

void hub_topology_free(struct hub_topology *t)
{
	free(t);
}

static uint32_t first_that_listens(const struct hub *h)
{
	uint32_t i = MEMBERS_FIRST;
	while (i < h->n_members &&
		(!h->members[i].linked || !h->members[i].address[0] || h->topology->banned[i]))
		i++;
	return i < h->n_members ? i : MEMBERS_NONE;
}

void hub_topology_open(struct hub *h, uint64_t now)
{
	struct hub_topology *t = h->topology;
	const uint32_t aggregator =
		h->config.plan == TOPOLOGY_random ? first_that_listens(h) : MEMBERS_NONE;
	(void)now;
	memset(t->follows, 0, sizeof t->follows);
	for (uint32_t i = 0; i < h->run.files.n_shards; i++)
		t->aggregator[i] = aggregator;
}

static uint8_t name_peer(const struct hub *h, uint32_t member, struct plan_peer *list, uint32_t *n)
{
	uint32_t i = 0;
	while (i < *n && list[i].member != member)
		i++;
	if (i == PLAN_PEERS_MAX)
		return PLAN_COORDINATOR;
	if (i == *n) {
		list[i].member = member;
		snprintf(list[i].address, sizeof list[i].address, "%s", h->members[member].address);
		(*n)++;
	}
	return (uint8_t)i;
}

void hub_topology_fill(struct hub *h, uint32_t member, struct plan *p)
{
	struct hub_topology *t = h->topology;
	plan_star(p);
	for (uint32_t i = 0; i < h->run.files.n_shards; i++) {
		const uint32_t a = t->aggregator[i];
		if (a == MEMBERS_NONE)
			continue;
		p->aggregator[i] = name_peer(h, a, p->aggregators, &p->n_aggregators);
		if (a != member)
			name_peer(h, a, p->sources, &p->n_sources);
	}
	t->follows[member] = p->n_aggregators > 0;
}

void hub_topology_lost(struct hub *h, uint32_t shard, const char *why)
{
	struct hub_topology *t = h->topology;
	if (t->aggregator[shard] == MEMBERS_NONE)
		return;
	log_at(coord, 2, "shard %u is the coordinator's again, not member %u's: %s", shard,
		t->aggregator[shard], why);
	t->aggregator[shard] = MEMBERS_NONE;
}

void hub_topology_ban(struct hub *h, uint32_t member)
{
	struct hub_topology *t = h->topology;
	t->banned[member] = true;
	for (uint32_t i = 0; i < h->run.files.n_shards; i++)
		if (t->aggregator[i] == member)
			hub_topology_lost(h, i, "it is not trusted any more");
}

uint32_t hub_topology_aggregator(const struct hub *h, uint32_t shard)
{
	return shard < GRAPH_SHARDS_MAX ? h->topology->aggregator[shard] : MEMBERS_NONE;
}

bool hub_topology_follows(const struct hub *h, uint32_t member)
{
	return member < ROUNDS_MEMBERS_MAX && h->topology->follows[member];
}
