/* What a bed really gives: packets and streams sent between two of its nodes, by one process that
 * holds sockets at both. */
#ifndef TESTS_WAN_GAUGE_H
#define TESTS_WAN_GAUGE_H
#include "tests/wan/bed.h"

struct gauge {
	double rtt_ms; /* median of single packets on a quiet line */
	double least_rtt_ms;
	double up, down; /* Mbit/s of a TCP stream's content, from and to the first node */
	double loss;     /* of packets one way, mean of both ways */
};

/* About three seconds of packets, then a stream each way, longer where the way is long. */
enum err gauge_pair(const struct bed *t, const char *prefix, size_t from, size_t to,
	struct gauge *out, struct why *why) MUST_CHECK;
/* Is it what was promised?  What one stream of TCP cannot reach, because packets are lost or
 * because this machine carries no more, is not held against the bed; more than was promised always
 * is.  false: what is the first figure that is not. */
bool gauge_holds(const struct bed_path *asked, const struct gauge *got, const char **what);

#endif
