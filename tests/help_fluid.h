/*
 * One round on a drawn internet, played as fluids (sim/flow.h): sites on a globe, peers there with
 * access lines as homes have them, a coordinator on a server.  For sizes that no machine holds as
 * real processes.  Pure.
 */
#ifndef TESTS_HELP_FLUID_H
#define TESTS_HELP_FLUID_H
#include <stdbool.h>
#include <stdint.h>
#include "coordinator/topology.h"

#define FLUID_SITES 12u
#define FLUID_PEERS 1000u

struct fluid_node {
	uint32_t site;
	double up, down; /* bytes/s */
	bool reachable;
};

struct fluid_world {
	uint32_t n; /* peers; the coordinator is the node behind them */
	struct fluid_node node[FLUID_PEERS + 1];
	double away_s[FLUID_SITES][FLUID_SITES]; /* one way */
	double line[FLUID_SITES][FLUID_SITES];   /* bytes/s each way; 0: inside a site */
};
void help_fluid_draw(struct fluid_world *w, uint32_t n, uint64_t seed);
double help_fluid_away(const struct fluid_world *w, uint32_t a, uint32_t b);

#define FLUID_SHARDS 16u
#define FLUID_SOURCES FLUID_SHARDS

/* Who does what in a round.  Every number is a node's. */
struct fluid_plan {
	uint32_t n_aggregators;
	uint32_t aggregator[FLUID_SHARDS]; /* who: the coordinator perhaps among them */
	uint32_t shards[FLUID_SHARDS];     /* that each has, of the same size */
	/* Of each peer: aggregators, or who passes on what aggregators made; none: the coordinator.
	 */
	uint32_t n_sources[FLUID_PEERS], sources[FLUID_PEERS][FLUID_SOURCES];
};

struct fluid_bytes {
	double contribution, update, bundle; /* of all shards; bundle 0: no witness needs one */
};

/* Of n peers who each keep this part of the parameters at two bits a value, at other places than
 * the others; merged at eight bits where that is smaller. */
void help_fluid_bytes(double params, double kept, uint32_t n, struct fluid_bytes *out);

struct fluid_outcome {
	double seconds;          /* until all stand at the new head */
	double coordinator;      /* bytes in and out */
	double busiest, of_line; /* bytes over the line that is busy longest, and its rate */
};
struct fluid_outcome help_fluid_play(
	const struct fluid_world *w, const struct fluid_plan *p, const struct fluid_bytes *bytes);

struct fluid_promise {
	double seconds; /* of the round, as the coordinator predicts it */
	double plan_s;  /* that making the plan took here, its inputs ready: a middle of some tries
			 */
};
/* As a coordinator would plan it (help_fluid_plan.c). */
struct fluid_promise help_fluid_plan(const struct fluid_world *w, enum topology_mode mode,
	const struct fluid_bytes *bytes, struct fluid_plan *out);

#endif
