/*
 * The compute thread of a peer in a run: owns the trainer, the replica G, the error feedback, and
 * the ledger as this peer knows it.  The control loop gives it jobs and hears results through its
 * mailbox; nothing else is shared.  Every state that the replica takes was checked against a head
 * that the run key signed: the caller verifies the signature, the worker that the entries lead
 * there.
 */
#ifndef PEER_WORKER_H
#define PEER_WORKER_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/mailbox.h"
#include "model/corpus.h"
#include "model/spec.h"
#include "net/roster.h"
#include "net/sign.h"
#include "peer/standing.h"
#include "round/ledger.h"
#include "round/plan.h"

struct worker;

struct worker_config {
	const struct spec *spec; /* borrowed, as corpus and key; all outlive the worker */
	const struct corpus *corpus;
	const struct sign_key *key;
	const char *dir; /* states are saved here */
	const char *backend;
	unsigned threads;
	uint64_t windows; /* of the validation split to look at; 0: all */
	struct mailbox *results;
};

/* Starts the thread.  The device is opened and memory taken before it returns. */
enum err worker_new(
	const struct worker_config *config, struct worker **out, struct why *why) MUST_CHECK;
/* Stops at the end of the step at hand and joins the thread. */
void worker_free(struct worker *w); /* NULL-safe */
void worker_describe(const struct worker *w, char *out, size_t size);

/* ---- jobs, done in order */
/* Begin from this peer's own newest saved state, if it is one of this run; else from the snapshot
 * at path, whose place must be `at` (NULL path: only try the own state).  Result: started, or
 * failed with ERR_missing when there is none. */
void worker_start(struct worker *w, const char *path, const struct ledger_head *at);
/* Train what the plan says and hand over a contribution for each shard.  Results: progress now and
 * then, validated first if the plan asks, contribution for each shard, trained.  With steps 0
 * nothing but the validation is done. */
void worker_train(struct worker *w, const struct plan *plan);
/* The next records, in order, up to head; takes the array and its bytes (each from malloc).  The
 * roster is held until the result: applied, or failed. */
void worker_apply(struct worker *w, struct standing_record *records, size_t n,
	const struct ledger_head *head, const struct roster *roster);
/* The round is over for us: what is being trained now is not asked for any more.  Its steps stay in
 * the working copy and travel with the next contribution.  Any thread. */
void worker_abandon(struct worker *w);

/* ---- results: mail.kind is one of these, above all kinds of link events */
enum worker_result_kind {
	WORKER_started = 1000, /* head: where the replica stands */
	WORKER_progress,       /* steps, tokens, tokens_per_s, loss */
	WORKER_contribution,   /* shard, bytes (take by setting NULL) */
	WORKER_trained,        /* steps, tokens, tokens_per_s, loss; 0 steps when abandoned */
	WORKER_validated,      /* round, validation */
	WORKER_applied,        /* head, state */
	WORKER_failed,         /* why; job says which */
};

enum worker_job_kind { WORKER_job_start, WORKER_job_train, WORKER_job_apply, WORKER_job_stop };

struct worker_result {
	struct mail mail;
	enum worker_job_kind job;
	uint64_t round, steps, tokens;
	double tokens_per_s, loss;
	uint32_t shard;
	uint8_t *bytes;
	size_t len;
	struct trainer_validation validation;
	struct ledger_head head;
	struct hash state; /* replica_hash_all */
	struct why why;
};
void worker_result_free(struct worker_result *r);

#endif
