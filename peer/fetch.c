#include "peer/fetch.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "peer/fetch_jobs.h"

struct job {
	struct mail mail; /* kind: enum fetch_job */
	uint64_t sequence;
};

struct fetch {
	struct fetch_jobs *jobs; /* the thread's once it runs */
	struct mailbox *asked, *results;
	pthread_t thread;
	atomic_bool stop;
};

/* ---- results */

static void drop_result(struct mail *mail)
{
	struct fetch_result *r = (struct fetch_result *)mail;
	for (size_t i = 0; i < r->n_records; i++)
		free((void *)(uintptr_t)r->records[i].bytes);
	free(r->records);
	free(r->path);
	spec_free(r->spec);
	roster_free(r->roster);
	free(r);
}

void fetch_result_free(struct fetch_result *r)
{
	if (r)
		drop_result(&r->mail);
}

struct fetch_result *fetch_result_new(enum fetch_result_kind kind, enum fetch_job job)
{
	struct fetch_result *r = alloc_must_zero(1, sizeof *r);
	r->mail.kind = (int)kind;
	r->mail.drop = drop_result;
	r->job = job;
	return r;
}

/* Trying again cannot help: somebody has to do something. */
static bool for_good(enum fetch_job job, enum err code)
{
	switch (code) {
	case ERR_signature:
	case ERR_wrong_run:
	case ERR_invite:
	case ERR_unknown_peer:
	case ERR_version:
	case ERR_spec:
	case ERR_permission:
	case ERR_exists: return true;
	/* Dates that do not fit: a clock is set sooner or later, after a boot by itself. */
	case ERR_range: return job != FETCH_join;
	default: return false;
	}
}

/* ---- the thread */

static enum err work(
	struct fetch *f, const struct job *job, struct fetch_result *r, struct why *why)
{
	switch ((enum fetch_job)job->mail.kind) {
	case FETCH_join: return fetch_jobs_join(f->jobs, r, why);
	case FETCH_data: return fetch_jobs_data(f->jobs, why);
	case FETCH_snapshot: return fetch_ledger_snapshot(f->jobs, r, why);
	case FETCH_records: return fetch_ledger_records(f->jobs, job->sequence, r, why);
	case FETCH_forget:
	case FETCH_stop: break;
	}
	return ERR_OK;
}

static void serve(struct fetch *f, const struct job *job)
{
	static const enum fetch_result_kind kinds[] = {[FETCH_join] = FETCH_result_joined,
		[FETCH_data] = FETCH_result_data,
		[FETCH_snapshot] = FETCH_result_snapshot,
		[FETCH_records] = FETCH_result_records};
	const enum fetch_job what = (enum fetch_job)job->mail.kind;
	if (what == FETCH_forget)
		fetch_ledger_forget(f->jobs);
	if (what == FETCH_forget || what == FETCH_stop)
		return;
	struct fetch_result *r = fetch_result_new(kinds[what], what);
	struct why why = {0};
	enum err e = work(f, job, r, &why);
	if (e == ERR_signature && what != FETCH_join) { /* the coordinator's keys may be new */
		fetch_result_free(r);
		r = fetch_result_new(kinds[what], what);
		e = fetch_jobs_contact(f->jobs, &why);
		if (!e)
			e = work(f, job, r, &why);
	}
	if (e) {
		fetch_result_free(r);
		r = fetch_result_new(FETCH_result_failed, what);
		r->why = why;
		r->why.code = e;
		r->for_good = for_good(r->job, e);
	}
	mailbox_put(f->results, &r->mail);
}

static void drop_job(struct mail *m)
{
	free(m);
}

static void *run(void *arg)
{
	struct fetch *f = arg;
	while (!atomic_load(&f->stop)) {
		struct mail *m = mailbox_wait(f->asked, UINT64_MAX);
		if (m)
			serve(f, (struct job *)m);
		free(m);
	}
	return NULL;
}

/* ---- calls of the control loop */

static void put(struct fetch *f, enum fetch_job what, uint64_t sequence)
{
	struct job *job = alloc_must_zero(1, sizeof *job);
	job->mail.kind = (int)what;
	job->mail.drop = drop_job;
	job->sequence = sequence;
	mailbox_put(f->asked, &job->mail);
}

static void release(struct fetch *f)
{
	fetch_jobs_free(f->jobs);
	mailbox_free(f->asked);
	free(f);
}

enum err fetch_new(const struct fetch_config *config, struct fetch **out, struct why *why)
{
	struct fetch *f = alloc_must_zero(1, sizeof *f);
	f->results = config->results;
	f->asked = mailbox_new();
	enum err e = fetch_jobs_new(config, &f->stop, &f->jobs, why);
	if (!e && pthread_create(&f->thread, NULL, run, f))
		e = err_why(why, ERR_nomem, "no thread for fetching could be started");
	if (e) {
		release(f);
		return e;
	}
	*out = f;
	return ERR_OK;
}

void fetch_free(struct fetch *f)
{
	if (!f)
		return;
	atomic_store(&f->stop, true);
	put(f, FETCH_stop, 0);
	pthread_join(f->thread, NULL);
	release(f);
}

void fetch_join(struct fetch *f)
{
	put(f, FETCH_join, 0);
}

void fetch_data(struct fetch *f)
{
	put(f, FETCH_data, 0);
}

void fetch_snapshot(struct fetch *f)
{
	put(f, FETCH_snapshot, 0);
}

void fetch_records(struct fetch *f, uint64_t sequence)
{
	put(f, FETCH_records, sequence);
}

void fetch_forget(struct fetch *f)
{
	put(f, FETCH_forget, 0);
}
