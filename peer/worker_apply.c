#include "base/log.h"
#include "peer/worker_parts.h"

static void *work(void *arg)
{
	struct worker *w = arg;
	standing_apply_work(w->applying.apply);
	mailbox_put(w->jobs, &worker_job_new(WORKER_job_applied)->mail);
	return NULL;
}

/* False: no thread could be started. */
static bool start(struct worker *w)
{
	return !pthread_create(&w->applying.thread, NULL, work, w);
}

static void end(struct worker *w)
{
	struct job *job = w->applying.job;
	struct why why = {0};
	const enum err e = standing_apply_end(w->applying.apply, &why);
	const bool save = !w->applying.cut_saved;
	w->applying = (struct applying){0};
	if (e) {
		worker_tell_failed(w, job, &why);
	} else {
		if (!w->follow.job) {
			w->unsaved = true;
			if (save && standing_confirmed(w->standing))
				worker_save(w);
		}
		worker_tell_place(w, job, WORKER_applied);
	}
	worker_job_free(job);
}

/* Here and now, from _join on if some of it is done. */
static void finish(struct worker *w)
{
	while (standing_apply_join(w->applying.apply))
		standing_apply_work(w->applying.apply);
	end(w);
}

void worker_apply_begin(struct worker *w, struct job *job)
{
	size_t len;
	w->applying = (struct applying){.job = job,
		.apply = standing_apply_new(
			w->standing, job->records, job->n, &job->head, job->roster),
		.cut_saved = standing_sent(w->standing, 0, &len) && !w->save_failed};
	if (w->follow.job && start(w))
		return;
	standing_apply_work(w->applying.apply);
	finish(w);
}

void worker_apply_go_on(struct worker *w)
{
	if (!w->applying.job) /* somebody could not wait for it */
		return;
	pthread_join(w->applying.thread, NULL);
	if (!standing_apply_join(w->applying.apply))
		end(w);
	else if (!start(w)) {
		standing_apply_work(w->applying.apply);
		finish(w);
	}
}

void worker_apply_settle(struct worker *w)
{
	if (!w->applying.job)
		return;
	pthread_join(w->applying.thread, NULL);
	finish(w);
}
