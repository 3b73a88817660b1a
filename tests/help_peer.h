/*
 * A run in miniature for the tests of peer/: a made-up text, a tiny model in two shards, members
 * with fixed keys, and the coordinator's part of a round as plain calls of round/, without a
 * network.  Whatever should work and does not fails the test with its sentence.  One thread only.
 */
#ifndef TESTS_HELP_PEER_H
#define TESTS_HELP_PEER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "net/roster.h"
#include "net/sign.h"
#include "peer/dataset.h"
#include "peer/standing.h"
#include "round/exchange.h"
#include "round/replica.h"

#define HELP_PEER_MEMBERS 3u
#define HELP_PEER_STEPS 3 /* of a round */

/* For cmocka: a scratch folder, removed with all that it holds. */
int help_peer_setup(void **state);
int help_peer_teardown(void **state);
const char *help_peer_path(const char *name); /* in it; valid until the teardown */
/* The refusal has this code, and its sentence this part. */
void help_peer_told(const struct why *why, enum err code, const char *part);
/* Fails the test with the sentence unless e is ERR_OK. */
void help_peer_fine(enum err e, const struct why *why);

/* The key of member 1 to HELP_PEER_MEMBERS + 1 (who is nobody's member), always the same. */
const struct sign_key *help_peer_key(uint32_t member);

struct help_peer_gift {
	uint32_t peer;
	struct buf bytes;
};

struct help_peer {
	struct spec *spec;
	struct dataset data;
	struct roster *roster; /* members 1 to HELP_PEER_MEMBERS */
	/* the coordinator's side */
	struct exchange exchange;
	struct replica *replica;
	struct ledger *ledger;
	uint32_t n_shards;
	uint64_t cursor; /* the next fresh sequence number */
	struct help_peer_gift gifts[2]
				   [HELP_PEER_MEMBERS]; /* accepted to the open round, by shard */
	uint32_t n_gifts[2];
};

/* changes: "path=value" as spec_load takes them, NULL-terminated; NULL: none. */
void help_peer_open(struct help_peer *p, const char *const *changes);
void help_peer_release(struct help_peer *p);
/* An object without a state, in a folder of the scratch folder. */
struct standing *help_peer_standing(const struct help_peer *p, uint32_t member, const char *name);
/* A snapshot file of where the ledger stands. */
const char *help_peer_snapshot(const struct help_peer *p, struct ledger_head *at);

/* Plans of the next round for members 1 to n_plans, with fresh data for so many steps each. */
void help_peer_plans(struct help_peer *p, uint64_t steps, struct plan *plans, uint32_t n_plans);
/* All shards whose turn it is, of what s has in flight, go through the gate into the open round. */
void help_peer_give(struct help_peer *p, const struct plan *plan, const struct standing *s);
/* One contribution through the gate; its verdict. */
enum err help_peer_gate(struct help_peer *p, const struct plan *plan, uint32_t shard,
	const uint8_t *bytes, size_t len, struct why *why) MUST_CHECK;

/* The records of one or more rounds. */
struct help_peer_records {
	struct standing_record at[256]; /* bytes owned */
	size_t n;
	struct ledger_head head;
};
/* Closes the round over what was given: appends a record for each shard to out. */
void help_peer_close(struct help_peer *p, struct help_peer_records *out);
void help_peer_drop(struct help_peer_records *r);
/* Applying them succeeds, and leads to the coordinator's own state, with W = G. */
void help_peer_apply(
	const struct help_peer *p, struct standing *s, const struct help_peer_records *r);

/* ---- what most tests do */

/* A new object that begins from where the ledger is. */
struct standing *help_peer_begin(const struct help_peer *p, uint32_t member, const char *name);
/* A new process in place of old: only what was saved is left. */
struct standing *help_peer_again(
	const struct help_peer *p, struct standing *old, uint32_t member, const char *name);
/* The first n steps of the plan. */
void help_peer_steps(struct standing *s, const struct plan *plan, uint64_t n);
void help_peer_train(struct standing *s, const struct plan *plan); /* all of them, and the cut */
/* One round of members 1 to n, from plan to state. */
void help_peer_play(struct help_peer *p, struct standing **s, uint32_t n);

/* ---- comparing */

/* One part of one shard of the working copy; caller frees. */
float *help_peer_part(struct standing *s, uint32_t shard, enum params_part part);
/* Two standings, in the folders of these names, are the same in everything, also in what they
 * save: momentum, feedback, what is in flight. */
void help_peer_equal(
	struct standing *a, const char *name_a, struct standing *b, const char *name_b);

#endif
