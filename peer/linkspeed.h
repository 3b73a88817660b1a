/*
 * How fast a link is one way, from what went over it anyway.  Objects that overlap in time are one
 * burst: its bytes, and the time from the first byte to the last answer less the round trips in
 * which nothing moves.  The better of the last two bursts counts: a busy disk or a pause at the
 * other side makes one burst look slower than the link, and a link that has become slow is known
 * after two.
 *
 * A small burst, most of whose time is round trips, says only what the link does at least.  Taken
 * for its speed, contributions that shrank once would stay small for ever, so each such burst
 * doubles what is believed, until one is large enough to be measured (as TCP's slow start finds a
 * window).  Pure.
 */
#ifndef PEER_LINKSPEED_H
#define PEER_LINKSPEED_H
#include <stdint.h>

#define LINKSPEED_HOPE 32.0 /* times what a small burst shows: no more is believed of it */

struct linkspeed_burst {
	uint64_t bytes, began_ns, ended_ns; /* bytes 0: none */
	uint64_t idle_ns;                   /* of that time, while nothing could move */
};

struct linkspeed {                   /* all zero: nothing is known */
	struct linkspeed_burst last; /* the newest burst */
	double before;               /* bits per second by the one before it; 0: none */
};

/* An object has arrived.  Objects come in the order in which they end. */
void linkspeed_add(struct linkspeed *l, const struct linkspeed_burst *object);
double linkspeed_bits(const struct linkspeed *l); /* per second; 0: not known */

#endif
