/*
 * The share of the time that training may compute: how long to sleep after each spell of work, so
 * that busy / (busy + idle) comes to the share; or how long a spell takes at least, as on a slower
 * device.  Pure: times come in, a duration goes out.
 */
#ifndef PEER_THROTTLE_H
#define PEER_THROTTLE_H
#include <stdbool.h>
#include <stdint.h>

#define THROTTLE_SHARE_LEAST 0.01

struct throttle {
	double share;
	uint64_t least_ns;
	bool begun;
	uint64_t last_ns;  /* when the last spell had ended */
	uint64_t usual_ns; /* the last spell, as far as it is believed */
	int64_t owed_ns;   /* sleep; negative: slept more than was owed */
};

/* share: from THROTTLE_SHARE_LEAST to 1, which never waits.  least_ns: of a spell and the sleep
 * after it, from which nothing is carried to the next. */
void throttle_init(struct throttle *p, double share, uint64_t least_ns);

/*
 * A spell of busy_ns has ended now: so long to sleep.  What passed between the calls and was not
 * busy is taken off what is owed, whatever it was spent on, so that a wait for the network counts
 * and a sleep that ends late is made up for.  Not more than a second of either debt or credit is
 * carried from one spell to the next: the window over which the share is kept.
 *
 * A spell far longer than the one before (twice, and a second) is taken for one in which the
 * process was suspended, and owes what the one before did; if such spells go on, they are believed.
 */
uint64_t throttle_wait(struct throttle *p, uint64_t now_ns, uint64_t busy_ns);

#endif
