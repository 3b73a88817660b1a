/*
 * Many peers that keep to the protocol and train nothing, in one process: each has keys of its own,
 * joins by HTTPS, and has a CURVE link over which it says hello, sends heartbeats, takes records
 * and reports.  For bench_coordinator.  One thread, which fork() may have made.
 */
#ifndef TESTS_HELP_LIGHT_H
#define TESTS_HELP_LIGHT_H
#include <stdatomic.h>
#include <stdint.h>

#define LIGHT_BINS 64 /* of round trips: bin i up to 0.1 ms times 1.25^i */

enum light_order { LIGHT_join, LIGHT_link, LIGHT_storm, LIGHT_end };

/* Shared by the processes: orders one way, counts the other. */
struct light_board {
	_Atomic int order;      /* enum light_order */
	_Atomic uint32_t storm; /* how many of each process are to come back at once */
	_Atomic uint32_t joined, open, stormed, refused, lost, plans, heads;
	_Atomic uint32_t rtt[LIGHT_BINS];
};

struct light_config {
	const char *link; /* the file with the join link */
	uint16_t port;    /* of the data plane */
	uint32_t n;       /* peers */
	uint64_t seed;    /* of their names */
	struct light_board *board;
};

/* Does as the board says until LIGHT_end.  Dies with a sentence when it cannot. */
void help_light_run(const struct light_config *config);

#endif
