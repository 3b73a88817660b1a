#include "coordinator/hub_sweep.h"
#include "base/alloc.h"
#include "coordinator/failpoint.h"

void hub_sweep_round(struct hub *h, const struct desk_close *c)
{
	struct desk_job *j = desk_job_new(DESK_drop);
	size_t cap = 0;
	for (uint32_t i = 0; i < c->n_shards; i++)
		cap += c->counts[i] + 1;
	j->drop.sweep = true;
	j->drop.keep_round = c->round;
	j->drop.blobs = alloc_must_zero(cap + 1, sizeof *j->drop.blobs);
	for (uint32_t i = 0; i < c->n_shards; i++) {
		for (uint32_t k = 0; k < c->counts[i] && c->out[i].entry.kind != UPDATE_merged; k++)
			if (!hash_is_zero(&c->inputs[i][k].blob))
				j->drop.blobs[j->drop.n++] = c->inputs[i][k].blob;
		if (c->made[i].have) /* it is in the record */
			j->drop.blobs[j->drop.n++] = c->made[i].blob;
	}
	desk_put(h->desk, j);
}

struct pruning {
	struct desk_drop *drop;
	uint32_t seen; /* snapshots */
};

static void add_blob(void *arg, const struct hash *blob)
{
	struct pruning *p = arg;
	struct desk_drop *d = p->drop;
	d->blobs = alloc_must_resize(d->blobs, d->n + 1, sizeof *d->blobs);
	d->blobs[d->n++] = *blob;
}

static void add_record(void *arg, const struct store_entry *e)
{
	add_blob(arg, &e->record);
}

static void add_snapshot(void *arg, const struct store_snapshot *s)
{
	struct pruning *p = arg;
	struct desk_drop *d = p->drop;
	if (++p->seen <= 2)
		return;
	add_blob(arg, &s->blob);
	d->unlinked = alloc_must_resize(d->unlinked, d->n_unlinked + 1, sizeof *d->unlinked);
	d->unlinked[d->n_unlinked++] = s->round;
}

/* What goes, and the entry up to which records go. */
static enum err collect(struct hub *h, struct desk_drop *drop, uint64_t *to, struct why *why)
{
	struct pruning p = {.drop = drop};
	uint64_t from = 0, done = 0;
	enum err err = run_kept_from(&h->run, &from, why);
	if (!err)
		err = store_get_number(h->run.store, "pruned", 0, &done, why);
	if (!err)
		err = store_snapshot_list(h->run.store, add_snapshot, &p, why);
	*to = from > done ? from : done;
	const struct store_range records = {done, (uint32_t)(*to - done)}; /* LIMIT 0 is none */
	if (!err)
		err = store_entry_list(h->run.store, &records, add_record, &p, why);
	if (!err)
		err = store_input_list(h->run.store, *to, add_blob, &p, why);
	return err;
}

enum err hub_sweep_records(struct hub *h, struct why *why)
{
	struct desk_job *j = desk_job_new(DESK_drop);
	uint64_t to = 0;
	enum err err = collect(h, &j->drop, &to, why);
	if (err) {
		desk_job_free(j);
		return err;
	}
	store_begin(h->run.store);
	for (size_t i = 0; i < j->drop.n_unlinked; i++)
		store_snapshot_remove(h->run.store, j->drop.unlinked[i]);
	store_input_remove(h->run.store, to);
	store_put_number(h->run.store, "pruned", to);
	err = store_commit(h->run.store, why);
	failpoint(FAILPOINT_snapshot_stored);
	if (!err)
		desk_put(h->desk, j);
	else
		desk_job_free(j);
	return err;
}
