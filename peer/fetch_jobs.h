/* What the fetch thread (fetch.c) does, one blocking call a job; nobody else includes it. */
#ifndef PEER_FETCH_JOBS_H
#define PEER_FETCH_JOBS_H
#include <stdatomic.h>
#include "peer/fetch.h"

struct fetch_jobs;

/* stop breaks off what is under way, with ERR_interrupted; borrowed. */
enum err fetch_jobs_new(const struct fetch_config *config, const atomic_bool *stop,
	struct fetch_jobs **out, struct why *why) MUST_CHECK;
void fetch_jobs_free(struct fetch_jobs *j); /* NULL-safe */

/* Learns by the run key's statement whom to trust.  The join does it; again when the coordinator's
 * connection shows another key than it had. */
enum err fetch_jobs_contact(struct fetch_jobs *j, struct why *why) MUST_CHECK;

/* Each fills in what its kind of result has.  Progress is mailed on the way. */
enum err fetch_jobs_join(struct fetch_jobs *j, struct fetch_result *r, struct why *why) MUST_CHECK;
enum err fetch_jobs_data(struct fetch_jobs *j, struct why *why) MUST_CHECK;
enum err fetch_ledger_snapshot(
	struct fetch_jobs *j, struct fetch_result *r, struct why *why) MUST_CHECK;
enum err fetch_ledger_records(struct fetch_jobs *j, uint64_t sequence, struct fetch_result *r,
	struct why *why) MUST_CHECK;
void fetch_ledger_forget(struct fetch_jobs *j);

/* fetch.c's: an empty result, to be mailed. */
struct fetch_result *fetch_result_new(enum fetch_result_kind kind, enum fetch_job job);

#endif
