/* One line of progress with an ETA: rewritten in place on a terminal, else a line now and then. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

struct progress {
	uint64_t start_ns, shown_ns; /* monotonic */
	double start_share;          /* what was done before start_ns */
	bool tty, open;
};

/* p was zeroed before the first time; later ones start the ETA anew. */
void progress_init(struct progress *p, double share_done);
/* Show fmt's text, the share done (0 to 1), and, once something was gained, how long the rest will
 * take; at most 10 times a second on a terminal, else every 5 seconds; always when force.  A
 * terminal's line is cut to its width.  Goes to standard error. */
void progress_show(struct progress *p, double share, bool force, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* Takes the line away, so that other output does not run into it; the next show brings it back. */
void progress_clear(struct progress *p);
/* Ends the line: it stays. */
void progress_end(struct progress *p);

#endif
