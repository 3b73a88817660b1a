/* What anybody may look at. */
#ifndef COORDINATOR_API_VIEW_H
#define COORDINATOR_API_VIEW_H
#include "net/https_server.h"

void api_view_overview(void *hub, struct https_request *r);
void api_view_peers(void *hub, struct https_request *r);
void api_view_rounds(void *hub, struct https_request *r);
void api_view_ledger(void *hub, struct https_request *r);
/* The records after `from` one after the other, as they are, up to `limit` of them and a MiB; their
 * sizes are in the list. */
void api_view_records(void *hub, struct https_request *r);
void api_view_topology(void *hub, struct https_request *r);
void api_view_refusals(void *hub, struct https_request *r);
void api_view_loss(void *hub, struct https_request *r);
void api_view_loss_csv(void *hub, struct https_request *r);
void api_view_metrics(void *hub, struct https_request *r);
void api_view_health(void *hub, struct https_request *r);

#endif
