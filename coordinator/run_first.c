#include "coordinator/run_first.h"
#include <stdlib.h>
#include <string.h>
#include "coordinator/failpoint.h"
#include "coordinator/snapshot.h"
#include "model/hfinit.h"

static enum err commit(struct run *r, const struct store_snapshot *snapshot, struct why *why)
{
	const struct ledger_head head = {0, 0, r->genesis};
	char *text = run_sign_head(r, &head);
	store_begin(r->store);
	store_put(r->store, "spec", r->spec->text, strlen(r->spec->text));
	store_put(r->store, "start", r->start, r->graph->n_shards * sizeof *r->start);
	store_put(r->store, "head", text, strlen(text));
	store_put_number(r->store, "cursor", 0);
	store_snapshot_add(r->store, snapshot);
	failpoint(FAILPOINT_inside_commit);
	enum err err = store_commit(r->store, why);
	free(text);
	return err;
}

enum err run_first(struct run *r, const char *init, struct why *why)
{
	struct store_snapshot row = {0};
	struct hfmodel *from = NULL;
	enum err err = ERR_OK;
	if (!hash_is_zero(&r->spec->init))
		err = hfinit_open(init, r->spec, &from, why);
	if (!err)
		err = shardfile_start(&r->files, r->graph, r->spec, from, r->start, why);
	hfmodel_close(from);
	if (err)
		return err;
	r->genesis = ledger_genesis(&r->spec->id, r->start, r->graph->n_shards);
	row.head = r->genesis;
	const struct snapshot s = {.files = &r->files,
		.blobs = r->blobs,
		.spec = r->spec->text,
		.head = {0, 0, r->genesis},
		.link_dir = r->dir};
	err = snapshot_make(&s, &row.blob, &row.bytes, why);
	failpoint(FAILPOINT_snapshot_written);
	return err ? err : commit(r, &row, why);
}
