/* What must hold when all is mended again.  Failures end the test (cmocka). */
#ifndef TESTS_CHAOS_VERDICT_H
#define TESTS_CHAOS_VERDICT_H
#include "tests/chaos/actors.h"

/* Every peer is linked and at the head of the ledger again, and the run goes on for some rounds. */
void verdict_recovered(struct actors *a);
/* The run is paused, and when the open round is closed every peer's replica is in the state that
 * the ledger lists. */
void verdict_hashes_agree(struct actors *a);
/* All have ended; stopped is the coordinator's last line.  Everything can be computed again from
 * what its folder holds. */
void verdict_replays(const struct actors *a, const char *stopped);
/* Tokens that were handed out, less those that the ledger lists, that came back, and that members
 * still have: 0, since every sequence number is in one place.  From the coordinator's store. */
int64_t verdict_tokens_balance(const struct actors *a, const char *stopped);
/* No sequence number is listed twice for a shard, and those listed are as many as the tokens say:
 * one that is listed twice while another is lost balances, too. */
void verdict_listed_once(struct actors *a, const char *stopped);

#endif
