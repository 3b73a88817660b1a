/*
 * The compute thread of a peer in a run: owns where the peer stands (peer/standing.h).  The control
 * loop gives it jobs and hears results through its mailbox; nothing else is shared.  Every state
 * that the replica takes is checked against a head that the run key signed: the caller verifies the
 * signature, the worker that the entries lead there.
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
	uint32_t member; /* own number */
	const char *dir; /* states are saved here */
	const char *backend;
	unsigned threads;
	double share;     /* of the time that it may compute, as throttle.h has it */
	uint64_t step_ns; /* that a step takes at least */
	uint64_t memory;  /* as trainer.h has it */
	uint64_t windows; /* of the validation split to look at; 0: all */
	struct mailbox *results;
};

/* Starts the thread.  The device is opened and memory taken before it returns. */
enum err worker_new(
	const struct worker_config *config, struct worker **out, struct why *why) MUST_CHECK;
/* Breaks off what is computed at the next micro-batch, leaves out the jobs that wait, and joins the
 * thread.  save: what was applied and not saved yet is saved; a later start needs it not, since the
 * ledger leads there again, but whoever looks into the folder does.  NULL-safe. */
void worker_free(struct worker *w, bool save);
uint64_t worker_params(const struct worker *w);                 /* of all shards */
void worker_rate(const struct worker *w, struct rate_ask *ask); /* as turns_rate */
void worker_describe(const struct worker *w, char *out, size_t size);

/* ---- jobs, done in order; each has one last result: started, trained, applied or failed */

/* Begin from this peer's own newest saved state, or, with a path, from the snapshot there, whose
 * place must be `at`.  Result: started, or failed, with ERR_missing when there is no own state. */
void worker_start(struct worker *w, const char *path, const struct ledger_head *at);
/* Train what the plan says and hand over a contribution for each shard, after the state was saved.
 * Results: validated first if the plan asks, progress now and then, contribution for each shard,
 * trained.  With steps 0 nothing but the validation is done; a plan that was answered already only
 * has its contributions handed over again. */
void worker_train(struct worker *w, const struct plan *plan);
/* Where rounds overlap: train by this plan from now on, until another one comes or worker_abandon.
 * When its time is up the shards whose turn it is are cut and handed over; training goes on.
 * Results: validated first if the plan asks, progress now and then, contribution for each shard,
 * cut, starved when there is nothing left to train on; or failed. */
void worker_follow(struct worker *w, const struct plan *plan);
/* How many values of a chunk the cuts from now on keep, as standing_keep; any thread. */
void worker_keep(struct worker *w, uint32_t k);
/* The next records, in order, on the way to head (as standing_apply); where rounds overlap
 * training goes on until they are in the replica.  Takes the array and its bytes (each from
 * malloc).  The roster is borrowed until the result. */
void worker_apply(struct worker *w, struct standing_record *records, size_t n,
	const struct ledger_head *head, const struct roster *roster);
/* The training jobs given so far are not asked for any more: what is not cut yet is dropped, and
 * their last result is trained with 0 steps.  Any thread. */
void worker_abandon(struct worker *w);

/* ---- results: mail.kind is one of these, above all kinds of link events */
enum worker_result_kind {
	WORKER_started = 1000, /* head, state */
	WORKER_progress,       /* round, steps, tokens_per_s, loss */
	WORKER_contribution,   /* round, shard, bytes (take by setting NULL) */
	WORKER_cut,            /* round, steps, tokens_per_s, loss: of what was handed over */
	WORKER_starved,        /* the same; the plan's data is done, and what was cut handed over */
	WORKER_trained,        /* round, steps, tokens_per_s, loss */
	WORKER_validated,      /* round, validation */
	WORKER_applied,        /* head, state, confirmed, listed, delay_ns */
	WORKER_failed,         /* why; job says which */
};

enum worker_job_kind {
	WORKER_job_start,
	WORKER_job_train,
	WORKER_job_follow,
	WORKER_job_apply,
	WORKER_job_applied, /* the worker's own: a round is in ledger and replica */
	WORKER_job_stop
};

struct worker_result {
	struct mail mail;
	enum worker_job_kind job;
	uint64_t round, steps;
	double tokens_per_s, loss; /* loss: mean over the steps */
	uint32_t shard;
	uint8_t *bytes;
	size_t len;
	struct trainer_validation validation;
	struct ledger_head head; /* where the replica stands */
	struct hash state;       /* replica_hash_all */
	bool confirmed;          /* a signed head was reached */
	uint64_t delay_ns;       /* from the last cut until this; 0: nothing was in flight */
	uint64_t listed;         /* own tokens that the ledger listed since worker_new */
	struct why why;
};
void worker_result_free(struct worker_result *r); /* NULL-safe */

#endif
