/*
 * A bed: nodes at sites, and links between sites.  A file of lines; # begins a comment; names are
 * up to 15 of a-z 0-9 and -:
 *
 *     node NAME SITE up=20 down=100          the access link of a node, up is away from the node
 *     link SITE SITE rate=200 delay=10       between two sites, or, with the same site twice,
 * inside one
 *     nat SITE                               its nodes are behind a home router (nat.h): they reach
 * all, and nobody reaches them but who is at their site
 *
 * Both take the keys
 *
 *     up= down=    Mbit/s each way (of a link: from the first site to the second, and back); rate=
 * sets both; 0, the default, is no limit.  What all nodes of two sites send each other shares their
 * link. delay=       ms one way, so that a round trip takes twice as long; default 0 jitter= up to
 * so many ms more, for each packet; order is kept; default 0 loss=        of packets, 0 to 1, each
 * way; default 0 queue=       ms: a packet that would wait longer for its turn is dropped; default
 * 100
 *
 * and a node also speed=, how quickly it computes beside the others (default 1; for those who start
 * something there).  A node "coordinator" must be there, and a link for every two nodes.  The n-th
 * node has the address 10.77.0.n.
 */
#ifndef TESTS_WAN_BED_H
#define TESTS_WAN_BED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define BED_NODES 64
#define BED_SITES 16
#define BED_NAME 16

/* One link in both directions, in the file's units. */
struct bed_way {
	double up, down, delay, jitter, loss, queue, speed;
	bool cut;   /* nothing passes */
	bool given; /* there is a line for it */
};

struct bed_node {
	char name[BED_NAME];
	size_t site;
	struct bed_way way;
};

struct bed {
	struct bed_node node[BED_NODES];
	char site[BED_SITES][BED_NAME];
	bool nat[BED_SITES];
	size_t n_nodes, n_sites;
	/* [a][b] with a <= b; up is from a to b, whichever way round the file says it. */
	struct bed_way link[BED_SITES][BED_SITES];
};

/* ERR_syntax and the others name the file and the line. */
enum err bed_read(const char *path, struct bed *out, struct why *why) MUST_CHECK;
/* One line changes a bed that runs; what is not named stays:
 *     node NAME KEY=VALUE...    link SITE SITE KEY=VALUE...
 *     cut NODE                  cut SITE SITE                   heal (the same)
 * After a failure nothing has changed. */
enum err bed_change(struct bed *t, const char *line, struct why *why) MUST_CHECK;

/* The link between two sites, in the order of its up. */
struct bed_way *bed_link(struct bed *t, size_t a, size_t b);
/* The index of a node, or n_nodes. */
size_t bed_find(const struct bed *t, const char *node);
void bed_address(size_t node, char out[static 16]); /* "10.77.0.1" for node 0 */
#define BED_ROUTER 200u /* 10.77.0.200 is the router of the first site */

/* What a bed promises between two nodes when nothing else is sent. */
struct bed_path {
	double up, down;      /* Mbit/s, 0: no limit; up is away from the first node */
	double delay, jitter; /* ms one way */
	double loss;          /* one way */
};
struct bed_path bed_path(const struct bed *t, size_t from, size_t to);

#endif
