/* What the files of the compute thread (worker*.c) share; nobody else includes it. */
#ifndef PEER_WORKER_PARTS_H
#define PEER_WORKER_PARTS_H
#include <pthread.h>
#include <stdatomic.h>
#include "peer/throttle.h"
#include "peer/worker.h"

struct job {
	struct mail mail; /* kind: enum worker_job_kind */
	char *path;
	struct ledger_head head;
	struct plan plan;
	uint64_t ticket; /* of a training job: abandoned when worker->abandoned has reached it */
	struct standing_record *records;
	size_t n;
	const struct roster *roster;
};

/* One training job at work. */
struct work {
	const struct job *job;
	uint64_t begin_ns, told_ns, steps;
	double loss; /* sum over the steps */
};

/* Training by the last plan, where rounds overlap.  The thread's. */
struct follow {
	struct job *job; /* NULL: not training */
	bool cut;        /* the plan's time is up, and its contribution handed over */
	uint64_t due_ns; /* of the next cut, or of the last */
	uint64_t cut_ns, saved_ns, save_took_ns;
	bool in_flight;
	uint64_t rest_ns; /* training rests until then */
	bool starved;     /* and its data done; the control loop knows */
	struct work work; /* since the plan came */
};

/* Records that a thread takes into the replica while training goes on. */
struct applying {
	struct job *job; /* NULL: none */
	struct standing_apply *apply;
	pthread_t thread;
	bool cut_saved; /* from there the ledger leads here again, to the bit: one state a round
			   is enough */
};

struct worker {
	const struct spec *spec;
	struct standing *standing;
	struct mailbox *jobs, *results;
	uint64_t windows;
	pthread_t thread;
	struct follow follow;
	struct applying applying;
	struct throttle throttle;
	uint64_t ticket; /* of the training at work that may be abandoned; 0: none.  The thread's */
	bool save_failed, unsaved;
	bool save_last; /* set before stop */
	atomic_bool stop;
	atomic_ullong tickets, abandoned;
	atomic_uint k; /* of the next cut */
};

/* ---- worker.c; the thread's own, all of them */
struct worker_result *worker_result_new(enum worker_result_kind kind, const struct job *job);
void worker_tell_failed(struct worker *w, const struct job *job, const struct why *why);
void worker_tell_place(struct worker *w, const struct job *job, enum worker_result_kind kind);
void worker_tell_figures(struct worker *w, const struct work *work, enum worker_result_kind kind);
/* The training at work is not asked for any more; the trainer asks between micro-batches. */
bool worker_unwanted(void *arg);
void worker_save(struct worker *w);
enum err worker_validate(struct worker *w, const struct job *job, struct why *why) MUST_CHECK;
/* ERR_nomem: what was not handed over stays sealed, and is given again with the next plan. */
enum err worker_hand_over(struct worker *w, const struct job *job, struct why *why) MUST_CHECK;
/* A step was made: counts it, tells of it, returns until when training rests then. */
uint64_t worker_stepped(struct worker *w, struct work *work, double loss, uint64_t began_ns);

struct job *worker_job_new(enum worker_job_kind kind);
void worker_job_free(struct job *job);

/* ---- worker_apply.c: records */
void worker_apply_begin(struct worker *w, struct job *job); /* takes the job */
void worker_apply_go_on(struct worker *w);                  /* the thread has done a round */
void worker_apply_settle(struct worker *w);                 /* waits until nothing is applied */

/* ---- worker_follow.c: training on while rounds come and go */
/* Takes the job. */
void worker_follow_begin(struct worker *w, struct job *job);
void worker_follow_end(struct worker *w);
/* How long the thread may wait for jobs: not at all while there is something to train on. */
uint64_t worker_follow_patience(const struct worker *w);
/* One step, or the cut. */
void worker_follow_go(struct worker *w);

#endif
