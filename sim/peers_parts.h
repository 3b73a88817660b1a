/* What the files of the members (peers.c, follow.c) share; nobody else includes it. */
#ifndef SIM_PEERS_PARTS_H
#define SIM_PEERS_PARTS_H
#include <stdbool.h>
#include "base/buf.h"
#include "compress/rate.h"
#include "peer/standing.h"
#include "sim/peers.h"
#include "sim/scenario.h"

/* Training by the last plan, where rounds overlap, as struct follow of a real worker. */
struct follow {
	bool on;
	bool cut;        /* the plan's time is up, and its contribution handed over */
	bool go;         /* it looks for what to do next, at this moment */
	uint64_t due_ns; /* of the next cut, or of the last */
	uint64_t steps;  /* since the plan came */
	bool waits;      /* for the head that next starts from */
	struct plan next;
};

struct peer {
	const struct scenario_group *group;
	struct standing *standing; /* NULL: there is no process */
	char *dir;
	uint64_t instance, since_ns; /* of the process */
	struct plan plan;            /* at work, or answered; round 0: none */
	bool training, validating;
	uint64_t done_ns; /* when what it computes is done: an event of another time is void */
	uint64_t steps;
	uint64_t cut_ns, cut_round; /* 0: nothing is on its way */
	struct rate_ask rate;
	struct follow follow;
};

struct peers {
	struct world *w;
	struct peer *at; /* by number */
	uint32_t n;
	/* The last honest contribution to each shard, for those who copy. */
	struct buf *honest;
};

/* ---- peers.c */
void peers_send(struct peers *p, uint32_t member, struct letter *l);
/* The member computes until then, which is an EVENT_trained. */
void peers_compute(struct peers *p, uint32_t member, uint64_t takes_ns);
uint64_t peers_validation_ns(const struct peers *p, uint32_t member);
enum err peers_validate(struct peers *p, uint32_t member, struct why *why) MUST_CHECK;
void peers_pick_rate(struct peer *e);
/* A cut was made: saves it if need be, tells of it, hands it over. */
enum err peers_cut(struct peers *p, uint32_t member, struct why *why) MUST_CHECK;
enum err peers_hand_over(struct peers *p, uint32_t member, struct why *why) MUST_CHECK;

/* ---- follow.c: training on while rounds come and go, as worker_follow.c does */
/* A plan, or the head that the last one starts from, has come. */
enum err follow_plan(struct peers *p, uint32_t member, struct why *why) MUST_CHECK;
/* What was computed is done, or something may be there to do. */
enum err follow_go(struct peers *p, uint32_t member, struct why *why) MUST_CHECK;

#endif
