/*
 * The aggregator's inside: jobs, and what its thread alone has.  aggregate.c has the thread,
 * aggregate_keep.c what is kept of rounds, aggregate_make.c what is made of it, aggregate_check.c
 * what others made; aggregate_list.c reads the list of a round.
 */
#ifndef PEER_AGGREGATE_PARTS_H
#define PEER_AGGREGATE_PARTS_H
#include <pthread.h>
#include <stdatomic.h>
#include "peer/aggregate.h"
#include "round/exchange.h"
#include "round/gate.h"
#include "round/update_make.h"

enum aggregate_job_kind {
	AGGREGATE_job_roster,
	AGGREGATE_job_open,
	AGGREGATE_job_put,
	AGGREGATE_job_gather,
	AGGREGATE_job_bundle,
	AGGREGATE_job_witness,
	AGGREGATE_job_compose,
	AGGREGATE_job_stop
};

struct aggregate_job {
	struct mail mail; /* mail.kind is enum aggregate_job_kind */
	struct aggregate_from from;
	uint64_t round;
	uint32_t shard;
	struct aggregate_item *items; /* owned, as the others */
	size_t n;
	uint8_t *
		bytes; /* put: NULL where too much waits; witness: the bundle; compose: the entry */
	size_t len;
	uint8_t *update; /* compose */
	size_t update_len;
	struct roster *roster;
	struct hash parent; /* open */
	bool *takes;
};

struct aggregate_kept {
	uint32_t peer;
	struct hash id;
	uint8_t *bytes; /* owned */
	size_t len;
};

struct aggregate_shard {
	bool takes;
	struct aggregate_kept *kept; /* ascending by peer */
	size_t n_kept, cap;
	/* What was gathered last; update NULL: nothing was. */
	struct aggregate_item *items;
	size_t n_items;
	struct shared *update;
	enum update_kind kind;
};

struct aggregate_round {
	uint64_t round;
	struct hash parent;
	struct aggregate_shard *shards; /* NULL: there is no such round */
};

struct aggregate {
	const struct spec *spec;
	struct exchange exchange;
	uint32_t n_shards;
	size_t *values; /* of each shard */
	uint64_t memory;
	struct mailbox *jobs, *results;
	pthread_t thread;
	atomic_bool stop;             /* what was not begun is not done any more */
	atomic_uint_fast64_t waiting; /* bytes of contributions in jobs */
	/* the thread's own */
	struct roster *roster; /* NULL: nobody is known yet */
	struct aggregate_round now, before;
	uint64_t held; /* bytes of contributions */
};

/* ---- aggregate_keep.c */
void aggregate_keep_open(struct aggregate *a, const struct aggregate_job *job);
void aggregate_keep_forget(struct aggregate *a, struct aggregate_round *r);
/* The round that is kept under this number, and a shard that the model has; ERR_wrong_round,
 * ERR_shape. */
enum err aggregate_keep_find(struct aggregate *a, uint64_t round, uint32_t shard,
	struct aggregate_round **out, struct why *why) MUST_CHECK;
/* Takes job's bytes when all is well. */
enum err aggregate_keep_put(struct aggregate *a, struct aggregate_job *job,
	struct aggregate_result *r, struct why *why) MUST_CHECK;
/* What a statement has to be in this round, and whose key signs it. */
enum err aggregate_keep_expect(const struct aggregate *a, const struct aggregate_round *round,
	const struct contribution *says, struct gate_expect *out, struct why *why) MUST_CHECK;
/* The kept contributions of these, borrowed; caller frees *out.  ERR_missing names the peers. */
enum err aggregate_keep_parts(const struct aggregate_shard *s, const struct aggregate_item *items,
	size_t n, struct update_part **out, struct why *why) MUST_CHECK;

/* ---- aggregate_make.c */
/* How an update of a shard of this round is made and verified. */
struct update_make aggregate_make_how(
	const struct aggregate *a, const struct aggregate_round *round, uint32_t shard);
/* The last two take job's items when all is well. */
enum err aggregate_make_update(struct aggregate *a, struct aggregate_job *job,
	struct aggregate_result *r, struct why *why) MUST_CHECK;
enum err aggregate_make_bundle(struct aggregate *a, struct aggregate_job *job,
	struct aggregate_result *r, struct why *why) MUST_CHECK;

/* ---- aggregate_check.c; both take job's bytes */
enum err aggregate_check_bundle(struct aggregate *a, struct aggregate_job *job,
	struct aggregate_result *r, struct why *why) MUST_CHECK;
enum err aggregate_check_record(struct aggregate *a, struct aggregate_job *job,
	struct aggregate_result *r, struct why *why) MUST_CHECK;

#endif
