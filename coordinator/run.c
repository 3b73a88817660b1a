#include "coordinator/run.h"
#include "round/shardstate.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "coordinator/leftover.h"
#include "coordinator/run_first.h"
#include "coordinator/run_mend.h"
#include "net/signed.h"

/* ---- the spec */

static enum err compare_specs(
	const struct run *r, const struct spec *held, const struct spec *given, struct why *why)
{
	struct buf diff;
	if (hash_equal(&held->id, &given->id))
		return ERR_OK;
	buf_init(&diff, SPEC_MISTAKES_MAX);
	spec_diff(held, given, &diff);
	char *lines = alloc_must_printf("%.*s", (int)diff.len, (const char *)diff.data);
	for (char *c = lines; (c = strchr(c, '\n'));)
		*c = c[1] ? ',' : 0;
	enum err err = err_why(why, ERR_spec,
		"%s holds the run %s with another spec (%s): use its own spec or another --dir",
		r->dir, held->name, lines);
	free(lines);
	buf_release(&diff);
	return err;
}

/* The spec that the folder holds, or given when there is none yet (*fresh). */
static enum err find_spec(struct run *r, const struct spec *given, bool *fresh, struct why *why)
{
	uint8_t *text = NULL;
	size_t n = 0;
	enum err err = store_get(r->store, "spec", &text, &n, why);
	*fresh = err == ERR_missing;
	if (!err) {
		err = spec_parse(text, n, &r->spec, NULL, why);
		free(text);
		return err || !given ? err : compare_specs(r, r->spec, given, why);
	}
	if (!*fresh)
		return err;
	if (!given)
		return err_why(why, ERR_missing, "%s holds no run", r->dir);
	return spec_parse(given->text, strlen(given->text), &r->spec, NULL, why);
}

static enum err derive(struct run *r, struct why *why)
{
	enum err err = graph_build(&r->spec->model, 1, 1, &r->graph, why);
	if (!err)
		err = exchange_find(r->spec, &r->exchange, why);
	if (err)
		return err;
	r->files = (struct shardfile){.dir = r->state_dir,
		.run = r->spec->id,
		.rule = r->exchange.rule.row,
		.n_shards = r->graph->n_shards,
		.n = r->graph->shard_params};
	r->start = alloc_must_zero(r->graph->n_shards, sizeof *r->start);
	return ERR_OK;
}

/* ---- what was committed */

static enum err read_start(struct run *r, struct why *why)
{
	uint8_t *bytes = NULL;
	size_t n = 0, want = r->graph->n_shards * sizeof *r->start;
	enum err err = store_get(r->store, "start", &bytes, &n, why);
	if (!err && n == want)
		memcpy(r->start, bytes, n);
	else if (!err || err == ERR_missing)
		err = err_why(why, ERR_hash, "%s does not say how the run began: it is damaged",
			r->store_path);
	free(bytes);
	r->genesis = ledger_genesis(&r->spec->id, r->start, r->graph->n_shards);
	return err;
}

struct reading {
	struct run *run;
	enum err err;
	struct why why;
};

static void take_entry(void *arg, const struct store_entry *row)
{
	struct reading *in = arg;
	struct ledger_entry e = {0};
	size_t used;
	if (in->err)
		return;
	in->err = ledger_entry_decode(row->entry, row->entry_len, &used, &e, &in->why);
	if (!in->err)
		in->err = ledger_append(in->run->ledger, &e, &in->why);
	if (in->err)
		in->err = err_why(&in->why, in->err, "%s, ledger entry %llu: %s",
			in->run->store_path, (unsigned long long)row->sequence, in->why.text);
	ledger_entry_release(&e);
}

static enum err read_ledger(struct run *r, struct why *why)
{
	const struct store_range all = {0, UINT32_MAX};
	struct reading in = {.run = r};
	r->ledger = ledger_new(&r->spec->id, r->start, r->graph->n_shards);
	enum err err = store_entry_list(r->store, &all, take_entry, &in, why);
	if (!err && in.err)
		err = err_why(why, in.err, "%s", in.why.text);
	return err;
}

/* The signed head must be where the entries lead: both were written in one transaction. */
static enum err read_head(struct run *r, struct why *why)
{
	uint8_t *text = NULL;
	size_t n = 0;
	json_t *body = NULL;
	struct ledger_head signed_head, head = ledger_at(r->ledger);
	struct sign_public key = sign_public_of(r->keys.run);
	struct why said = {0};
	enum err err = store_get(r->store, "head", &text, &n, &said);
	if (!err)
		err = signed_open(text, n, "head", key.b, &body, &said);
	if (!err)
		err = ledger_head_parse(body, &r->spec->id, &signed_head, &said);
	if (!err && (signed_head.sequence != head.sequence ||
			    !hash_equal(&signed_head.hash, &head.hash)))
		err = err_why(&said, ERR_fork, "it is for another ledger than the entries");
	json_decref(body);
	r->head_text = (char *)text;
	if (err)
		return err_why(why, err,
			"the signed head in %s does not hold (%s): were the keys in %s/keys "
			"replaced?",
			r->store_path, said.text, r->dir);
	return ERR_OK;
}

static char *sign_spec(const struct run *r)
{
	char hex[HASH_HEX];
	json_t *spec = NULL;
	hash_hex(&r->spec->id, hex);
	if (json_parse(r->spec->text, strlen(r->spec->text), SPEC_MAX_BYTES, &spec, NULL))
		return NULL;
	json_t *body = json_pack("{s:s, s:o}", "id", hex, "spec", spec);
	char *text = signed_make("spec", body, r->keys.run);
	json_decref(body);
	return text;
}

static enum err read_all(struct run *r, struct why *why)
{
	enum err err = read_start(r, why);
	if (!err)
		err = read_ledger(r, why);
	if (!err)
		err = read_head(r, why);
	if (!err)
		err = members_load(r->store, &r->spec->id, r->keys.run, &r->members, why);
	if (!err && !(r->spec_text = sign_spec(r)))
		err = err_why(why, ERR_nomem, "no memory for the spec");
	return err;
}

/* ---- opening */

static enum err open_keys(struct run *r, const struct run_config *c, struct why *why)
{
	char *dir = alloc_must_printf("%s/keys", r->dir);
	enum err err = ERR_OK;
	if (!identity_coordinator_exists(dir)) {
		if (file_exists(r->store_path))
			err = err_why(why, ERR_missing,
				"%s holds no run key, but %s is there: put the keys back from "
				"their backup (shoal-coordinator restore FILE --dir %s)",
				dir, r->store_path, r->dir);
		else if (c->serving && c->spec)
			err = identity_coordinator_make(dir, NULL, why);
		else
			err = err_why(why, ERR_missing, "%s holds no run", r->dir);
	}
	if (!err)
		err = identity_coordinator_open(dir, &r->keys, why);
	free(dir);
	return err;
}

static enum err open_folder(struct run *r, const struct run_config *c, struct why *why)
{
	char *lock = alloc_must_printf("%s/lock", r->dir),
	     *blobs = alloc_must_printf("%s/blobs", r->dir);
	enum err err = ERR_OK;
	if (c->serving && c->spec)
		err = file_mkdirs(r->state_dir, 0700, why);
	if (!err && c->serving)
		err = file_lock(lock, &r->lock, why);
	if (!err)
		err = open_keys(r, c, why);
	if (!err && !c->serving && !file_exists(r->store_path))
		err = err_why(why, ERR_missing, "%s holds no run", r->dir);
	if (!err)
		err = store_open(r->store_path, &r->store, why);
	if (!err)
		err = blob_open(blobs, 0, &r->blobs, why);
	free(lock);
	free(blobs);
	return err;
}

enum err run_open(const struct run_config *config, struct run *r, struct why *why)
{
	bool fresh = false;
	*r = (struct run){.lock = -1,
		.dir = alloc_must_strdup(config->dir),
		.state_dir = alloc_must_printf("%s/state", config->dir),
		.store_path = alloc_must_printf("%s/store.sqlite", config->dir)};
	enum err err = ERR_OK;
	if (config->spec) /* before anything is made */
		err = exchange_find(config->spec, &r->exchange, why);
	if (!err)
		err = open_folder(r, config, why);
	if (!err)
		err = find_spec(r, config->spec, &fresh, why);
	if (!err)
		err = derive(r, why);
	const struct leftover left = {r->dir, r->state_dir, r->store_path};
	if (!err && fresh)
		err = leftover_check(&left, 0, why);
	if (!err && fresh)
		err = run_first(r, config->init, why);
	if (!err)
		err = read_all(r, why);
	if (!err && config->serving)
		err = leftover_check(&left, run_head(r).round, why);
	if (!err && config->serving)
		err = run_mend(r, why);
	return err;
}

void run_release(struct run *r)
{
	if (!r)
		return;
	members_free(r->members);
	ledger_free(r->ledger);
	blob_close(r->blobs);
	store_close(r->store);
	identity_coordinator_release(&r->keys);
	graph_free(r->graph);
	spec_free(r->spec);
	free(r->start);
	free(r->head_text);
	free(r->spec_text);
	free(r->dir);
	free(r->state_dir);
	free(r->store_path);
	if (r->lock >= 0)
		close(r->lock);
	*r = (struct run){.lock = -1};
}

/* ---- asking */

struct ledger_head run_head(const struct run *r)
{
	return ledger_at(r->ledger);
}

struct hash run_state(const struct run *r)
{
	uint32_t n = r->graph->n_shards;
	struct hash *states = alloc_must_zero(n, sizeof *states);
	for (uint32_t i = 0; i < n; i++)
		states[i] = ledger_state(r->ledger, i);
	struct hash all = shardstate_hash_all(states, n);
	free(states);
	return all;
}

bool run_knows(const struct run *r, uint64_t sequence, const struct hash *head)
{
	struct hash ours;
	return ledger_hash_at(r->ledger, sequence, &ours) && hash_equal(&ours, head);
}

char *run_sign_head(const struct run *r, const struct ledger_head *head)
{
	json_t *body = ledger_head_json(head, &r->spec->id);
	char *text = signed_make("head", body, r->keys.run);
	json_decref(body);
	return text;
}

struct replay run_replay(const struct run *r)
{
	return (struct replay){.store = r->store,
		.blobs = r->blobs,
		.roster = members_roster(r->members),
		.exchange = r->exchange,
		.run = r->spec->id,
		.genesis = r->genesis,
		.n_shards = r->graph->n_shards};
}

struct invites run_invites(const struct run *r)
{
	return (struct invites){r->store, &r->spec->id, r->keys.run};
}

struct second {
	uint32_t seen;
	uint64_t sequence;
};

static void see_snapshot(void *arg, const struct store_snapshot *p)
{
	struct second *s = arg;
	if (++s->seen <= 2) /* a folder that was rebuilt begins with one */
		s->sequence = p->sequence;
}

enum err run_kept_from(const struct run *r, uint64_t *sequence, struct why *why)
{
	struct second s = {0};
	enum err err = store_snapshot_list(r->store, see_snapshot, &s, why);
	*sequence = s.sequence;
	return err;
}
