/*
 * The update of one (round, shard, part): what its contributions come to.  It is either a bundle,
 * the accepted contributions verbatim, in order of peer number, so that every receiver verifies
 * every signature and computes the outcome itself; or merged, the D of rule.h as one vector, with a
 * list of the contributions that it was made of, for whoever wants to make it again.
 *
 *   8 bytes "SHOALUPD", u16 version, u16 kind (ledger.h), u32 count, run (32), parent (32),
 *   u64 round, u32 shard, u32 part, then
 *   bundle: count times u64 length, a contribution
 *   merged: count times u32 peer, u64 tokens, hash of the planes (32), hash of the contribution as
 *           it was received (32); u64 length, the zstd frame of the vector's planes
 *
 * Its hash (ledger_update_hash) is over (peer, tokens, hash of planes) of each and the hash of the
 * merged planes, not over signatures or zstd's bytes: a fixed-step run that is repeated with other
 * keys has the same ledger.  Pure functions, any thread.
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

#define UPDATE_VERSION 2
#define UPDATE_HEAD 96u /* bytes before the contributions or their list */

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

/* An update taken apart; borrows its bytes.  Made by update_open, ended by update_release. */
struct update {
	struct update_head head;
	enum update_kind kind;
	uint32_t count;
	struct ledger_accepted *accepted; /* count of them, ascending by peer */
	struct contribution_view *views;  /* bundle: count of them; else NULL */
	/* merged: */
	struct hash *inputs; /* of each contribution as it was received; else NULL */
	const uint8_t *frame;
	size_t frame_len;
	/* Set by update_verify: */
	struct codec_vector *vectors; /* of each contribution, or the merged one; else NULL */
	struct hash merged;           /* of the merged one's planes */
};

/* Form: header, order of peers, every contribution's own header repeats the bundle's, nothing
 * after. */
enum err update_open(
	const uint8_t *bytes, size_t len, struct update *out, struct why *why) MUST_CHECK;
void update_release(struct update *u); /* NULL-safe, idempotent */

struct update_expect {
	struct hash run, parent; /* parent: ledger_parent before the entry is appended */
	struct codec_params codec;
	uint32_t merged; /* values of merged updates, by number; 0: there may be none */
	size_t n;        /* values of the part */
	/* The signing key of a peer number; false: not on the roster. */
	bool (*key)(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC]);
	void *arg;
};

/* Truth: run and parent (ERR_wrong_run, ERR_wrong_parent); of a bundle every signature and every
 * planes hash; opens the vectors.  ERR_unknown_peer, ERR_signature, ERR_hash, ERR_unsupported
 * (codec, or merged where that may not be), and what contribution_decode and codec_open say.  That
 * a merged vector is what its contributions come to is the word of who signed the ledger, until
 * somebody merges them again. */
enum err update_verify(
	struct update *u, const struct update_expect *expect, struct why *why) MUST_CHECK;
/* Whether a verified update is the one that the entry lists: round, shard, part, kind, every (peer,
 * tokens, planes), the merged planes and the hash.  ERR_hash with the difference. */
enum err update_matches(
	const struct update *u, const struct ledger_entry *e, struct why *why) MUST_CHECK;
/* What the entry of a verified update says of it: kind, list (owned by e), merged planes and
 * hash. ERR_nomem. */
enum err update_list(const struct update *u, struct ledger_entry *e) MUST_CHECK;

/* What a verified update makes of a state, in place; as rule_apply. */
enum err update_apply(const struct update *u, const struct rule_params *p, struct rule_state *state,
	struct why *why) MUST_CHECK;

/* Appends the merged form of a verified bundle to out, with these values; nothing where that has
 * not fewer bytes of planes, or there are less than two contributions.  Bytes of frames do not
 * count, since they depend on zstd's version.  ERR_nomem, ERR_toobig, errors of merge_encode. */
enum err update_merge(const struct update *bundle, const struct rule_params *p, uint32_t values,
	struct buf *out, struct why *why) MUST_CHECK;
/* Bytes that it appends at most. */
size_t update_merge_bound(
	const struct codec_params *codec, uint32_t values, size_t n, uint32_t count);

#endif
