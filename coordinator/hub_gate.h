/* Contributions on their way in: asked about at the desk, then stored.  The control loop's thread.
 */
#ifndef COORDINATOR_HUB_GATE_H
#define COORDINATOR_HUB_GATE_H
#include "coordinator/hub.h"

/* An object of a member came in: it goes to the desk, or is refused at once. */
void hub_gate_object(struct hub *h, uint32_t number, struct link_event *e);
/* The desk has looked at it. */
void hub_gate_done(struct hub *h, struct desk_job *j, uint64_t now);

#endif
