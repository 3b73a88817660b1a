/*
 * A run's folder made again from the run key and what the peers keep (peer/shelf.h).  It listens
 * where the coordinator did, so that peers find it by themselves:
 *
 *   1. a peer that wants to join shows the roster that the run key signed; the newest counts
 *   2. who is on it links; each is asked what it keeps and which signed head it reached
 *   3. once all are in, or some time after the first one, the highest of those heads is the run's
 *   4. from a peer that has it: the ledger's entries, a snapshot, the records after it
 *   5. all of it is checked by its hashes, signatures and states, in a folder beside DIR, which
 *      becomes DIR at the end; nothing is signed that a peer has not shown signed
 *
 * A peer that does not answer, or whose answer is not true, is left out for the next one.  What
 * only the lost folder knew stays lost: who had which data in the open round (numbers that somebody
 * had are passed over), measured losses, invites that were revoked or used.
 */
#ifndef COORDINATOR_REBUILD_H
#define COORDINATOR_REBUILD_H
#include <stdint.h>
#include "base/err.h"
#include "model/spec.h"
#include "net/sign.h"
#include "round/ledger.h"

struct rebuild_config {
	const char *dir, *data, *init, *address;
	const struct spec *spec;    /* borrowed, as key */
	const struct sign_key *key; /* the run key */
	uint16_t port, link_port;
	uint64_t wait_ns; /* for more peers, after the first one */
};

struct rebuild_outcome {
	struct ledger_head head;
	struct hash state;
	uint64_t tokens, snapshot_round;
	uint32_t members;
};

/* ERR_exists: DIR holds something.  ERR_timeout: nothing new came for an hour.  ERR_interrupted:
 * what was fetched is kept beside DIR for the next try. */
enum err rebuild_run(const struct rebuild_config *config, struct rebuild_outcome *out,
	struct why *why) MUST_CHECK;

#endif
