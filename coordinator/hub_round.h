/* Rounds as they are carried out: actions of the machine, contributions, outcomes of the desk.  The
 * control loop's thread. */
#ifndef COORDINATOR_HUB_ROUND_H
#define COORDINATOR_HUB_ROUND_H
#include "coordinator/hub.h"

/* Everything that the closing round is made of is here (hub_gather.h): apply it. */
void hub_round_apply(struct hub *h);
void hub_round_act(struct hub *h, const struct rounds_action *a, uint64_t now);
/* A snapshot of the state at the head, as blob and row, some time later. */
void hub_round_snapshot(struct hub *h);
/* A job of the desk is done; the caller frees it. */
void hub_round_done(struct hub *h, struct desk_job *j, uint64_t now);
/* The member that was asked has measured the loss. */
void hub_round_loss(struct hub *h, uint32_t number, const shoal_validation *v, uint64_t now);

#endif
