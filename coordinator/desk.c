#include "coordinator/desk.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "coordinator/failpoint.h"
#include "coordinator/snapshot.h"

struct desk {
	struct desk_config config;
	struct mailbox *jobs;
	pthread_t thread;
	atomic_bool stop; /* what was not begun is not done any more */
};

enum { DESK_stop = 1000 };

static void drop_job(struct mail *m)
{
	desk_job_free((struct desk_job *)m);
}

struct desk_job *desk_job_new(enum desk_kind kind)
{
	struct desk_job *j = alloc_must_zero(1, sizeof *j);
	j->mail.kind = (int)kind;
	j->mail.drop = drop_job;
	return j;
}

void desk_job_free(struct desk_job *j)
{
	if (!j)
		return;
	free(j->gate.bytes);
	free(j->update.bytes);
	free(j->update.items);
	for (uint32_t i = 0; i < j->close.n_shards; i++) {
		if (j->close.inputs)
			free(j->close.inputs[i]);
		if (j->close.out)
			closing_release(&j->close.out[i]);
	}
	free(j->close.states);
	free(j->close.counts);
	free(j->close.inputs);
	free(j->close.made);
	free(j->close.out);
	free(j->drop.blobs);
	free(j->drop.unlinked);
	free(j);
}

bool desk_is_job(const struct mail *m)
{
	return m->drop == drop_job;
}

static void do_gate(struct desk *d, struct desk_job *j)
{
	struct desk_gate *g = &j->gate;
	struct gate_passed passed;
	g->expect.assigned = g->spans;
	enum err err = gate_check(&g->expect, g->bytes, g->len, &passed, &j->why);
	if (!err) {
		g->says = passed.says;
		g->id = passed.id;
		codec_release(&passed.vector);
		err = blob_put(d->config.blobs, g->bytes, g->len, &g->blob, &j->why);
		failpoint(FAILPOINT_contribution_blob);
	}
	j->why.code = err;
}

static void do_update(struct desk *d, struct desk_job *j)
{
	struct desk_update *u = &j->update;
	struct update_made made;
	uint8_t *bytes = u->bytes;
	u->bytes = NULL;
	u->what.items = u->items;
	u->what.exchange = d->config.exchange;
	u->what.run = d->config.files.run;
	u->what.n = d->config.files.n[u->what.shard];
	enum err err = gathered_check(&u->what, bytes, u->len, &made, &u->came, &j->why);
	if (!err) {
		u->kind = made.update.kind;
		u->merged = made.update.merged;
		err = blob_put(d->config.blobs, made.bytes.data, made.bytes.len, &u->blob, &j->why);
		update_make_release(&made);
	}
	j->why.code = err;
}

static void do_close(struct desk *d, struct desk_job *j)
{
	struct desk_close *c = &j->close;
	struct closing closing = {.files = &d->config.files,
		.blobs = d->config.blobs,
		.exchange = d->config.exchange,
		.run = d->config.files.run,
		.parent = c->parent,
		.round = c->round};
	enum err err = ERR_OK;
	c->head = c->parent;
	for (uint32_t i = 0; !err && i < c->n_shards; i++) {
		const struct closing_job job = {i, c->counts[i], c->states[i], c->inputs[i],
			c->made[i].have ? &c->made[i].blob : NULL};
		closing.contribution_most =
			contribution_bound(&d->config.exchange.codec, d->config.files.n[i]);
		err = closing_shard(&closing, &job, &c->head, &c->out[i], &j->why);
	}
	j->why.code = err;
}

static void do_snapshot(struct desk *d, struct desk_job *j)
{
	const struct snapshot s = {.files = &d->config.files,
		.blobs = d->config.blobs,
		.spec = d->config.spec,
		.head = j->snapshot.head,
		.link_dir = d->config.dir};
	j->why.code = snapshot_make(&s, &j->snapshot.blob, &j->snapshot.bytes, &j->why);
	failpoint(FAILPOINT_snapshot_written);
}

static void do_drop(struct desk *d, struct desk_job *j)
{
	enum err err = ERR_OK;
	for (size_t i = 0; i < j->drop.n; i++) {
		enum err one = blob_remove(d->config.blobs, &j->drop.blobs[i], &j->why);
		if (one && one != ERR_missing)
			err = one;
	}
	for (size_t i = 0; i < j->drop.n_unlinked; i++)
		snapshot_unlink(d->config.dir, j->drop.unlinked[i]);
	if (j->drop.sweep)
		shardfile_sweep(&d->config.files, j->drop.keep_round);
	j->why.code = err;
}

static void *work(void *arg)
{
	struct desk *d = arg;
	for (;;) {
		struct mail *m = mailbox_wait(d->jobs, UINT64_MAX);
		if (m->kind == DESK_stop) {
			free(m);
			return NULL;
		}
		if (atomic_load(&d->stop)) {
			m->drop(m);
			continue;
		}
		struct desk_job *j = (struct desk_job *)m;
		switch (m->kind) {
		case DESK_gate: do_gate(d, j); break;
		case DESK_update: do_update(d, j); break;
		case DESK_close: do_close(d, j); break;
		case DESK_snapshot: do_snapshot(d, j); break;
		case DESK_drop: do_drop(d, j); break;
		}
		mailbox_put(d->config.events, m);
	}
}

struct desk *desk_new(const struct desk_config *config)
{
	struct desk *d = alloc_must_zero(1, sizeof *d);
	d->config = *config;
	d->jobs = mailbox_new();
	if (pthread_create(&d->thread, NULL, work, d)) {
		perror("no thread for the coordinator's desk");
		abort();
	}
	return d;
}

static void drop_stop(struct mail *m)
{
	free(m);
}

void desk_free(struct desk *d)
{
	if (!d)
		return;
	struct mail *stop = alloc_must_zero(1, sizeof *stop);
	stop->kind = DESK_stop;
	stop->drop = drop_stop;
	atomic_store(&d->stop, true);
	mailbox_put(d->jobs, stop);
	pthread_join(d->thread, NULL);
	mailbox_free(d->jobs);
	free(d);
}

void desk_put(struct desk *d, struct desk_job *j)
{
	mailbox_put(d->jobs, &j->mail);
}
