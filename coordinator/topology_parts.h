/* What the planner's files share: the input as a model of lines, and a candidate. */
#ifndef COORDINATOR_TOPOLOGY_PARTS_H
#define COORDINATOR_TOPOLOGY_PARTS_H
#include "coordinator/topology.h"

#define TOPOLOGY_NONE UINT32_MAX
#define TOPOLOGY_PLACES (TOPOLOGY_CLUSTERS_MAX + 1u) /* the clusters, and the coordinator's */

/* Nodes are numbered by their place in the input's members; the coordinator is the node n and has a
 * cluster of its own, the last. */
struct topology_world {
	const struct topology_in *in;
	uint32_t n;
	double *up, *down;   /* of each node, bytes/s; infinite: no limit known */
	bool *guessed;       /* no measurement says what the member itself can carry */
	uint32_t *cluster;   /* of each node */
	uint32_t n_clusters; /* of members */
	uint32_t leader[TOPOLOGY_PLACES];
	uint32_t size[TOPOLOGY_PLACES];                /* members in it */
	double line[TOPOLOGY_PLACES][TOPOLOGY_PLACES]; /* bytes/s from one to another */
	double rtt[TOPOLOGY_PLACES][TOPOLOGY_PLACES];  /* seconds; 0: not known */
	/* Bytes/s of a member to others of its cluster, where that is one local network; 0: where
	 * it is not, and all goes over the access lines. */
	double lan[TOPOLOGY_PLACES];
	double contributions, updates; /* bytes, of all shards */
	/* Scratch of predictions: by node. */
	double *sends, *takes, *gets_c, *gets_u, *gets_b, *largest_u, *out_sends, *out_takes;
};

/* Sorts what `in` lists. */
void topology_world_init(struct topology_world *w, struct topology_in *in);
void topology_world_release(struct topology_world *w);
/* Groups by lot in place of the clusters, as many and as large. */
void topology_world_shuffle(struct topology_world *w);
uint32_t topology_world_node(const struct topology_world *w, uint32_t number); /* or NONE */
double topology_world_rtt(const struct topology_world *w, uint32_t a, uint32_t b);

struct topology_choice {
	uint32_t aggregator[TOPOLOGY_SHARDS_MAX]; /* node of each shard; n: the coordinator */
	uint32_t relay[TOPOLOGY_PLACES];          /* node in each cluster, or NONE */
	struct topology_time time;
};

/* The time of a choice, which it is given.  Loads of all nodes are in the world's scratch after
 * it. */
void topology_predict(struct topology_world *w, struct topology_choice *c);
void topology_predict_star(const struct topology_world *w, struct topology_choice *c);
/* The member aggregators of a choice, in no order of meaning; how many. */
uint32_t topology_predict_aggregators(const struct topology_world *w,
	const struct topology_choice *c, uint32_t out[static TOPOLOGY_SHARDS_MAX]);
/* The best with at least one member that aggregates; false: nobody can. */
bool topology_search(struct topology_world *w, struct topology_choice *best);
/* As many as `like` has, by lot. */
void topology_search_draw(
	struct topology_world *w, const struct topology_choice *like, struct topology_choice *out);

#endif
