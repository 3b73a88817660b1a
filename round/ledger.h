/*
 * The ledger: one hash chain of what was applied.  An entry closes one shard of one round; the
 * rounds of a shard follow each other without a gap, a round that nobody contributed to has an
 * entry with an empty list.  The chain starts from genesis, a hash over the run and the initial
 * state of every shard, as sequence number 0.  Nothing takes effect that is not listed in a head
 * signed by the run key (who signs and who checks that is above this module).
 *
 * An entry's bytes: u32 length of all of it, u16 version, u16 kind of its update, u64 sequence,
 * u64 round, u32 shard, u32 part, update hash (32), state hash (32), previous (32), u32 count, then
 * count times u32 peer, u64 tokens, planes hash (32), ascending by peer; of a merged update then
 * the hash of its own planes (32).  Its hash is SHA-256 of these.
 */
#ifndef ROUND_LEDGER_H
#define ROUND_LEDGER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"

#define LEDGER_VERSION 1
#define LEDGER_ACCEPTED_MAX 16384u
#define LEDGER_ENTRY_MAX (164u + 44u * LEDGER_ACCEPTED_MAX) /* bytes */
#define LEDGER_TOKENS_MAX (1ull << 53)                      /* of one entry: RULE_TOKENS_MAX */

/* Numbers are on the wire: append only. */
enum update_kind {
	UPDATE_bundle, /* the contributions verbatim */
	UPDATE_merged  /* one vector, what the rule made of them */
};

struct ledger_accepted {
	uint32_t peer;
	uint64_t tokens;
	struct hash planes;
};

struct ledger_entry {
	uint64_t sequence, round;
	uint32_t shard, part;
	enum update_kind kind;
	struct hash update, state, previous;
	struct hash merged; /* of a merged update's planes; zero otherwise */
	uint32_t count;
	struct ledger_accepted *accepted; /* owned */
};

/* Where a chain stands: after genesis {0, 0, genesis}. */
struct ledger_head {
	uint64_t sequence, round;
	struct hash hash;
};

/* ---- entries */
void ledger_entry_release(struct ledger_entry *e); /* NULL-safe, idempotent */
/* Appends; ERR_nomem or ERR_toobig. */
enum err ledger_entry_encode(const struct ledger_entry *e, struct buf *out) MUST_CHECK;
/* Takes one entry from a stream of them; *used is its length.  ERR_truncated when the rest of it
 * has not come yet, ERR_version, ERR_unsupported (another kind of update), ERR_syntax,
 * ERR_toobig. */
enum err ledger_entry_decode(const uint8_t *bytes, size_t len, size_t *used,
	struct ledger_entry *out, struct why *why) MUST_CHECK;
enum err ledger_entry_hash(const struct ledger_entry *e, struct hash *out) MUST_CHECK;

/* What the update field of an entry is: SHA-256 over u32 count, then per item u32 peer, u64 tokens,
 * planes hash; then, of a merged update, the hash of its planes. */
struct hash ledger_update_hash(const struct ledger_entry *e);

/* ---- heads as the body of a signed document of type "head":
 * {"run": hex, "sequence": …, "round": …, "hash": hex} */
json_t *ledger_head_json(const struct ledger_head *h, const struct hash *run); /* caller decrefs */
/* ERR_wrong_run, ERR_syntax. */
enum err ledger_head_parse(const json_t *body, const struct hash *run, struct ledger_head *out,
	struct why *why) MUST_CHECK;

/* ---- the chain.  Holds a hash per entry and the accounts, not the entries. */
struct ledger;

struct hash ledger_genesis(const struct hash *run, const struct hash *states, uint32_t n_shards);
/* From genesis: states are those of round 0. */
struct ledger *ledger_new(const struct hash *run, const struct hash *states, uint32_t n_shards);
/* From a snapshot: every shard stands at head->round; what was before is not known, so accounts
 * start at 0. */
struct ledger *ledger_new_at(
	const struct ledger_head *head, const struct hash *states, uint32_t n_shards);
void ledger_free(struct ledger *l); /* NULL-safe */

struct ledger_head ledger_at(const struct ledger *l);
/* The head that the open round starts from, which its contributions sign as parent; between rounds
 * that is the head itself. */
struct hash ledger_parent(const struct ledger *l);
/* The round and the state that a shard stands at. */
uint64_t ledger_round(const struct ledger *l, uint32_t shard);
struct hash ledger_state(const struct ledger *l, uint32_t shard);

/* Whether e may come next, and then takes it (copied): sequence and previous (ERR_fork), shard
 * (ERR_shape), part 0 (ERR_unsupported), round (ERR_wrong_round: the shard's next, and no round
 * begins before the one before is closed for every shard), order of peers (ERR_syntax), tokens
 * (ERR_tokens), update hash over the list (ERR_hash), that what is merged is of somebody
 * (ERR_syntax).  ERR_nomem.  On failure the chain is as it
 * was. */
enum err ledger_append(struct ledger *l, const struct ledger_entry *e, struct why *why) MUST_CHECK;

/* The hash at a sequence number that the chain holds (from where it began to its head). */
bool ledger_hash_at(const struct ledger *l, uint64_t sequence, struct hash *out);
/* Whether every shard stands at the head's round. */
bool ledger_closed(const struct ledger *l);
/* A head that somebody signed: ERR_OK it is on this chain; ERR_missing it is further on, fetch the
 * entries; ERR_fork it contradicts this chain, or lies before its beginning. */
enum err ledger_check_head(
	const struct ledger *l, const struct ledger_head *h, struct why *why) MUST_CHECK;
/* The last sequence number at which both agree; false when there is none. */
bool ledger_common(const struct ledger *a, const struct ledger *b, uint64_t *sequence);

/* ---- token accounts: what was accepted, averaged over the shards, so that a peer that trained
 * all shards on T tokens has T */
uint64_t ledger_tokens(const struct ledger *l);                     /* of all */
uint64_t ledger_peer_tokens(const struct ledger *l, uint32_t peer); /* 0 for an unknown one */
uint32_t ledger_peers(const struct ledger *l);
/* The i-th account, ascending by peer number. */
struct ledger_account {
	uint32_t peer;
	uint64_t tokens;  /* as above */
	uint64_t entries; /* that list it */
};
struct ledger_account ledger_account(const struct ledger *l, uint32_t i);

#endif
