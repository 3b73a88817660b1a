/* What the data plane says, and what is said over it.  The control loop's thread. */
#ifndef COORDINATOR_HUB_LINK_H
#define COORDINATOR_HUB_LINK_H
#include "coordinator/hub.h"
#include "round/plan.h"

/* One event of the link; the caller frees it. */
void hub_link_event(struct hub *h, struct link_event *e, uint64_t now);

/* ---- to one linked member: the newest roster; the signed head; that the run has ended */
void hub_link_roster(struct hub *h, uint32_t number);
void hub_link_head(struct hub *h, uint32_t number);
void hub_link_end(struct hub *h, uint32_t number);
/* Its part in the open round, or with no steps the request for the last loss. */
void hub_link_plan(struct hub *h, uint32_t number);
void hub_link_refusal(struct hub *h, uint32_t number, const struct hub_refused *r, enum err code,
	const char *text);
/* What is on the way to it is not sent any more. */
void hub_link_cancel(struct hub *h, uint32_t number);
/* Records of an earlier round are still on their way to it. */
bool hub_link_sending(struct hub *h, uint32_t number);
/* Push the records of a round to it, but for those that other members bring it. */
void hub_link_records(struct hub *h, uint32_t number, const struct desk_close *c);
/* An entry that belongs to the update which it made: it passes it on. */
void hub_link_entry(struct hub *h, uint32_t number, const struct ledger_entry *e);

#endif
