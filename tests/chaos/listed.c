#include "tests/chaos/listed.h"
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "round/record.h"

#define BLOB_MOST (64u << 20) /* larger ones are snapshots */

/* A record or a contribution, and the data of which it speaks; anything else speaks of none. */
struct listed_blob {
	struct hash name;
	struct listed_work *work; /* entry 0 */
	size_t n_work;
	struct hash *inputs; /* of a merged update: the contributions' own blobs */
	size_t n_inputs;
};

static struct listed_blob *find(const struct listed *l, const struct hash *name)
{
	for (size_t i = l->n_blobs; i--;) /* the newest are asked for most */
		if (hash_equal(&l->blobs[i].name, name))
			return &l->blobs[i];
	return NULL;
}

static void put(struct listed_work **list, size_t *n, const struct listed_work *w)
{
	*list = alloc_must_resize(*list, *n + 1, sizeof **list);
	(*list)[(*n)++] = *w;
}

static void take_contribution(struct listed_blob *b, const struct contribution *c)
{
	for (uint32_t i = 0; i < c->n_spans; i++)
		put(&b->work, &b->n_work,
			&(struct listed_work){
				.shard = c->shard, .peer = c->peer, .span = c->spans[i]});
}

static void take_update(struct listed_blob *b, const struct update *u)
{
	for (uint32_t i = 0; u->views && i < u->count; i++)
		take_contribution(b, &u->views[i].says);
	if (!u->inputs)
		return;
	b->inputs = alloc_must_resize(NULL, u->count, sizeof *b->inputs);
	memcpy(b->inputs, u->inputs, u->count * sizeof *b->inputs);
	b->n_inputs = u->count;
}

static void read_blob(struct listed *l, const struct hash *name, const char *path)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	struct record record;
	struct contribution_view view;
	if (file_read(path, BLOB_MOST, &bytes, &n, NULL))
		return; /* dropped between the two */
	l->blobs = alloc_must_resize(l->blobs, l->n_blobs + 1, sizeof *l->blobs);
	struct listed_blob *b = &l->blobs[l->n_blobs++];
	*b = (struct listed_blob){.name = *name};
	if (!record_open(bytes, n, &record, NULL)) {
		take_update(b, &record.update);
		record_release(&record);
	} else if (!contribution_parse(bytes, n, &view, NULL)) {
		take_contribution(b, &view.says);
	}
	free(bytes);
}

void listed_look(struct listed *l, const char *folder)
{
	DIR *d = opendir(folder);
	for (struct dirent *e; d && (e = readdir(d));) {
		struct hash name;
		if (hash_parse(e->d_name, &name) || find(l, &name))
			continue;
		char *path = alloc_must_printf("%s/%s", folder, e->d_name);
		read_blob(l, &name, path);
		free(path);
	}
	if (d)
		closedir(d);
}

static void add_blob(struct listed *l, uint64_t entry, const struct listed_blob *b)
{
	for (size_t i = 0; i < b->n_work; i++) {
		struct listed_work w = b->work[i];
		w.entry = entry;
		put(&l->work, &l->n_work, &w);
	}
}

enum err listed_add(struct listed *l, uint64_t entry, const struct hash *record, struct why *why)
{
	const struct listed_blob *b = find(l, record);
	if (!b)
		return err_why(why, ERR_missing, "the record of ledger entry %llu was never seen",
			(unsigned long long)entry);
	add_blob(l, entry, b);
	for (size_t i = 0; i < b->n_inputs; i++) {
		const struct listed_blob *input = find(l, &b->inputs[i]);
		if (!input)
			return err_why(why, ERR_missing,
				"a contribution that ledger entry %llu merged was never seen",
				(unsigned long long)entry);
		add_blob(l, entry, input);
	}
	return ERR_OK;
}

static int by_place(const void *a, const void *b)
{
	const struct listed_work *x = a, *y = b;
	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return (x->span.first > y->span.first) - (x->span.first < y->span.first);
}

enum err listed_once(struct listed *l, uint64_t *count, struct why *why)
{
	*count = 0;
	if (l->n_work)
		qsort(l->work, l->n_work, sizeof *l->work, by_place);
	for (size_t i = 0; i < l->n_work; i++) {
		const struct listed_work *w = &l->work[i], *before = i ? w - 1 : NULL;
		if (before && before->shard == w->shard && before->span.last > w->span.first)
			return err_why(why, ERR_duplicate,
				"sequence %llu of shard %u is listed twice: in ledger entry %llu "
				"by "
				"member %u, and in entry %llu by member %u",
				(unsigned long long)w->span.first, w->shard,
				(unsigned long long)before->entry, before->peer,
				(unsigned long long)w->entry, w->peer);
		*count += w->span.last - w->span.first;
	}
	return ERR_OK;
}

void listed_release(struct listed *l)
{
	for (size_t i = 0; i < l->n_blobs; i++) {
		free(l->blobs[i].work);
		free(l->blobs[i].inputs);
	}
	free(l->blobs);
	free(l->work);
	*l = (struct listed){0};
}
