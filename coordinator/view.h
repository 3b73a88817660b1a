/* What the API shows, as JSON.  Documents are the caller's.  The control loop's thread. */
#ifndef COORDINATOR_VIEW_H
#define COORDINATOR_VIEW_H
#include "base/json.h"
#include "coordinator/hub.h"

json_t *view_overview(const struct hub *h, uint64_t now);
/* last_refusal: the newest of this member, or NULL. */
json_t *view_peer(const struct hub *h, uint32_t number, const struct store_refusal *last_refusal,
	uint64_t now);
/* {"peers": [...], "next": number or null}: those from a number on, so many at most. */
struct view_page {
	uint32_t from, limit;
};
enum err view_peers(struct hub *h, const struct view_page *page, uint64_t now, json_t **out,
	struct why *why) MUST_CHECK;
json_t *view_round(const struct store_round *r);
json_t *view_loss(const struct store_loss *l);
json_t *view_refusal(const struct store_refusal *r);
/* {"unigram", "bigram", "trigram"} in nats per byte. */
json_t *view_yardsticks(const struct hub *h);

#endif
