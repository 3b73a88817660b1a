/* What is not needed any more: after a round, and after a snapshot.  The control loop's thread. */
#ifndef COORDINATOR_HUB_SWEEP_H
#define COORDINATOR_HUB_SWEEP_H
#include "coordinator/hub.h"

/* The shards' files before a committed round, and its contributions, but for those that an update
 * was merged from: whoever wants to merge them again finds them as long as the record is there. */
void hub_sweep_round(struct hub *h, const struct desk_close *c);
/* Snapshots before the second newest, and the records (with what they were merged from) before
 * that. */
enum err hub_sweep_records(struct hub *h, struct why *why) MUST_CHECK;

#endif
