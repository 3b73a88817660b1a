/* A coordinator in this process, with members that exist as keys and events only: the tests say
 * what the links would say.  One thread (beside the hub's own). */
#ifndef TESTS_HELP_COORDINATOR_H
#define TESTS_HELP_COORDINATOR_H
#include <stddef.h>
#include <stdint.h>
#include "coordinator/hub.h"
#include "model/spec.h"
#include "net/link.h"
#include "net/sign.h"

#define HELP_COORDINATOR_MEMBERS 3u

/* For cmocka: make a scratch folder before the test, and remove it with all that it holds after. */
int help_coordinator_setup(void **state);
int help_coordinator_teardown(void **state);
const char *help_coordinator_path(const char *name); /* in it; valid until the teardown */

/* The refusal has this code, and its sentence this part. */
void help_coordinator_told(const struct why *why, enum err code, const char *part);

/* Prepared data in the scratch folder and the spec of a tiny run on it: fixed-step rounds of three
 * members with 32 tokens each, two shards, ten rounds. */
struct spec *help_coordinator_spec(void);

/* The same with other rounds: members of section "round". */
struct spec *help_coordinator_spec_of(const char *rounds);
/* And members of section "outer", each with a comma behind it. */
struct spec *help_coordinator_spec_with(const char *rounds, const char *outer);

/* Keys of member i (from 0), the same in every process. */
const struct sign_key *help_coordinator_key(uint32_t i);
const uint8_t *help_coordinator_link(uint32_t i); /* its CURVE public key */

/* A hub on the folder "run" of the scratch folder, ports of the system's choice; members are taken
 * in at its first start. */
void help_coordinator_open(struct hub *h, const struct spec *spec);
/* The hub has failed or waits for something that does not come: the test fails after 30 s. */
void help_coordinator_until(struct hub *h, bool (*done)(const struct hub *h));

/* ---- events of a member's link */
void help_coordinator_hello(struct hub *h, uint32_t i); /* at the head of the ledger */
void help_coordinator_hello_at(struct hub *h, uint32_t i, const char *address);
void help_coordinator_lost(struct hub *h, uint32_t i);
void help_coordinator_report(struct hub *h, uint32_t i); /* it has applied the newest head */
void help_coordinator_message(struct hub *h, uint32_t i, const shoal_header *header);
/* Its contribution to a shard of the open round: the same bytes whenever it is asked for. */
void help_coordinator_contribute(struct hub *h, uint32_t i, uint32_t shard);
/* Any bytes as such an object. */
void help_coordinator_object(struct hub *h, uint32_t i, const void *bytes, size_t n);
/* The same contribution as bytes, in a buffer that the caller releases. */
void help_coordinator_seal(struct hub *h, uint32_t i, uint32_t shard, struct buf *out);

/* All members say hello, if they have not, and play until the ledger stands at this round. */
void help_coordinator_play(struct hub *h, uint64_t round);

/* Every sequence number that was ever drawn is in exactly one place, for each shard. */
void help_coordinator_balances(const struct hub *h);

#endif
