#include "peer/aggregate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "peer/aggregate_parts.h"

/* ---- results */

static void drop_result(struct mail *m)
{
	struct aggregate_result *r = (struct aggregate_result *)m;
	free(r->bytes);
	shared_drop(r->shared);
	free(r);
}

void aggregate_result_free(struct aggregate_result *r)
{
	if (r)
		drop_result(&r->mail);
}

bool aggregate_is_result(const struct mail *m)
{
	return m->drop == drop_result;
}

static struct aggregate_result *result_new(
	enum aggregate_result_kind kind, const struct aggregate_job *job)
{
	struct aggregate_result *r = alloc_must_zero(1, sizeof *r);
	r->mail.kind = (int)kind;
	r->mail.drop = drop_result;
	r->from = job->from;
	r->round = job->round;
	r->shard = job->shard;
	return r;
}

/* ---- jobs */

static void drop_job(struct mail *m)
{
	struct aggregate_job *job = (struct aggregate_job *)m;
	free(job->items);
	free(job->bytes);
	free(job->update);
	roster_free(job->roster);
	free(job->takes);
	free(job);
}

static struct aggregate_job *job_new(enum aggregate_job_kind kind, uint64_t round, uint32_t shard)
{
	struct aggregate_job *job = alloc_must_zero(1, sizeof *job);
	job->mail.kind = (int)kind;
	job->mail.drop = drop_job;
	job->round = round;
	job->shard = shard;
	return job;
}

void aggregate_roster(struct aggregate *a, const struct roster *roster)
{
	struct aggregate_job *job = job_new(AGGREGATE_job_roster, 0, 0);
	size_t n = roster_count(roster);
	struct roster_member *members = alloc_must_zero(n + 1, sizeof *members);
	for (size_t i = 0; i < n; i++)
		members[i] = *roster_at(roster, i);
	struct why why = {0};
	if (roster_new(&a->spec->id, roster_version(roster), members, n, &job->roster, &why)) {
		fprintf(stderr, "a roster cannot be copied: %s\n", why.text);
		abort();
	}
	free(members);
	mailbox_put(a->jobs, &job->mail);
}

void aggregate_open(
	struct aggregate *a, uint64_t round, const struct hash *parent, const bool *takes)
{
	struct aggregate_job *job = job_new(AGGREGATE_job_open, round, 0);
	job->parent = *parent;
	job->takes = alloc_must_zero(a->n_shards, sizeof *job->takes);
	if (takes)
		memcpy(job->takes, takes, a->n_shards * sizeof *takes);
	mailbox_put(a->jobs, &job->mail);
}

void aggregate_put(
	struct aggregate *a, const struct aggregate_from *from, uint8_t *bytes, size_t len)
{
	struct aggregate_job *job = job_new(AGGREGATE_job_put, 0, 0);
	job->from = *from;
	job->bytes = bytes;
	job->len = len;
	if (atomic_fetch_add(&a->waiting, len) + len > a->memory) {
		free(job->bytes);
		job->bytes = NULL;
	}
	mailbox_put(a->jobs, &job->mail);
}

void aggregate_gather(
	struct aggregate *a, uint64_t round, uint32_t shard, struct aggregate_item *items, size_t n)
{
	struct aggregate_job *job = job_new(AGGREGATE_job_gather, round, shard);
	job->items = items;
	job->n = n;
	mailbox_put(a->jobs, &job->mail);
}

void aggregate_bundle(
	struct aggregate *a, const struct aggregate_from *from, uint64_t round, uint32_t shard)
{
	struct aggregate_job *job = job_new(AGGREGATE_job_bundle, round, shard);
	job->from = *from;
	mailbox_put(a->jobs, &job->mail);
}

void aggregate_witness(struct aggregate *a, uint64_t round, uint32_t shard,
	struct aggregate_item *items, size_t n, uint8_t *bundle, size_t len)
{
	struct aggregate_job *job = job_new(AGGREGATE_job_witness, round, shard);
	job->items = items;
	job->n = n;
	job->bytes = bundle;
	job->len = len;
	mailbox_put(a->jobs, &job->mail);
}

void aggregate_compose(
	struct aggregate *a, uint8_t *entry, size_t entry_len, uint8_t *update, size_t update_len)
{
	struct aggregate_job *job = job_new(AGGREGATE_job_compose, 0, 0);
	job->bytes = entry;
	job->len = entry_len;
	job->update = update;
	job->update_len = update_len;
	mailbox_put(a->jobs, &job->mail);
}

/* ---- the thread */

static enum err put(
	struct aggregate *a, struct aggregate_job *job, struct aggregate_result *r, struct why *why)
{
	atomic_fetch_sub(&a->waiting, job->len);
	if (!job->bytes)
		return err_why(why, ERR_full,
			"this aggregator has more contributions waiting than its %llu bytes hold: "
			"send it to the coordinator",
			(unsigned long long)a->memory);
	return aggregate_keep_put(a, job, r, why);
}

/* Those jobs that have a result. */
static const struct {
	enum aggregate_result_kind result;
	enum err (*work)(struct aggregate *a, struct aggregate_job *job, struct aggregate_result *r,
		struct why *why);
} works[] = {
	[AGGREGATE_job_put] = {AGGREGATE_taken, put},
	[AGGREGATE_job_gather] = {AGGREGATE_update, aggregate_make_update},
	[AGGREGATE_job_bundle] = {AGGREGATE_bundle, aggregate_make_bundle},
	[AGGREGATE_job_witness] = {AGGREGATE_verdict, aggregate_check_bundle},
	[AGGREGATE_job_compose] = {AGGREGATE_record, aggregate_check_record},
};

static void do_job(struct aggregate *a, struct aggregate_job *job)
{
	struct aggregate_result *r;
	switch (job->mail.kind) {
	case AGGREGATE_job_roster:
		roster_free(a->roster);
		a->roster = job->roster;
		job->roster = NULL;
		break;
	case AGGREGATE_job_open: aggregate_keep_open(a, job); break;
	default:
		r = result_new(works[job->mail.kind].result, job);
		r->why.code = works[job->mail.kind].work(a, job, r, &r->why);
		mailbox_put(a->results, &r->mail);
	}
	drop_job(&job->mail);
}

static void *work(void *arg)
{
	struct aggregate *a = arg;
	for (;;) {
		struct mail *m = mailbox_wait(a->jobs, UINT64_MAX);
		bool last = m->kind == AGGREGATE_job_stop;
		if (!last && !atomic_load(&a->stop)) {
			do_job(a, (struct aggregate_job *)m);
			continue;
		}
		m->drop(m);
		if (last)
			return NULL;
	}
}

/* ---- life */

static enum err find_shards(struct aggregate *a, struct why *why)
{
	struct graph *g = NULL;
	enum err err = graph_build(&a->spec->model, 1, 1, &g, why);
	if (err)
		return err;
	a->n_shards = g->n_shards;
	a->values = alloc_must_zero(g->n_shards, sizeof *a->values);
	for (uint32_t i = 0; i < g->n_shards; i++)
		a->values[i] = (size_t)g->shard_params[i];
	graph_free(g);
	return ERR_OK;
}

enum err aggregate_new(
	const struct aggregate_config *config, struct aggregate **out, struct why *why)
{
	struct aggregate *a = alloc_must_zero(1, sizeof *a);
	a->spec = config->spec;
	a->results = config->results;
	a->memory = config->memory;
	enum err err = exchange_find(a->spec, &a->exchange, why);
	if (!err)
		err = find_shards(a, why);
	if (err) {
		free(a);
		return err;
	}
	a->jobs = mailbox_new();
	if (pthread_create(&a->thread, NULL, work, a)) {
		perror("no thread for the aggregator");
		abort();
	}
	*out = a;
	return ERR_OK;
}

void aggregate_free(struct aggregate *a)
{
	if (!a)
		return;
	atomic_store(&a->stop, true);
	mailbox_put(a->jobs, &job_new(AGGREGATE_job_stop, 0, 0)->mail);
	pthread_join(a->thread, NULL);
	mailbox_free(a->jobs);
	aggregate_keep_forget(a, &a->now);
	aggregate_keep_forget(a, &a->before);
	roster_free(a->roster);
	free(a->values);
	free(a);
}
