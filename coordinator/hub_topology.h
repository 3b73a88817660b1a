/*
 * Who aggregates what in the open round, and who sends whom the updates.  Planned at the opening of
 * each round from what was measured (coordinator/hub_distance.h), and kept until the next; a shard
 * whose aggregator fails is the coordinator's for the rest of the round.  The control loop's
 * thread.
 */
#ifndef COORDINATOR_HUB_TOPOLOGY_H
#define COORDINATOR_HUB_TOPOLOGY_H
#include "base/json.h"
#include "coordinator/hub.h"
#include "round/plan.h"

struct hub_topology;

struct hub_topology *hub_topology_new(void);
void hub_topology_free(struct hub_topology *t); /* NULL-safe */

/* A round opens: before the first hub_topology_fill of it. */
void hub_topology_open(struct hub *h, uint64_t now);
/* A round is about to be committed: what it held shows what the next one will. */
void hub_topology_closed(struct hub *h, const struct desk_close *c);
/* Aggregators and sources of the plan that this member is about to be told (p->member counts for
 * nothing). */
void hub_topology_fill(struct hub *h, uint32_t member, struct plan *p);
/* From now on until the next opening the coordinator itself has this shard; who had it is not named
 * for a while. */
void hub_topology_lost(struct hub *h, uint32_t shard, const char *why);
/* It lied: not named again while this process runs, and what it has is the coordinator's. */
void hub_topology_ban(struct hub *h, uint32_t member);

/* The aggregator of a shard in the open round; MEMBERS_NONE: the coordinator. */
uint32_t hub_topology_aggregator(const struct hub *h, uint32_t shard);
/* It was told to get the updates of the aggregators' shards from other members; those of shards
 * that the coordinator has come from there in any case. */
bool hub_topology_follows(const struct hub *h, uint32_t member);

/* For the API: mode, plan, what it was made from (as topology_json_load reads it), and the last
 * rounds as they were predicted when they opened and as they were. */
/* Updates of shards that members made, since the coordinator began. */
uint64_t hub_topology_aggregated(const struct hub *h);
json_t *hub_topology_view(struct hub *h, uint64_t now);

#endif
