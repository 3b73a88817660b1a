/* What a coordinator gives on a want: entries of the ledger, so that every peer can keep them all,
 * and the last records to who is a few rounds behind.  Blobs are to be had by HTTPS. */
#ifndef COORDINATOR_HUB_WANT_H
#define COORDINATOR_HUB_WANT_H
#include "coordinator/hub.h"

void hub_want(struct hub *h, uint32_t number, const shoal_want *want, uint64_t now);

#endif
