#include "peer/worker_parts.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/trace.h"

#define REST_SLICE (100 * CLOCK_MS)
#define PROGRESS_EVERY (250 * CLOCK_MS)

/* ---- results */

static void drop_result(struct mail *m)
{
	struct worker_result *r = (struct worker_result *)m;
	free(r->bytes);
	free(r);
}

void worker_result_free(struct worker_result *r)
{
	if (r)
		drop_result(&r->mail);
}

struct worker_result *worker_result_new(enum worker_result_kind kind, const struct job *job)
{
	struct worker_result *r = alloc_must_zero(1, sizeof *r);
	r->mail.kind = (int)kind;
	r->mail.drop = drop_result;
	r->job = (enum worker_job_kind)job->mail.kind;
	r->round = job->plan.round;
	return r;
}

void worker_tell_failed(struct worker *w, const struct job *job, const struct why *why)
{
	struct worker_result *r = worker_result_new(WORKER_failed, job);
	r->why = *why;
	mailbox_put(w->results, &r->mail);
}

/* ---- jobs */

static void drop_job(struct mail *m)
{
	struct job *job = (struct job *)m;
	for (size_t i = 0; i < job->n; i++)
		free((void *)(uintptr_t)job->records[i].bytes);
	free(job->records);
	free(job->path);
	free(job);
}

struct job *worker_job_new(enum worker_job_kind kind)
{
	struct job *job = alloc_must_zero(1, sizeof *job);
	job->mail.kind = (int)kind;
	job->mail.drop = drop_job;
	return job;
}

void worker_job_free(struct job *job)
{
	drop_job(&job->mail);
}

/* Asked by the trainer between micro-batches. */
bool worker_unwanted(void *arg)
{
	const struct worker *w = arg;
	return atomic_load(&w->stop) || (w->ticket && atomic_load(&w->abandoned) >= w->ticket);
}

void worker_tell_place(struct worker *w, const struct job *job, enum worker_result_kind kind)
{
	struct worker_result *r = worker_result_new(kind, job);
	r->head = standing_head(w->standing);
	r->state = standing_state(w->standing);
	r->confirmed = standing_confirmed(w->standing);
	r->listed = standing_listed(w->standing);
	if (w->follow.in_flight && kind == WORKER_applied)
		r->delay_ns = clock_now_ns() - w->follow.cut_ns;
	w->follow.in_flight = false;
	mailbox_put(w->results, &r->mail);
}

/* A peer whose disk is full trains on: only its resuming suffers. */
void worker_save(struct worker *w)
{
	struct why why;
	bool failed = standing_save(w->standing, &why) != ERR_OK;
	if (failed && !w->save_failed)
		log_warn(peer, "the state is not saved, a restart will begin further back: %s",
			why.text);
	w->save_failed = failed;
	w->unsaved = false;
}

static void do_start(struct worker *w, struct job *job)
{
	struct why why = {0};
	enum err e = job->path ? standing_begin(w->standing, job->path, &job->head, &why)
			       : standing_resume(w->standing, &why);
	if (e)
		worker_tell_failed(w, job, &why);
	else
		worker_tell_place(w, job, WORKER_started);
}

enum err worker_validate(struct worker *w, const struct job *job, struct why *why)
{
	struct worker_result *r = worker_result_new(WORKER_validated, job);
	r->round = job->plan.parent.round;
	enum err e = standing_follow_validate(w->standing, w->windows, &r->validation, why);
	if (e)
		worker_result_free(r);
	else
		mailbox_put(w->results, &r->mail);
	return e;
}

void worker_tell_figures(struct worker *w, const struct work *work, enum worker_result_kind kind)
{
	struct worker_result *r = worker_result_new(kind, work->job);
	double seconds = clock_seconds(clock_now_ns() - work->begin_ns);
	double tokens = (double)(work->steps * spec_step_tokens(w->spec));
	r->steps = work->steps;
	r->tokens_per_s = seconds > 0 ? tokens / seconds : 0;
	r->loss = work->steps ? work->loss / (double)work->steps : 0;
	mailbox_put(w->results, &r->mail);
}

static bool go_on(struct worker *w, const struct work *work)
{
	const struct plan *plan = &work->job->plan;
	const uint64_t batch = w->spec->train.batch;
	bool data_left = (work->steps + 1) * batch <= span_count(plan->spans, plan->n_spans);
	if (!data_left || worker_unwanted(w))
		return false;
	/* A timed plan's steps are a promise of speed, not a limit: data and time end it. */
	if (plan->seconds <= 0)
		return work->steps < plan->steps;
	return !work->steps || clock_seconds(clock_now_ns() - work->begin_ns) < plan->seconds;
}

uint64_t worker_stepped(struct worker *w, struct work *work, double loss, uint64_t began_ns)
{
	const uint64_t now = clock_now_ns();
	w->unsaved = false; /* what was applied is not where W is any more */
	work->steps++;
	work->loss += loss;
	trace_event("step", "{s:I, s:I, s:f}", "round", (json_int_t)work->job->plan.round, "step",
		(json_int_t)work->steps, "loss", loss);
	if (now - work->told_ns >= PROGRESS_EVERY) {
		work->told_ns = now;
		worker_tell_figures(w, work, WORKER_progress);
	}
	return now + throttle_wait(&w->throttle, now, now - began_ns);
}

static enum err step(struct worker *w, struct work *work, struct why *why)
{
	const uint64_t began = clock_now_ns();
	double loss;
	enum err e = standing_step(w->standing, &work->job->plan, work->steps, &loss, why);
	if (e)
		return e;
	const uint64_t until = worker_stepped(w, work, loss, began);
	for (uint64_t at = clock_now_ns(); at < until && !worker_unwanted(w); at = clock_now_ns()) {
		uint64_t left = until - at < REST_SLICE ? until - at : REST_SLICE;
		nanosleep(&(struct timespec){.tv_nsec = (long)left}, NULL);
	}
	return ERR_OK;
}

enum err worker_hand_over(struct worker *w, const struct job *job, struct why *why)
{
	trace_event("cut", "{s:I}", "round", (json_int_t)job->plan.round);
	for (uint32_t shard = 0; shard < trainer_shards(standing_trainer(w->standing)); shard++) {
		size_t len = 0;
		if (!turns_has(&w->spec->round, job->plan.round, shard))
			continue;
		const uint8_t *sent = standing_sent(w->standing, shard, &len);
		uint8_t *bytes = sent ? alloc_try(len, 1) : NULL;
		if (!bytes)
			return err_why(why, ERR_nomem, "no memory for the contribution of shard %u",
				shard);
		memcpy(bytes, sent, len);
		struct worker_result *r = worker_result_new(WORKER_contribution, job);
		r->shard = shard;
		r->bytes = bytes;
		r->len = len;
		mailbox_put(w->results, &r->mail);
	}
	return ERR_OK;
}

static enum err train(struct worker *w, struct work *work, struct why *why)
{
	const struct job *job = work->job;
	enum err e = standing_ready(w->standing, &job->plan, why);
	if (!e && job->plan.validate)
		e = worker_validate(w, job, why);
	work->begin_ns = clock_now_ns();
	w->ticket = job->ticket;
	while (!e && go_on(w, work))
		e = step(w, work, why);
	if (e == ERR_interrupted || (!e && worker_unwanted(w))) {
		work->steps = 0;
	} else if (!e && work->steps) {
		standing_keep(w->standing, atomic_load(&w->k));
		e = standing_cut(w->standing, &job->plan, work->steps, why);
	}
	w->ticket = 0;
	return e == ERR_interrupted ? ERR_OK : e;
}

/* What is handed over is on disk first: whoever is killed then knows what it has sent. */
static void do_train(struct worker *w, struct job *job)
{
	struct why why = {0};
	struct work work = {.job = job, .begin_ns = clock_now_ns()};
	enum err e = ERR_OK;
	if (atomic_load(&w->abandoned) >= job->ticket) {
		/* nobody waits for it any more */
	} else if (standing_answers(w->standing, &job->plan)) {
		e = worker_hand_over(w, job, &why);
	} else {
		e = train(w, &work, &why);
		if (!e && work.steps) {
			worker_save(w);
			e = worker_hand_over(w, job, &why);
		}
	}
	if (e) {
		worker_tell_failed(w, job, &why);
		return;
	}
	worker_tell_figures(w, &work, WORKER_trained);
}

/* ---- the thread */

static void do_job(struct worker *w, struct job *job)
{
	if (job->mail.kind != WORKER_job_applied)
		worker_apply_settle(w);
	switch ((enum worker_job_kind)job->mail.kind) {
	case WORKER_job_start:
		worker_follow_end(w);
		do_start(w, job);
		break;
	case WORKER_job_train:
		worker_follow_end(w);
		do_train(w, job);
		break;
	case WORKER_job_follow: worker_follow_begin(w, job); return;
	case WORKER_job_apply: worker_apply_begin(w, job); return;
	case WORKER_job_applied: worker_apply_go_on(w); break;
	case WORKER_job_stop: break;
	}
	drop_job(&job->mail);
}

/* Until the next job or step is due; what is done before a step is no rest from the last one. */
static void turn(struct worker *w)
{
	const uint64_t wait = worker_follow_patience(w), rest = w->follow.rest_ns;
	struct mail *m = wait ? mailbox_wait(w->jobs, wait) : mailbox_take(w->jobs);
	const uint64_t began = clock_now_ns();
	if (m && atomic_load(&w->stop))
		drop_job(m);
	else if (m)
		do_job(w, (struct job *)m);
	else if (w->follow.job)
		worker_follow_go(w);
	if (rest > began && w->follow.rest_ns == rest)
		w->follow.rest_ns += clock_now_ns() - began;
}

static void *run(void *arg)
{
	struct worker *w = arg;
	while (!atomic_load(&w->stop))
		turn(w);
	worker_apply_settle(w);
	worker_follow_end(w);
	if (w->save_last && w->unsaved && standing_confirmed(w->standing))
		worker_save(w);
	return NULL;
}

/* ---- calls of the control loop */

enum err worker_new(const struct worker_config *config, struct worker **out, struct why *why)
{
	struct worker *w = alloc_must_zero(1, sizeof *w);
	struct standing_config how = {.spec = config->spec,
		.corpus = config->corpus,
		.key = config->key,
		.member = config->member,
		.dir = config->dir,
		.backend = config->backend,
		.threads = config->threads,
		.memory = config->memory,
		.stop = worker_unwanted,
		.arg = w};
	enum err e = standing_new(&how, &w->standing, why);
	if (e) {
		free(w);
		return e;
	}
	w->spec = config->spec;
	w->windows = config->windows;
	throttle_init(&w->throttle, config->share, config->step_ns);
	w->results = config->results;
	w->jobs = mailbox_new();
	if (pthread_create(&w->thread, NULL, run, w)) {
		mailbox_free(w->jobs);
		standing_free(w->standing);
		free(w);
		return err_why(why, ERR_nomem, "no thread for the compute worker could be started");
	}
	*out = w;
	return ERR_OK;
}

void worker_free(struct worker *w, bool save_last)
{
	if (!w)
		return;
	w->save_last = save_last;
	atomic_store(&w->stop, true);
	mailbox_put(w->jobs, &worker_job_new(WORKER_job_stop)->mail);
	pthread_join(w->thread, NULL);
	mailbox_free(w->jobs);
	standing_free(w->standing);
	free(w);
}

uint64_t worker_params(const struct worker *w)
{
	const struct trainer *t = standing_trainer(w->standing);
	uint64_t n = 0;
	for (uint32_t i = 0; i < trainer_shards(t); i++)
		n += trainer_count(t, i);
	return n;
}

void worker_rate(const struct worker *w, struct rate_ask *ask)
{
	const struct trainer *t = standing_trainer(w->standing);
	uint64_t *params = alloc_must_zero(trainer_shards(t), sizeof *params);
	for (uint32_t i = 0; i < trainer_shards(t); i++)
		params[i] = trainer_count(t, i);
	turns_rate(&w->spec->round, trainer_shards(t), params, ask);
	free(params);
}

void worker_describe(const struct worker *w, char *out, size_t size)
{
	trainer_describe(standing_trainer(w->standing), out, size);
}

void worker_start(struct worker *w, const char *path, const struct ledger_head *at)
{
	struct job *job = worker_job_new(WORKER_job_start);
	if (path) {
		job->path = alloc_must_strdup(path);
		job->head = *at;
	}
	mailbox_put(w->jobs, &job->mail);
}

void worker_train(struct worker *w, const struct plan *plan)
{
	struct job *job = worker_job_new(WORKER_job_train);
	job->plan = *plan;
	job->ticket = atomic_fetch_add(&w->tickets, 1) + 1;
	mailbox_put(w->jobs, &job->mail);
}

void worker_follow(struct worker *w, const struct plan *plan)
{
	struct job *job = worker_job_new(WORKER_job_follow);
	job->plan = *plan;
	job->ticket = atomic_fetch_add(&w->tickets, 1) + 1;
	mailbox_put(w->jobs, &job->mail);
}

void worker_apply(struct worker *w, struct standing_record *records, size_t n,
	const struct ledger_head *head, const struct roster *roster)
{
	struct job *job = worker_job_new(WORKER_job_apply);
	job->records = records;
	job->n = n;
	job->head = *head;
	job->roster = roster;
	mailbox_put(w->jobs, &job->mail);
}

void worker_keep(struct worker *w, uint32_t k)
{
	atomic_store(&w->k, k);
}

void worker_abandon(struct worker *w)
{
	atomic_store(&w->abandoned, atomic_load(&w->tickets));
}
