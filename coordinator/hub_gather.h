/*
 * Closing a round whose contributions are with aggregators: each is asked for the update of what
 * counts, a merged one is made again by a witness, and what fails is made here from what the
 * contributors bring.  Every wait has an end, and each end leads on: an aggregator that is silent,
 * gone or lies is replaced by the coordinator, and a contribution that does not come any more is
 * withdrawn.  When every shard's update or inputs are here, hub_round_apply goes on.  The control
 * loop's thread.
 */
#ifndef COORDINATOR_HUB_GATHER_H
#define COORDINATOR_HUB_GATHER_H
#include "coordinator/hub.h"

/* Of a shard in the closing round. */
#define GATHER_LIST(X) \
	X(here)      /* the coordinator makes the update: it has all that it is made of */ \
	X(moving)    /* what the coordinator has of that is on its way to the aggregator */ \
	X(asked)     /* the aggregator, for the update */ \
	X(checking)  /* that is at the desk */ \
	X(witnessed) /* a contributor makes it again */ \
	X(proving)   /* the aggregator is asked for the bundle */ \
	X(merging)   /* that is at the desk */ \
	X(bytes)     /* the aggregator has failed: contributors bring theirs here */ \
	X(made)      /* the update is here */

enum gather_state {
#define X(name) GATHER_##name,
	GATHER_LIST(X)
#undef X
};

struct hub_gather;
struct hub_gather *hub_gather_new(uint32_t n_shards);
void hub_gather_free(struct hub_gather *g); /* NULL-safe */

/* ---- the round's life */
void hub_gather_end(struct hub *h);                 /* there is no such round any more */
void hub_gather_begin(struct hub *h, uint64_t now); /* it closes */
/* A member is out of the round, with what it contributed. */
void hub_gather_dropped(struct hub *h, uint32_t number, uint64_t now);
/* The bytes of a contribution that was known are somewhere else now. */
void hub_gather_moved(struct hub *h, const struct store_contribution *row, uint64_t now);

/* ---- what members say */
void hub_gather_take_object(struct hub *h, uint32_t number, struct link_event *e, uint64_t now);
void hub_gather_take_done(struct hub *h, struct desk_job *j, uint64_t now); /* the desk, of that */
void hub_gather_take_verdict(struct hub *h, uint32_t number, const shoal_verdict *v, uint64_t now);
void hub_gather_take_refusal(struct hub *h, uint32_t number, const shoal_refusal *r, uint64_t now);
/* An object of ours was taken there, or refused (why->code). */
void hub_gather_take_delivered(
	struct hub *h, uint32_t number, uint64_t ref, const struct why *why, uint64_t now);
/* Its link is down, or it begins anew: in an open round too the coordinator takes its shards. */
void hub_gather_gone(struct hub *h, uint32_t number, uint64_t now);

/* ---- time */
void hub_gather_tick(struct hub *h, uint64_t now);
uint64_t hub_gather_deadline(const struct hub *h); /* UINT64_MAX: none */

/* ---- asking */
enum gather_state hub_gather_state(const struct hub *h, uint32_t shard);
/* It is to bring what it contributed: it must hear the plan. */
bool hub_gather_wants(const struct hub *h, uint32_t number);
/* Of the closing round: contributions to a shard, and the update if there is one. */
const struct store_contribution *hub_gather_rows(const struct hub *h, uint32_t shard, uint32_t *n);
struct desk_made hub_gather_made(const struct hub *h, uint32_t shard);

#endif
