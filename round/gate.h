/*
 * What a received contribution must be to count.  Everything the receiver can know is in struct
 * gate_expect; the check is a pure function of it and of the bytes.  Whoever is refused gets the
 * code and the sentence.
 */
#ifndef ROUND_GATE_H
#define ROUND_GATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "compress/codec.h"
#include "net/sign.h"
#include "round/contribution.h"

struct gate_expect {
	struct hash run, parent;
	uint64_t round;
	uint32_t shard, part;
	size_t n; /* values of that part */
	struct codec_params codec;
	uint32_t peer;               /* whose connection it came by */
	uint8_t key[SIGN_PUBLIC];    /* that peer's, from the roster */
	const struct span *assigned; /* what it was given, in order; borrowed */
	uint32_t n_assigned;         /* 0: it has no part in this round */
	uint64_t sequence_tokens;    /* tokens of one sequence */
	bool have;           /* there is one from this peer for this round and shard already */
	struct hash have_id; /* its contribution_id */
	double norm_limit;   /* of the vector; 0: none */
};

struct gate_passed {
	struct contribution says;
	struct hash id;
	struct codec_vector vector; /* owned by the caller: codec_release */
	double norm;
};

/* Cheap things first, the vector last.  Refusals:
 *   ERR_toobig        longer than any contribution of this shape
 *   ERR_magic, ERR_version, ERR_truncated, ERR_syntax   not a contribution
 *   ERR_wrong_run, ERR_wrong_round, ERR_wrong_parent
 *   ERR_shape         another shard or part, planes of another shape, or places of another draw
 *   ERR_unknown_peer  the statement names another peer than the connection's
 *   ERR_unsupported   another codec than the run's
 *   ERR_signature
 *   ERR_duplicate     the very same was received already: no fault, nothing to do
 *   ERR_exists        another one of the same peer for this round and shard was received already
 *   ERR_tokens        data that was not assigned, or tokens that are not its sequences' tokens
 *   ERR_hash          planes are not the signed ones
 *   ERR_not_finite, ERR_norm
 * ERR_nomem is the receiver's own fault and no refusal. */
enum err gate_check(const struct gate_expect *e, const uint8_t *bytes, size_t len,
	struct gate_passed *out, struct why *why) MUST_CHECK;
/* The same of a statement alone (contribution_parse_statement), as far as it tells: its planes may
 * still be others than were signed, or hold anything.  out has no vector. */
enum err gate_statement(const struct gate_expect *e, const uint8_t *bytes, size_t len,
	struct gate_passed *out, struct why *why) MUST_CHECK;
/* Whether a vector, of somebody else's bundle too, has a norm that training can give: ERR_norm. */
enum err gate_norm(double norm, double limit, struct why *why) MUST_CHECK;

#endif
