/*
 * What the coordinator must not forget, in one SQLite file (WAL, every commit synced): members,
 * invites, the open round, the ledger, what the page shows of the past.  A larger installation may
 * put another database behind these functions.
 *
 * Writes stand between store_begin and store_commit.  Their failure is sticky: after the first one
 * the rest of the transaction does nothing, and store_commit reports it; then nothing of the
 * transaction has happened.  Reads call a function for each row, in the order given, and must not
 * write meanwhile.  One thread; other processes may use the same file (invites).
 */
#ifndef COORDINATOR_STORE_H
#define COORDINATOR_STORE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "round/span.h"
#include "round/turns.h"

#define STORE_SCHEMA 3
#define STORE_SCHEMA_OLDEST 2 /* is brought up to date when it is opened */
#define STORE_KEY 32          /* bytes of a public key */
#define STORE_NAME 65         /* of a member or a label, with the NUL */

struct store;

/* Makes the file when it is missing.  ERR_version with both versions, ERR_magic for a file that is
 * none of ours, ERR_permission, ERR_full, ERR_io. */
enum err store_open(const char *path, struct store **out, struct why *why) MUST_CHECK;
void store_close(struct store *s); /* NULL-safe */

void store_begin(struct store *s);
/* ERR_full names the disk; ERR_busy: another process holds the file too long; ERR_exists: a row
 * that may be there once only. */
enum err store_commit(struct store *s, struct why *why) MUST_CHECK;
void store_rollback(struct store *s);

/* ---- facts: single values by name.  A text or bytes of at most STORE_FACT_MAX. */
#define STORE_FACT_MAX (16u << 20)
void store_put(struct store *s, const char *name, const void *bytes, size_t n);
void store_put_number(struct store *s, const char *name, uint64_t v);
/* *bytes has a NUL after it, caller frees; ERR_missing when there is none (why is not set). */
enum err store_get(
	struct store *s, const char *name, uint8_t **bytes, size_t *n, struct why *why) MUST_CHECK;
/* fallback when there is none. */
enum err store_get_number(struct store *s, const char *name, uint64_t fallback, uint64_t *v,
	struct why *why) MUST_CHECK;

/* ---- members, ascending by number */
struct store_member {
	uint32_t number;
	uint8_t sign[STORE_KEY], curve[STORE_KEY];
	char name[STORE_NAME], version[STORE_NAME];
	uint64_t joined_s; /* wall clock */
	bool removed;      /* by the operator: keeps its number and its tokens, may not come back */
};
typedef void store_member_fn(void *arg, const struct store_member *m);
void store_member_put(struct store *s, const struct store_member *m); /* new, or changed */
enum err store_member_list(
	struct store *s, store_member_fn *fn, void *arg, struct why *why) MUST_CHECK;

/* ---- invites, ascending by time of making */
struct store_invite {
	char id[STORE_NAME];
	uint64_t created_s, expires_s; /* wall clock */
	uint32_t uses;                 /* keys that may use it; 0: any number */
	uint32_t used;                 /* keys that have */
	bool revoked;
};
typedef void store_invite_fn(void *arg, const struct store_invite *i);
void store_invite_add(struct store *s, const struct store_invite *i);
/* ERR_missing (why is not set). */
enum err store_invite_find(
	struct store *s, const char *id, struct store_invite *out, struct why *why) MUST_CHECK;
/* Has this key used it? */
enum err store_invite_bound(struct store *s, const char *id, const uint8_t key[static STORE_KEY],
	bool *bound, struct why *why) MUST_CHECK;
void store_invite_use(struct store *s, const char *id, const uint8_t key[static STORE_KEY]);
void store_invite_revoke(struct store *s, const char *id);
enum err store_invite_list(
	struct store *s, store_invite_fn *fn, void *arg, struct why *why) MUST_CHECK;

/* ---- the open round: who has which data; ascending by member */
struct store_plan {
	uint64_t round;
	uint32_t member;
	uint64_t steps;
	struct span spans[SPAN_MAX];
	uint32_t n_spans;
	uint64_t listed[SPEC_FRAGMENTS_MAX]; /* round/turns.h */
};
typedef void store_plan_fn(void *arg, const struct store_plan *p);
void store_plan_add(struct store *s, const struct store_plan *p);
void store_plan_remove(struct store *s, uint32_t member); /* dropped from the round */
void store_plan_clear(struct store *s);
enum err store_plan_list(struct store *s, store_plan_fn *fn, void *arg, struct why *why) MUST_CHECK;
/* Sequence numbers that came back and were not given out again, as one list (replaces the old). */
void store_pool_put(struct store *s, const struct span *spans, size_t n);
/* Caller frees. */
enum err store_pool_get(
	struct store *s, struct span **spans, size_t *n, struct why *why) MUST_CHECK;

/* ---- contributions accepted in the open round; ascending by shard, then peer */
#define STORE_HERE UINT32_MAX
struct store_contribution {
	uint32_t shard, peer;
	uint64_t round, sequences, bytes;
	struct hash id, blob;
	uint32_t via; /* the member that has its bytes, in place of blob; STORE_HERE */
	uint64_t tokens;
	struct hash planes; /* zero where the row was written by an older program */
};
typedef void store_contribution_fn(void *arg, const struct store_contribution *c);
void store_contribution_add(struct store *s, const struct store_contribution *c);
/* Its bytes are somewhere else now: bytes, blob and via of this shard and peer. */
void store_contribution_move(struct store *s, const struct store_contribution *c);
void store_contribution_remove(struct store *s, uint32_t peer); /* dropped from the round */
void store_contribution_clear(struct store *s);
enum err store_contribution_list(
	struct store *s, store_contribution_fn *fn, void *arg, struct why *why) MUST_CHECK;

/* ---- the ledger's entries; ascending by sequence */
struct store_entry {
	uint64_t sequence, round;
	uint32_t shard;
	uint32_t count;          /* of contributions in it */
	struct hash hash, state; /* of the entry; of the shard after it */
	struct hash record;      /* blob: may have been pruned */
	uint64_t bytes;          /* of the record */
	const uint8_t *entry;    /* as round/ledger.h encodes it; valid during the call */
	size_t entry_len;
};
typedef void store_entry_fn(void *arg, const struct store_entry *e);
void store_entry_add(struct store *s, const struct store_entry *e);
/* At most limit entries with a sequence above after. */
struct store_range {
	uint64_t after;
	uint32_t limit;
};
enum err store_entry_list(struct store *s, const struct store_range *range, store_entry_fn *fn,
	void *arg, struct why *why) MUST_CHECK;
/* Without its bytes; ERR_missing (why is not set). */
enum err store_entry_find(
	struct store *s, uint64_t sequence, struct store_entry *out, struct why *why) MUST_CHECK;

/* ---- contributions that merged updates were made of, kept as long as the entry's record is */
void store_input_add(struct store *s, uint64_t sequence, const struct hash *blob);
void store_input_remove(struct store *s, uint64_t to); /* of entries up to this one */
/* How many of an entry's contributions are kept here; what an aggregator had never was. */
enum err store_input_count(
	struct store *s, uint64_t sequence, uint64_t *n, struct why *why) MUST_CHECK;
typedef void store_input_fn(void *arg, const struct hash *blob);
enum err store_input_list(
	struct store *s, uint64_t to, store_input_fn *fn, void *arg, struct why *why) MUST_CHECK;

/* ---- rounds closed, for the page; ascending */
struct store_round {
	uint64_t round, tokens;               /* tokens accepted in it */
	uint64_t total_tokens;                /* and in all rounds until its end */
	uint32_t members, dropped;            /* accepted; left out */
	uint32_t merged;                      /* updates that went out merged, one for a shard */
	uint64_t bytes_up, bytes_down;        /* contributions; records */
	uint64_t closed_s, took_ns;           /* wall clock; from opening to commit */
	double nats_per_token, nats_per_byte; /* training loss, as the peers say; 0: not known */
};
typedef void store_round_fn(void *arg, const struct store_round *r);
void store_round_add(struct store *s, const struct store_round *r);
/* Those above after, at most limit. */
enum err store_round_list(struct store *s, const struct store_range *range, store_round_fn *fn,
	void *arg, struct why *why) MUST_CHECK;

/* Over all rounds. */
struct store_round_sum {
	uint64_t rounds, members, bytes_up, bytes_down, merged;
};
enum err store_round_total(
	struct store *s, struct store_round_sum *out, struct why *why) MUST_CHECK;

/* ---- validation losses; ascending by round */
struct store_loss {
	uint64_t round;  /* of the state that was measured; 0: initial weights */
	uint64_t tokens; /* trained by all until then */
	double nats_per_token, nats_per_byte;
	uint64_t measured; /* tokens it was measured on */
	uint32_t member;
	uint64_t at_s;
};
typedef void store_loss_fn(void *arg, const struct store_loss *l);
void store_loss_add(struct store *s, const struct store_loss *l); /* replaces one of that round */
enum err store_loss_list(struct store *s, store_loss_fn *fn, void *arg, struct why *why) MUST_CHECK;

/* ---- refusals: counted by code for ever, the newest STORE_REFUSALS with their sentence, newest
 * first */
#define STORE_REFUSALS 200
struct store_refusal {
	uint64_t at_s;
	uint32_t member; /* UINT32_MAX: not known */
	uint64_t round;
	uint32_t shard;
	enum err code;
	char what[16]; /* contribution, join, hello, ... */
	char text[400];
};
typedef void store_refusal_fn(void *arg, const struct store_refusal *r);
typedef void store_refusal_count_fn(void *arg, enum err code, uint64_t count);
void store_refusal_add(struct store *s, const struct store_refusal *r);
enum err store_refusal_list(
	struct store *s, store_refusal_fn *fn, void *arg, struct why *why) MUST_CHECK;
enum err store_refusal_counts(
	struct store *s, store_refusal_count_fn *fn, void *arg, struct why *why) MUST_CHECK;

/* ---- snapshots, newest first */
struct store_snapshot {
	uint64_t round, sequence, bytes;
	struct hash head, blob;
};
typedef void store_snapshot_fn(void *arg, const struct store_snapshot *p);
void store_snapshot_add(struct store *s, const struct store_snapshot *p);
void store_snapshot_remove(struct store *s, uint64_t round);
enum err store_snapshot_list(
	struct store *s, store_snapshot_fn *fn, void *arg, struct why *why) MUST_CHECK;

#endif
