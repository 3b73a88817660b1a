/* Receipts: contributions that an aggregator has taken, by what their owners signed.  The control
 * loop's thread. */
#ifndef COORDINATOR_HUB_RECEIPT_H
#define COORDINATOR_HUB_RECEIPT_H
#include "coordinator/hub.h"

/* A receipt of this member: it counts as the contribution itself does, or is refused and counted
 * for whoever is to blame. */
void hub_receipt(struct hub *h, uint32_t number, const struct link_event *e, uint64_t now);

#endif
