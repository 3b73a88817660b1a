/*
 * Who we are: the key files of a coordinator (run key, CURVE key, TLS key and certificate) and of a
 * peer (Ed25519 and CURVE).  Files of mode 0600 in a folder of mode 0700, made atomically, never
 * overwritten; one that others can read, is cut short or is something else is refused with the
 * cure.  One process at a time per folder (its lock is the caller's).
 */
#ifndef NET_IDENTITY_H
#define NET_IDENTITY_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "net/sign.h"
#include "net/tls.h"

#define IDENTITY_CURVE 32

struct identity_curve {
	uint8_t public_key[IDENTITY_CURVE], secret_key[IDENTITY_CURVE];
};
/* libzmq's pair, as bytes. */
void identity_curve_make(struct identity_curve *out);

struct identity_coordinator {
	struct sign_key *run;
	struct identity_curve curve;
	struct tls_pair *tls;
};
/* Whether the folder holds a run key. */
bool identity_coordinator_exists(const char *dir);
/* New keys in dir (made when missing).  run: a run key from a backup (borrowed), or NULL for a new
 * one.  ERR_exists when there is a run key already; keys that are missing beside it are made by
 * identity_coordinator_open. */
enum err identity_coordinator_make(
	const char *dir, const struct sign_key *run, struct why *why) MUST_CHECK;
/* ERR_missing without a run key.  A missing CURVE or TLS key is made anew: the statement tells the
 * peers. */
enum err identity_coordinator_open(
	const char *dir, struct identity_coordinator *out, struct why *why) MUST_CHECK;
void identity_coordinator_release(struct identity_coordinator *c); /* NULL-safe; wipes */

struct identity_peer {
	struct sign_key *sign;
	struct identity_curve curve;
	/* Starts of this folder x 2^32 + 32 random bits: a second process with copied keys has
	 * another one (hello.instance of messages.proto). */
	uint64_t instance;
};
/* Makes folder and keys when they are missing, and counts a start. */
enum err identity_peer_open(const char *dir, struct identity_peer *out, struct why *why) MUST_CHECK;
void identity_peer_release(struct identity_peer *p); /* NULL-safe; wipes */

#endif
