/*
 * How fast a link is one way, from what went over it anyway.  Objects that overlap in time are one
 * burst: its bytes, and the time from the first byte to the last answer less the round trips in
 * which nothing moves.  The better of the last two bursts counts: a busy disk or a pause at the
 * other side makes one burst look slower than the link, and a link that has become slow is known
 * after two.  Small bursts say less than the link can do, and then it is for small ones that the
 * figure is used.  Pure.
 */
#ifndef PEER_LINKSPEED_H
#define PEER_LINKSPEED_H
#include <stdint.h>

#define LINKSPEED_BURSTS 2

struct linkspeed_burst {
	uint64_t bytes, began_ns, ended_ns; /* bytes 0: none */
	uint64_t idle_ns;                   /* of that time, while nothing could move */
};

struct linkspeed {                                     /* all zero: nothing is known */
	struct linkspeed_burst last[LINKSPEED_BURSTS]; /* the newest first */
};

/* An object has arrived.  Objects come in the order in which they end. */
void linkspeed_add(struct linkspeed *l, const struct linkspeed_burst *object);
double linkspeed_bits(const struct linkspeed *l); /* per second; 0: not known */

#endif
