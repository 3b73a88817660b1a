/*
 * Virtual links.  Everybody has one line to the internet with a rate up and a rate down, and a
 * distance to the middle.  Who sends n bytes occupies its own line up for n / rate, one transfer
 * after another; from the moment at which the first byte reaches the receiver, that one's line down
 * in the same way, in the order in which transfers begin there.  The two overlap, and a slow sender
 * does not block a fast receiver.  Bytes are those of the payload: no headers, no losses.  Pure;
 * times are nanoseconds of virtual time.
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
struct network_way {
	uint64_t first_ns, last_ns; /* bytes at the receiver's end, if its line down were free */
};
struct network_way network_send(
	struct network *w, uint32_t from, uint32_t to, size_t bytes, uint64_t now);
/* At first_ns: when all of it is there. */
uint64_t network_receive(
	struct network *w, uint32_t to, size_t bytes, uint64_t last_ns, uint64_t now);

#endif
