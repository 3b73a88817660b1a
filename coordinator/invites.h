/*
 * Invites and join links: made with the run key, remembered in the store, which also works while
 * another process serves the run.
 */
#ifndef COORDINATOR_INVITES_H
#define COORDINATOR_INVITES_H
#include <stdint.h>
#include "base/err.h"
#include "coordinator/store.h"
#include "net/joinlink.h"
#include "net/sign.h"

/* Where they are remembered, and what signs them; borrowed. */
struct invites {
	struct store *store;
	const struct hash *run;
	const struct sign_key *key; /* the run key */
};

struct invites_wish {
	uint32_t uses;      /* 0: any number */
	uint64_t expires_s; /* wall clock; 0: never */
	const char *host;   /* as volunteers reach it */
	uint16_t port;
};

/* A new invite, stored (in a transaction of its own), as a link. */
enum err invites_make(const struct invites *in, const struct invites_wish *wish,
	char link[static JOINLINK_MAX], struct why *why) MUST_CHECK;
/* May this key join with it?  ERR_invite with the reason: revoked, used up, unknown here; ERR_* of
 * invite_open.  id receives the invite's name, for store_invite_use. */
enum err invites_check(const struct invites *in, const char *text,
	const uint8_t joiner[static SIGN_PUBLIC], char id[static INVITE_ID],
	struct why *why) MUST_CHECK;

#endif
