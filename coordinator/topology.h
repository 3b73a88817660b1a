/*
 * The plan of who aggregates, as a pure function of what was measured: same input, same plan, in
 * whatever order members and pairs come.  No clock, socket or disk.
 *
 * Members are clustered by round trip.  Candidates are the star (the coordinator takes and sends
 * everything) and aggregators among the members that others reach: added one by one where they help
 * most, shards spread over them (and the coordinator) in proportion to what they can take and give,
 * then single shards moved while that helps; per cluster one member may pass updates on to the
 * others there.  What a candidate takes is predicted as fluids: in each phase (contributions in,
 * updates out) the largest of bytes over capacity of every access line and every line between two
 * clusters, plus round trips.  The star stays unless something is a tenth faster, and the plan
 * before stays unless something is 15 % faster.
 *
 * Only measured values count.  What nobody measured is taken thus, and the words say so: a line
 * between clusters has no limit of its own; a member of which is only known that the coordinator
 * was slower is as fast as the coordinator.  A round shows what it was, and the next plan knows.
 */
#ifndef COORDINATOR_TOPOLOGY_H
#define COORDINATOR_TOPOLOGY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define TOPOLOGY_COORDINATOR UINT32_MAX /* in place of a member's number; also: none */
#define TOPOLOGY_MEMBERS_MAX 16384u
#define TOPOLOGY_PAIRS_MAX (64u * TOPOLOGY_MEMBERS_MAX)
#define TOPOLOGY_SHARDS_MAX 1024u
#define TOPOLOGY_CLUSTERS_MAX 64u
#define TOPOLOGY_AGGREGATORS_MAX 64u
#define TOPOLOGY_REASON 400

#define TOPOLOGY_MODE_LIST(X) \
	X(latency) /* the plan that is predicted to end a round first */ \
	X(star)    /* the coordinator takes and sends everything */ \
	X(random) /* aggregators and groups by lot, as many as latency would have, to compare with \
		   */

enum topology_mode {
#define X(name) TOPOLOGY_##name,
	TOPOLOGY_MODE_LIST(X)
#undef X
};

const char *topology_mode_text(enum topology_mode m);
bool topology_mode_of(const char *text, enum topology_mode *out); /* false: no such mode */

/* ---- what is known */

struct topology_member {
	uint32_t number;
	bool reachable;        /* somebody has connected to its address */
	double at[3], height;  /* its place (coordinator/distance.h), */
	bool placed;           /* if there is one */
	uint32_t before_relay; /* in the plan before: who passed updates on to it */
};

struct topology_pair {
	uint32_t from, to; /* numbers; to may be the coordinator */
	double rtt_s;      /* 0: not known */
	double up, down;   /* bytes/s towards `to` and from it; 0: not known */
	double age_s;
	bool together; /* measured while others so marked were busy: they add up */
};

struct topology_shard {
	double contribution; /* bytes of one; 0: the shard has no turn in this round */
	double update;       /* bytes that everybody gets */
	double bundle;       /* of a merged update: bytes that its witness gets; else 0 */
	uint32_t before;     /* its aggregator in the plan before */
};

/* How much longer than predicted rounds took: 0: not known. */
struct topology_slower {
	double star, peers;
};

struct topology_in {
	enum topology_mode mode;
	uint64_t seed;   /* of the lot */
	double up, down; /* of the coordinator, bytes/s; 0: not known */
	struct topology_slower slower;
	bool before; /* there was a plan with aggregators before */
	struct topology_member *members;
	uint32_t n_members;
	struct topology_pair *pairs;
	uint32_t n_pairs;
	struct topology_shard *shards;
	uint32_t n_shards;
};
void topology_in_release(struct topology_in *in); /* NULL-safe, idempotent */

/* ---- the plan */

struct topology_time {
	double up_s, merge_s, down_s; /* contributions in; the list and the witness; updates out */
	double total_s; /* of these, times how much slower rounds were; infinite: not possible */
};

struct topology_node {
	uint32_t number; /* of the member; ascending in the plan */
	uint32_t cluster;
	uint32_t relay;  /* who passes updates on to it; TOPOLOGY_COORDINATOR: nobody, it is told
			  * by the aggregators */
	double up, down; /* what it was taken to carry, bytes/s; 0: no limit known */
	bool guessed;    /* one is assumed: the coordinator's, or more if more was seen */
	double sends, takes; /* bytes in a round */
};

struct topology_plan {
	bool star;
	struct topology_node *nodes; /* members; behind them the coordinator */
	uint32_t n_members;
	uint32_t n_clusters;
	uint32_t *aggregator; /* of each shard: a member's number, or the coordinator */
	uint32_t n_shards;
	struct topology_time time, if_star, if_peers; /* if_peers: the best with aggregators */
	char reason[TOPOLOGY_REASON];
};

/* The pairs and members of `in` are sorted. */
void topology_make(struct topology_in *in, struct topology_plan *out);
/* What the plan before promises now, without how much slower rounds were: the star where there was
 * none.  False: some of its aggregators are not there. */
bool topology_judge(struct topology_in *in, struct topology_time *out);
void topology_plan_release(struct topology_plan *p); /* NULL-safe, idempotent */
/* NULL: no such member. */
const struct topology_node *topology_node(const struct topology_plan *p, uint32_t number);

/* ---- as documents */

json_t *topology_json_dump(const struct topology_in *in);
json_t *topology_json_plan(const struct topology_plan *p);
/* What topology_json_dump gave; ERR_syntax with all mistakes. */
enum err topology_json_load(const json_t *doc, struct topology_in *out, struct why *why) MUST_CHECK;
/* In words: the plan, what was known, what was assumed, and what the other candidates would take.
 */
void topology_explain(const struct topology_in *in, const struct topology_plan *p, struct buf *out);

#endif
