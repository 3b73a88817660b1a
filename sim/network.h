/*
 * Virtual links.  Everybody has one line to the internet with a rate up and a rate down, and a
 * distance to the middle; who sends n bytes occupies its own line up and the receiver's line down
 * for n / rate each, one transfer after another in the order in which they were sent, the two
 * overlapping.  Bytes are those of the payload: no headers, no losses.  Pure; times are nanoseconds
 * of virtual time.
 */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H
#include <stddef.h>
#include <stdint.h>

struct network_end {
	double up, down;         /* bits per second */
	uint64_t away_ns;        /* one way to the middle */
	uint64_t up_ns, down_ns; /* each line is taken until then */
	uint64_t sent, received; /* bytes */
};

struct network {
	struct network_end *ends; /* by number */
	uint32_t n;
};

void network_init(struct network *w, uint32_t n);
void network_release(struct network *w);
/* A line that was cut begins anew: nothing waits in it. */
void network_reset(struct network *w, uint32_t end, uint64_t now);
/* When the last byte arrives. */
uint64_t network_send(struct network *w, uint32_t from, uint32_t to, size_t bytes, uint64_t now);

#endif
