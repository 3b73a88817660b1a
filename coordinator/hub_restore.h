/* The round machine as it was when the process before this one ended.  The control loop's thread.
 */
#ifndef COORDINATOR_HUB_RESTORE_H
#define COORDINATOR_HUB_RESTORE_H
#include "coordinator/hub.h"

/* Before the desk and the link are there: makes h->rounds from the store. */
enum err hub_restore(struct hub *h, uint64_t now, struct why *why) MUST_CHECK;

#endif
