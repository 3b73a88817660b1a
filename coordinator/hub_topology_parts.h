/* What hub_topology.c, hub_distance.c and hub_completion.c keep for each other. */
#ifndef COORDINATOR_HUB_TOPOLOGY_PARTS_H
#define COORDINATOR_HUB_TOPOLOGY_PARTS_H
#include "coordinator/distance.h"
#include "coordinator/hub_topology.h"

#define HUB_TOPOLOGY_RTTS 8u    /* heartbeats of which the fastest counts */
#define HUB_TOPOLOGY_ROUNDS 16u /* that are remembered */

/* Objects that overlap in time, or nearly. */
struct hub_burst {
	uint64_t bytes, began_ns, ended_ns;
};

/* The one under way, and the largest since it was last asked for. */
struct hub_bursts {
	struct hub_burst now, most;
};

struct hub_way {
	bool follows, banned;
	uint64_t distrust_ns;        /* not named until then */
	uint64_t reached_ns;         /* when somebody connected to its address; 0: never */
	uint64_t probe_ns, check_ns; /* when it measures others, and others its address */
	uint64_t moved_ns;           /* what was measured before does not hold any more */
	uint32_t turns, checks;      /* how often it was asked, and its address in vain */
	uint32_t rtt_us[HUB_TOPOLOGY_RTTS], n_rtt, probed_us;
	struct hub_bursts came, went;
	/* hub_completion.c, of the open round or the one before */
	uint64_t cut_ns;
	bool waited; /* has still to stand at the new head */
};

struct hub_completion {
	uint64_t round, cut_ns, standing_ns;
	uint32_t waited; /* members */
	double delay_s;
	bool closed, spoilt;
};

struct hub_completed {
	uint64_t round;
	bool star;
	double predicted_s, measured_s;
};

struct hub_topology {
	uint32_t aggregator[GRAPH_SHARDS_MAX]; /* member, by shard; MEMBERS_NONE: the coordinator */
	struct hub_way ways[ROUNDS_MEMBERS_MAX];
	struct distance *distance;
	struct topology_in in; /* that the plan was made from */
	struct topology_plan plan;
	bool planned;
	struct topology_shard shards[GRAPH_SHARDS_MAX]; /* bytes as last seen */
	struct hub_bursts came, went;                   /* of all members together */
	double up, down;         /* of the coordinator, bytes/s; 0: not known */
	uint64_t up_ns, down_ns; /* when that was */
	struct topology_slower slower;
	struct hub_completion completion;
	struct hub_completed rounds[HUB_TOPOLOGY_ROUNDS];
	uint32_t n_rounds;
	uint64_t aggregated; /* shards of rounds that members aggregated */
	uint64_t tick_ns;
};

#endif
