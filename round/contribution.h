/*
 * A contribution: one peer's compressed vector for one shard and round, with the statement it
 * signs.
 *
 *   8 bytes "SHOALCON", u16 version, u16 number of spans, u32 peer, run (32), parent (32),
 *   u64 round, u32 shard, u32 part, u64 tokens, u32 codec, u32 zero, u64 length of the planes,
 *   hash of the planes (32), per span u64 first, u64 last
 *   signature of all before (64, Ed25519, domain "shoal contribution 1")
 *   the zstd frame of the planes, to the end
 *
 * Little-endian.  The frame is not signed, the planes in it are, so a contribution may be framed
 * anew.  With the parent head in the statement, a rollback leaves no signature that could be used
 * again.  Pure functions, any thread; decoding takes bytes from anybody.
 */
#ifndef ROUND_CONTRIBUTION_H
#define ROUND_CONTRIBUTION_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "compress/codec.h"
#include "net/sign.h"
#include "round/span.h"

#define CONTRIBUTION_VERSION 1
#define CONTRIBUTION_HEAD_MAX (152u + 16u * SPAN_MAX + SIGN_BYTES) /* what precedes the frame */

/* What is signed. */
struct contribution {
	struct hash run, parent; /* parent: the ledger head that the round started from */
	uint64_t round;
	uint32_t shard, part, peer;
	uint64_t tokens;
	uint32_t codec; /* codec_number */
	uint64_t planes_len;
	struct hash planes;
	uint32_t n_spans;
	struct span spans[SPAN_MAX]; /* the data: every one of these sequences, once */
};

/* A contribution's bytes taken apart; borrows them. */
struct contribution_view {
	struct contribution says;
	const uint8_t *bytes; /* the whole */
	size_t len;
	size_t signed_len; /* how many of them are signed */
	const uint8_t *signature;
	const uint8_t *frame;
	size_t frame_len;
};

/* Sets codec, planes and planes_len of *c from planes, signs, frames, and appends to out.
 * ERR_nomem, ERR_toobig (out's maximum). */
enum err contribution_seal(struct contribution *c, const struct codec_params *codec,
	const struct planes *planes, const struct sign_key *key, struct buf *out) MUST_CHECK;

/* Form only: magic, version, number of spans, that they hold something and overlap nowhere, no
 * padding.  Says nothing about truth. */
enum err contribution_parse(const uint8_t *bytes, size_t len, struct contribution_view *out,
	struct why *why) MUST_CHECK;
/* The same of its statement alone: the signed bytes and the signature, nothing after; out has no
 * frame. */
enum err contribution_parse_statement(const uint8_t *bytes, size_t len,
	struct contribution_view *out, struct why *why) MUST_CHECK;
/* ERR_signature. */
enum err contribution_verify(const struct contribution_view *v,
	const uint8_t key[static SIGN_PUBLIC], struct why *why) MUST_CHECK;
/* ERR_unsupported: it uses another codec than this. */
enum err contribution_codec(
	const struct contribution *c, const struct codec_params *codec, struct why *why) MUST_CHECK;
/* The vector: n values under these parameters, or with a smaller k.  ERR_hash when the planes are
 * not the signed ones, ERR_shape too when their seed is not contribution_seed, else as frame_unpack
 * and codec_open.  codec_release it. */
enum err contribution_decode(const struct contribution_view *v, const struct codec_params *codec,
	size_t n, struct codec_vector *out, struct why *why) MUST_CHECK;
/* What a codec's places are drawn from, where it draws them: the same for all peers, and nobody's
 * choice.  The first 8 bytes, little-endian, of SHA-256 over "shoal randk", run, u64 round, u32
 * shard. */
uint64_t contribution_seed(const struct hash *run, uint64_t round, uint32_t shard);
/* SHA-256 of the signed bytes: two framings of one statement have one id. */
struct hash contribution_id(const struct contribution_view *v);

/* Bytes of a contribution at most, for transfers and for memory. */
size_t contribution_bound(const struct codec_params *codec, size_t n);

#endif
