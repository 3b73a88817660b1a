/* Whether a merged update is what its contributions come to, from the contributions as they were
 * received.  Any thread. */
#ifndef COORDINATOR_AUDIT_H
#define COORDINATOR_AUDIT_H
#include "base/err.h"
#include "round/blob.h"
#include "round/exchange.h"
#include "round/update.h"

struct audit {
	struct blob_store *blobs; /* borrowed */
	const struct exchange *exchange;
	const struct update_expect *expect; /* what the update was verified with */
};

/* ERR_missing names a contribution that is gone, ERR_hash one that is not what was listed, or that
 * something else comes out; else what is wrong with a contribution; ERR_nomem. */
enum err audit_merged(
	const struct audit *a, const struct update *merged, struct why *why) MUST_CHECK;

#endif
