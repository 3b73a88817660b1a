/*
 * Who takes part: the members of the store as a signed, versioned roster.  A member keeps its
 * number for ever; a removed one too, so that what it signed stays verifiable.  One thread.
 */
#ifndef COORDINATOR_MEMBERS_H
#define COORDINATOR_MEMBERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "coordinator/store.h"
#include "net/roster.h"
#include "net/sign.h"

#define MEMBERS_FIRST 1u /* the first number given out */
#define MEMBERS_NONE UINT32_MAX

struct members;

/* From the store; key signs the roster and is borrowed. */
enum err members_load(struct store *s, const struct hash *run, const struct sign_key *key,
	struct members **out, struct why *why) MUST_CHECK;
void members_free(struct members *m); /* NULL-safe */

/* What somebody who wants to join says of itself, its signature already verified. */
struct members_new {
	uint8_t sign[STORE_KEY], curve[STORE_KEY];
	const char *name, *version;
	uint64_t now_s; /* wall clock */
};
/* Is it a member already?  ERR_OK with its number; ERR_missing: no, and it may become one;
 * ERR_unknown_peer: was removed by the operator; ERR_exists: one of the keys is somebody else's;
 * ERR_full: no numbers left; ERR_syntax: a name that cannot be shown. */
enum err members_find(const struct members *m, const struct members_new *n, uint32_t *number,
	struct why *why) MUST_CHECK;
/* Takes it in (after members_find said ERR_missing), inside the caller's transaction: the caller
 * commits the store, then calls members_renew.  Not done when the transaction fails. */
uint32_t members_add(struct members *m, const struct members_new *n);
/* The same, for a member that is put out.  ERR_missing. */
enum err members_remove(struct members *m, uint32_t number) MUST_CHECK;
/* After the commit of one that was added, in place of members_renew, which lists it in the roster
 * later: it may link already. */
void members_take(struct members *m);
bool members_pending(const struct members *m); /* some are not in the roster yet */
/* After the commit: what the store says is what counts now; the roster's version has grown. */
enum err members_renew(struct members *m, struct why *why) MUST_CHECK;

const struct roster *members_roster(const struct members *m);
const char *members_text(const struct members *m); /* the signed document */
/* Number of a connection's key; MEMBERS_NONE for a stranger or a removed one. */
uint32_t members_by_link(const struct members *m, const uint8_t curve[static STORE_KEY]);
const struct store_member *members_at(const struct members *m, uint32_t number); /* NULL: none */
size_t members_count(const struct members *m); /* those not removed */
uint32_t members_end(const struct members *m); /* numbers are below this */
/* The CURVE keys of those not removed, one after another; caller frees. */
uint8_t *members_links(const struct members *m, size_t *n);

#endif
