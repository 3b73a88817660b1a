/* Contributions on their way in: asked about at the desk, then stored.  The control loop's thread.
 */
#ifndef COORDINATOR_HUB_GATE_H
#define COORDINATOR_HUB_GATE_H
#include "coordinator/hub.h"
#include "round/contribution.h"
#include "round/gate.h"

/* An object of a member came in: it goes to the desk, or is refused at once. */
void hub_gate_object(struct hub *h, uint32_t number, struct link_event *e);
/* The desk has looked at it. */
void hub_gate_done(struct hub *h, struct desk_job *j, uint64_t now);

/* ---- the same for a contribution that is told of by a receipt */

/* Whether there is such a shard, it is its turn, and its owner has a part in the open round. */
enum err hub_gate_place(struct hub *h, const struct contribution *says, struct why *why) MUST_CHECK;
/* What a contribution of the member that it names must be now; spans are for assigned, which the
 * caller sets. */
struct gate_expect hub_gate_expect(
	struct hub *h, const struct contribution_view *v, struct span spans[static SPAN_MAX]);
/* It has passed: into the store and the round; or, where it is known already, only where its bytes
 * are has changed. */
enum err hub_gate_keep(struct hub *h, const struct store_contribution *row, uint64_t now,
	struct why *why) MUST_CHECK;

#endif
