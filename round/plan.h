/*
 * What one member does in one round, as the body of a signed document of type "plan".  Each member
 * gets its own, so that a plan's size does not grow with the swarm; who had which data stands in
 * the contributions, signed.
 */
#ifndef ROUND_PLAN_H
#define ROUND_PLAN_H
#include <stdbool.h>
#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "model/graph.h"
#include "net/address.h"
#include "round/ledger.h"
#include "round/span.h"
#include "round/turns.h"

#define PLAN_SECONDS_MAX 86400.0
#define PLAN_PEERS_MAX 64u    /* aggregators; and sources */
#define PLAN_COORDINATOR 255u /* in place of an aggregator */

/* A member that others reach; its keys are those of the roster. */
struct plan_peer {
	uint32_t member;
	char address[ADDRESS_MAX];
};

struct plan {
	struct hash run;
	uint64_t round;
	struct ledger_head parent; /* the state that the round starts from */
	uint32_t member;
	uint64_t steps; /* inner steps; with seconds: as many as the speed promises */
	double seconds; /* stop then; 0: do all steps, however long it takes */
	struct span spans[SPAN_MAX];
	uint32_t n_spans;
	uint64_t listed[SPEC_FRAGMENTS_MAX]; /* of these numbers, by fragment (round/turns.h) */
	uint64_t ledger_tokens;              /* trained by all before this round */
	uint64_t
		planned_tokens; /* of all members in this round: the learning rate runs over them */
	bool validate;          /* first measure the loss of the state that the round starts from */
	/* Who takes the contribution to a shard: aggregators[aggregator[shard]] (plan_aggregator).
	 */
	struct plan_peer aggregators[PLAN_PEERS_MAX];
	uint32_t n_aggregators;
	uint8_t aggregator[GRAPH_SHARDS_MAX]; /* PLAN_COORDINATOR: the coordinator itself */
	/* Who sends this member the updates; none: the coordinator. */
	struct plan_peer sources[PLAN_PEERS_MAX];
	uint32_t n_sources;
};

/* Without aggregators and sources: the coordinator takes and sends everything. */
void plan_star(struct plan *p);
/* Who takes the contribution to a shard; NULL: the coordinator. */
const struct plan_peer *plan_aggregator(const struct plan *p, uint32_t shard);

json_t *plan_json(const struct plan *p); /* caller decrefs */
/* Every number bounded; ERR_wrong_run, ERR_syntax with all mistakes. */
enum err plan_parse(
	const json_t *body, const struct hash *run, struct plan *out, struct why *why) MUST_CHECK;

#endif
