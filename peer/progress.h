/* One line of progress with an ETA: rewritten in place on a terminal, else a line now and then. */
#ifndef PEER_PROGRESS_H
#define PEER_PROGRESS_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

struct progress {
	uint64_t start_ns, shown_ns; /* monotonic */
	double start_share;          /* what was done before this process began */
	bool tty, open;
};

void progress_init(struct progress *p, double share_done);
/* Show fmt's text, the share done (0 to 1), and how long the rest will take; at most 10 times a
 * second on a terminal, else every 5 seconds; always when force.  Goes to standard error. */
void progress_show(struct progress *p, double share, bool force, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* Ends the line, so that other output starts on its own. */
void progress_end(struct progress *p);

#endif
