/* What `serve` shows while it runs: one line that changes on a terminal, else a line for each round
 * in the log; and at the end the line with the outcome.  The control loop's thread. */
#ifndef COORDINATOR_PROGRESS_LINE_H
#define COORDINATOR_PROGRESS_LINE_H
#include "coordinator/hub.h"

/* Now and then; writes to standard error.  Without a terminal: only a wait that lasts. */
void progress_line_show(const struct hub *h, uint64_t now);
/* Ends the changing line, before something else is printed. */
void progress_line_end(void);
/* A round is closed, a loss is measured: log lines, unless there is a terminal. */
void progress_line_round(const struct hub *h, const struct store_round *r);
void progress_line_loss(const struct hub *h, const struct store_loss *l);
/* "serve: WORD run=… rounds=… …" to standard output. */
void progress_line_outcome(const struct hub *h, const char *word);

#endif
