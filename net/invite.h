/*
 * Invites: whoever holds one may put one key on the roster.  Signed by the run key, so that the
 * coordinator needs to store nothing to know its own; how often one was used, by which key, and
 * whether it was revoked is its store's.  About 120 characters of base64url.
 */
#ifndef NET_INVITE_H
#define NET_INVITE_H
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "net/sign.h"

#define INVITE_ID 17        /* bytes of an id with its NUL: 16 hex digits */
#define INVITE_TEXT 120     /* bytes of an invite with its NUL */
#define INVITE_SLACK_S 300u /* a clock may be that far off */

struct invite {
	char id[INVITE_ID];
	uint64_t expires_s; /* wall clock; 0: never */
	uint32_t uses;      /* keys that may use it; 0: any number */
};

/* A new one with an id of its own, by chance. */
void invite_make(uint64_t expires_s, uint32_t uses, struct invite *out);
/* Signed by the run key. */
void invite_text(const struct invite *i, const struct hash *run, const struct sign_key *run_key,
	char out[static INVITE_TEXT]);
/* Whether text has the form of an invite; ERR_syntax says what is wrong (cut off, strange
 * characters).  No key is needed, so a peer can tell before it asks. */
enum err invite_form(const char *text, struct why *why) MUST_CHECK;
/* ERR_syntax, ERR_wrong_run, ERR_signature, ERR_invite (expired). */
enum err invite_open(const char *text, const struct hash *run, const struct sign_public *run_key,
	uint64_t now_s, struct invite *out, struct why *why) MUST_CHECK;

#endif
