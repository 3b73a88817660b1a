#include "base/clock.h"
#include "peer/worker_parts.h"

static void drop(struct job *job)
{
	job->mail.drop(&job->mail);
}

void worker_follow_end(struct worker *w)
{
	if (w->follow.job)
		drop(w->follow.job);
	w->follow = (struct follow){
		.saved_ns = w->follow.saved_ns, .save_took_ns = w->follow.save_took_ns};
	w->ticket = 0;
}

/* The next cut comes a round after the last one, so that a round is not longer by the way that the
 * plan has to the peers; late plans make it later. */
static uint64_t next_due(const struct follow *f, const struct plan *plan, uint64_t now)
{
	uint64_t length = (uint64_t)(plan->seconds * (double)CLOCK_SECOND);
	if (!f->due_ns || f->due_ns + length < now)
		return now + (f->due_ns ? 0 : length);
	return f->due_ns + length < now + length ? f->due_ns + length : now + length;
}

/* Takes the job over.  False: it was not begun, for the cause in why if that has a code. */
static bool begin_follow(struct worker *w, struct job *job, struct why *why)
{
	struct follow *f = &w->follow;
	const uint64_t now = clock_now_ns();
	if (atomic_load(&w->abandoned) >= job->ticket)
		return false;
	bool same = f->job && f->job->plan.round == job->plan.round, cut = false;
	if (standing_follow(w->standing, &job->plan, &cut, why))
		return false;
	w->ticket = job->ticket;
	const bool measured = same && f->job->plan.validate; /* the plan is said again */
	if (job->plan.validate && !measured && worker_validate(w, job, why))
		return false;
	if (cut && worker_hand_over(w, job, why))
		return false;
	if (!same)
		f->due_ns = next_due(f, &job->plan, now);
	if (f->job)
		drop(f->job);
	f->job = job;
	f->cut = cut;
	f->starved = false;
	f->work = (struct work){.job = job, .begin_ns = clock_now_ns()};
	return true;
}

void worker_follow_begin(struct worker *w, struct job *job)
{
	struct why why = {0};
	if (begin_follow(w, job, &why))
		return;
	worker_follow_end(w);
	if (why.code && why.code != ERR_interrupted)
		worker_tell_failed(w, job, &why);
	drop(job);
}

/* Saving costs time that training does not have: at most half a hundredth of it. */
static void save_cut(struct worker *w)
{
	struct follow *f = &w->follow;
	const uint64_t now = clock_now_ns();
	/* what the shelf makes its snapshot of */
	bool kept = standing_head(w->standing).round % w->spec->round.snapshot_every == 0;
	if (!kept && f->saved_ns && now - f->saved_ns < 200 * f->save_took_ns)
		return;
	worker_save(w);
	f->saved_ns = clock_now_ns();
	f->save_took_ns = f->saved_ns - now;
}

static enum err cut_all(struct worker *w, struct why *why)
{
	struct follow *f = &w->follow;
	standing_keep(w->standing, atomic_load(&w->k));
	enum err e = standing_follow_cut(w->standing, why);
	if (e)
		return e;
	f->cut = f->in_flight = true;
	f->cut_ns = clock_now_ns();
	e = worker_hand_over(w, f->job, why);
	if (e)
		return e;
	worker_tell_figures(w, &f->work, WORKER_cut);
	/* While it travels, since the round waits for it; most cuts are not saved anyway. */
	save_cut(w);
	return ERR_OK;
}

static enum err step_on(struct worker *w, struct why *why)
{
	struct work *work = &w->follow.work;
	const uint64_t began = clock_now_ns();
	double loss;
	enum err e = standing_follow_step(w->standing, work->steps, &loss, why);
	if (e)
		return e;
	w->follow.rest_ns = worker_stepped(w, work, loss, began);
	return ERR_OK;
}

/* Nothing is cut while records are applied: they end the round that it would be for. */
static bool is_uncut(const struct worker *w)
{
	return !w->follow.cut && !w->applying.job && standing_follow_uncut(w->standing);
}

uint64_t worker_follow_patience(const struct worker *w)
{
	const struct follow *f = &w->follow;
	if (!f->job || f->starved)
		return UINT64_MAX;
	const uint64_t now = clock_now_ns();
	const bool more = standing_follow_left(w->standing);
	if (!more && w->applying.job)
		return UINT64_MAX;
	const bool uncut = is_uncut(w);
	uint64_t until = more ? f->rest_ns : UINT64_MAX;
	if (uncut && (!more || f->due_ns < until))
		until = more ? f->due_ns : 0;
	return until > now && until != UINT64_MAX ? until - now : 0;
}

/* All that was given ahead is trained on: whoever looks must not think that this peer works. */
static void starve(struct worker *w)
{
	w->follow.starved = true;
	worker_tell_figures(w, &w->follow.work, WORKER_starved);
}

void worker_follow_go(struct worker *w)
{
	struct follow *f = &w->follow;
	struct why why = {0};
	enum err e = ERR_OK;
	if (worker_unwanted(w)) {
		worker_follow_end(w);
		return;
	}
	const bool more = standing_follow_left(w->standing);
	if (is_uncut(w) && (!more || clock_now_ns() >= f->due_ns))
		e = cut_all(w, &why);
	else if (more && clock_now_ns() >= f->rest_ns)
		e = step_on(w, &why);
	else if (!more && !w->applying.job)
		starve(w);
	if (!e)
		return;
	if (e != ERR_interrupted)
		worker_tell_failed(w, f->job, &why);
	worker_follow_end(w);
}
