/*
 * The update of one (round, shard, part) as a bundle: the accepted contributions verbatim, in order
 * of peer number, so that every receiver verifies every signature and computes the outcome itself.
 *
 *   8 bytes "SHOALUPD", u16 version, u16 zero, u32 count, run (32), parent (32), u64 round,
 *   u32 shard, u32 part, then count times: u64 length, a contribution
 *
 * Its hash (ledger_update_hash) is over (peer, tokens, hash of planes) of each, not over signatures
 * or zstd's bytes: a fixed-step run that is repeated with other keys has the same ledger.  Pure
 * functions, any thread.
 */
#ifndef ROUND_UPDATE_H
#define ROUND_UPDATE_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "compress/codec.h"
#include "round/contribution.h"
#include "round/ledger.h"
#include "round/rule.h"

#define UPDATE_VERSION 1
#define UPDATE_HEAD 96u /* bytes before the contributions */

struct update_head {
	struct hash run, parent;
	uint64_t round;
	uint32_t shard, part;
};

/* A contribution as it was received. */
struct update_part {
	const uint8_t *bytes;
	size_t len;
};

/* Appends the bundle.  parts are well-formed contributions of this head in ascending order of peer
 * number (checked: ERR_syntax), none is allowed.  ERR_nomem, ERR_toobig. */
enum err update_encode(const struct update_head *head, const struct update_part *parts,
	uint32_t count, struct buf *out, struct why *why) MUST_CHECK;

/* A bundle taken apart; borrows its bytes.  Made by update_open, ended by update_release. */
struct update {
	struct update_head head;
	uint32_t count;
	struct contribution_view *views; /* ascending by peer */
	struct codec_vector *vectors;    /* set by update_verify, else NULL */
};

/* Form: header, order of peers, every contribution's own header repeats the bundle's, nothing
 * after. */
enum err update_open(
	const uint8_t *bytes, size_t len, struct update *out, struct why *why) MUST_CHECK;
void update_release(struct update *u); /* NULL-safe, idempotent */

struct update_expect {
	struct hash run, parent; /* parent: ledger_parent before the entry is appended */
	struct codec_params codec;
	size_t n; /* values of the part */
	/* The signing key of a peer number; false: not on the roster. */
	bool (*key)(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC]);
	void *arg;
};

/* Truth: run and parent (ERR_wrong_run, ERR_wrong_parent), every signature, every planes hash;
 * opens the vectors.  ERR_unknown_peer, ERR_signature, ERR_hash, ERR_unsupported (codec), and
 * what contribution_decode says. */
enum err update_verify(
	struct update *u, const struct update_expect *expect, struct why *why) MUST_CHECK;
/* Whether it is the update that the entry lists: round, shard, part, every (peer, tokens, planes)
 * and the hash.  ERR_hash with the difference. */
enum err update_matches(
	const struct update *u, const struct ledger_entry *e, struct why *why) MUST_CHECK;
/* The accepted list for an entry: u->count items, caller frees. */
enum err update_accepted(const struct update *u, struct ledger_accepted **out) MUST_CHECK;
/* Inputs for a rule, borrowing the vectors of a verified update; caller frees. */
enum err update_inputs(const struct update *u, struct rule_input **out) MUST_CHECK;

#endif
