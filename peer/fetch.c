#include "peer/fetch.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/version.h"
#include "model/manifest.h"
#include "net/https_client.h"
#include "net/signed.h"
#include "round/blob.h"
#include "round/record.h"

#define DOCUMENT_MAX SIGNED_MAX
#define TELL_EVERY (500 * CLOCK_MS)
#define RECORD_MAX (1ull << 30)
#define RECORDS_AT_ONCE 256 /* of one job: what a long absence missed comes in pieces */

struct job {
	struct mail mail; /* kind: enum fetch_job */
	uint64_t sequence;
};

struct fetch {
	const struct joinlink *link;
	const struct identity_peer *identity;
	char *dir, *name;
	struct mailbox *jobs, *results;
	struct blob_store *blobs;
	struct https_client *client;
	struct statement statement;
	struct spec *spec; /* own copy: the control loop has another */
	bool trusted;
	struct hash snapshot; /* the last one fetched: removed when it has served */
	pthread_t thread;
	atomic_bool stop;
	uint64_t told_ns;
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

static struct fetch_result *result_new(enum fetch_result_kind kind, enum fetch_job job)
{
	struct fetch_result *r = alloc_must_zero(1, sizeof *r);
	r->mail.kind = (int)kind;
	r->mail.drop = drop_result;
	r->job = job;
	return r;
}

/* Trying again cannot help: somebody has to do something. */
static bool for_good(enum err code)
{
	switch (code) {
	case ERR_signature:
	case ERR_wrong_run:
	case ERR_invite:
	case ERR_unknown_peer:
	case ERR_version:
	case ERR_spec:
	case ERR_permission:
	case ERR_exists:
	case ERR_range: return true;
	default: return false;
	}
}

/* ---- documents */

static enum err get_signed(
	struct fetch *f, const char *path, const char *type, json_t **body, struct why *why)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	enum err e = https_client_get(f->client, path, DOCUMENT_MAX, &bytes, &n, why);
	if (!e)
		e = signed_open(bytes, n, type, f->link->key.b, body, why);
	free(bytes);
	return e;
}

static enum err get_roster(struct fetch *f, struct roster **out, struct why *why)
{
	json_t *body = NULL;
	enum err e = get_signed(f, "/api/v1/roster", "roster", &body, why);
	if (!e)
		e = roster_parse(body, &f->link->run, out, why);
	json_decref(body);
	return e;
}

static enum err get_spec(struct fetch *f, struct spec **out, struct why *why)
{
	json_t *body = NULL;
	enum err e = get_signed(f, "/api/v1/spec", "spec", &body, why);
	if (e)
		return e;
	char *text = json_canonical(json_object_get(body, "spec"));
	json_decref(body);
	if (!text)
		return err_why(why, ERR_syntax, "the coordinator's spec document has no spec");
	e = spec_parse(text, strlen(text), out, NULL, why);
	free(text);
	if (e)
		return e;
	if (!hash_equal(&(*out)->id, &f->link->run)) {
		char theirs[HASH_HEX], ours[HASH_HEX];
		hash_hex(&(*out)->id, theirs);
		hash_hex(&f->link->run, ours);
		spec_free(*out);
		*out = NULL;
		return err_why(why, ERR_spec,
			"the coordinator's spec is run %.12s, the join link is for run %.12s",
			theirs, ours);
	}
	return ERR_OK;
}

static json_t *join_request(const struct fetch *f)
{
	char sign[2 * SIGN_PUBLIC + 1], curve[2 * ROSTER_CURVE + 1], run[HASH_HEX];
	struct sign_public key = sign_public_of(f->identity->sign);
	signed_hex(key.b, sizeof key.b, sign);
	signed_hex(f->identity->curve.public_key, ROSTER_CURVE, curve);
	hash_hex(&f->link->run, run);
	json_t *body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:s}", "invite", f->link->invite,
		"name", f->name, "version", version_text(), "sign", sign, "curve", curve,
		"instance", (json_int_t)(f->identity->instance & (uint64_t)INT64_MAX), "run", run);
	char *text = signed_make("join", body, f->identity->sign);
	json_t *signed_body = json_loads(text, 0, NULL);
	free(text);
	json_decref(body);
	return signed_body;
}

static enum err do_join(struct fetch *f, struct fetch_result *r, struct why *why)
{
	enum err e = ERR_OK;
	if (!f->trusted) {
		e = https_client_contact(f->client, f->link, clock_wall_s(), &f->statement, why);
		f->trusted = !e;
	}
	json_t *answer = NULL;
	if (!e) {
		json_t *request = join_request(f);
		e = https_client_post_json(
			f->client, "/api/v1/join", request, DOCUMENT_MAX, &answer, why);
		json_decref(request);
	}
	json_int_t number = json_integer_value(json_object_get(answer, "number"));
	json_int_t port = json_integer_value(json_object_get(answer, "link_port"));
	json_decref(answer);
	if (!e && (number < 0 || number >= UINT32_MAX || port < 1 || port > 65535))
		e = err_why(why, ERR_syntax,
			"the coordinator's answer to the registration has no number and port");
	if (!e)
		e = get_spec(f, &r->spec, why);
	if (!e)
		e = get_roster(f, &r->roster, why);
	if (e)
		return e;
	r->number = (uint32_t)number;
	memcpy(r->curve, f->statement.curve, sizeof r->curve);
	bool v6 = strchr(f->link->host, ':') != NULL;
	snprintf(r->address, sizeof r->address, v6 ? "[%.200s]:%d" : "%.200s:%d", f->link->host,
		(int)port);
	spec_free(f->spec);
	f->spec = NULL;
	return spec_parse(r->spec->text, strlen(r->spec->text), &f->spec, NULL, why);
}

/* ---- blobs */

struct sink {
	struct fetch *fetch;
	enum fetch_job job;
	struct blob_part *part;
};

static enum err sink_put(void *arg, const void *bytes, size_t n, struct why *why)
{
	return blob_part_put(((struct sink *)arg)->part, bytes, n, why);
}

static void sink_progress(void *arg, uint64_t have, uint64_t size)
{
	struct sink *s = arg;
	uint64_t now = clock_now_ns();
	if (now - s->fetch->told_ns < TELL_EVERY)
		return;
	s->fetch->told_ns = now;
	struct fetch_result *r = result_new(FETCH_result_progress, s->job);
	r->done = have;
	r->total = size;
	mailbox_put(s->fetch->results, &r->mail);
}

static void blob_url(const struct hash *name, char out[static 96])
{
	char hex[HASH_HEX];
	hash_hex(name, hex);
	snprintf(out, 96, "/api/v1/blob/%s", hex);
}

/* Into the store, going on where an earlier try stopped. */
static enum err get_blob(struct fetch *f, enum fetch_job job, const struct hash *name,
	uint64_t size, struct why *why)
{
	char path[96];
	struct sink sink = {.fetch = f, .job = job};
	if (blob_has(f->blobs, name))
		return ERR_OK;
	blob_url(name, path);
	enum err e = blob_part_open(f->blobs, name, size, &sink.part, why);
	if (e)
		return e == ERR_exists ? ERR_OK : e;
	struct https_client_sink how = {.arg = &sink,
		.have = blob_part_have(sink.part),
		.size = size,
		.put = sink_put,
		.progress = sink_progress};
	if (how.have < size)
		e = https_client_download(f->client, path, &how, why);
	if (e) {
		blob_part_close(sink.part);
		return e;
	}
	return blob_part_commit(sink.part, why);
}

/* A small blob in memory, when its size is not known but bounded. */
static enum err get_small(struct fetch *f, const struct hash *name, size_t most, uint8_t **bytes,
	size_t *n, struct why *why)
{
	char path[96];
	blob_url(name, path);
	enum err e = https_client_get(f->client, path, most, bytes, n, why);
	if (e)
		return e;
	struct hash is = hash_of(*bytes, *n);
	if (hash_equal(&is, name))
		return ERR_OK;
	free(*bytes);
	*bytes = NULL;
	return err_why(why, ERR_hash, "%s is not what the coordinator sent for it", path);
}

static enum err get_shards(struct fetch *f, const struct manifest_split *split, struct why *why)
{
	enum err e = ERR_OK;
	for (size_t i = 0; !e && i < split->n_shards; i++)
		e = get_blob(f, FETCH_data, &split->shards[i].hash, split->shards[i].bytes, why);
	return e;
}

static enum err do_data(struct fetch *f, struct why *why)
{
	uint8_t *text = NULL, *tokenizer = NULL;
	size_t n = 0, n_tokenizer = 0;
	struct manifest *m = NULL;
	struct hash stored;
	enum err e = get_small(f, &f->spec->manifest, MANIFEST_FILE_MAX, &text, &n, why);
	if (!e)
		e = manifest_parse(text, n, &m, why);
	if (!e)
		e = get_small(f, &m->tokenizer, TOKENIZER_FILE_MAX, &tokenizer, &n_tokenizer, why);
	if (!e)
		e = blob_put(f->blobs, tokenizer, n_tokenizer, &stored, why);
	if (!e)
		e = get_shards(f, &m->train, why);
	if (!e)
		e = get_shards(f, &m->validation, why);
	if (!e) {
		char *path = alloc_must_printf("%s/manifest.json", f->dir);
		e = file_write(path, text, n, 0644, why);
		free(path);
	}
	manifest_free(m);
	free(text);
	free(tokenizer);
	return e;
}

/* ---- the ledger */

struct snapshot_place {
	struct hash blob;
	uint64_t bytes;
	struct ledger_head at, head;
};

static enum err read_place(const json_t *body, struct snapshot_place *out, struct why *why)
{
	struct buf mistakes;
	struct json_in at;
	buf_init(&mistakes, 4096);
	json_in_init(&at, json_object_get(body, "snapshot"), "snapshot", &mistakes);
	out->at.round = (uint64_t)json_get_int(&at, "round", 0, INT64_MAX, NULL);
	out->at.sequence = (uint64_t)json_get_int(&at, "sequence", 0, INT64_MAX, NULL);
	out->at.hash = json_get_hash(&at, "head", true);
	out->blob = json_get_hash(&at, "blob", true);
	out->bytes = (uint64_t)json_get_int(&at, "bytes", 1, INT64_MAX, NULL);
	bool bad = mistakes.len || !buf_ok(&mistakes) ||
		   !json_is_object(json_object_get(body, "snapshot"));
	buf_release(&mistakes);
	return bad ? err_why(why, ERR_syntax, "the coordinator's state document names no snapshot")
		   : ERR_OK;
}

static void forget_snapshot(struct fetch *f)
{
	struct why why;
	if (!hash_is_zero(&f->snapshot) && blob_has(f->blobs, &f->snapshot) &&
		blob_remove(f->blobs, &f->snapshot, &why))
		log_warn(peer, "%s", why.text);
	f->snapshot = (struct hash){0};
}

static enum err do_snapshot(struct fetch *f, struct fetch_result *r, struct why *why)
{
	json_t *body = NULL;
	struct snapshot_place place = {0};
	forget_snapshot(f);
	enum err e = get_signed(f, "/api/v1/state", "state", &body, why);
	if (!e)
		e = read_place(body, &place, why);
	json_decref(body);
	if (!e)
		e = get_blob(f, FETCH_snapshot, &place.blob, place.bytes, why);
	if (e)
		return e;
	f->snapshot = place.blob;
	r->head = place.at;
	r->path = blob_path(f->blobs, &place.blob);
	return ERR_OK;
}

static enum err get_record(
	struct fetch *f, const json_t *item, struct fetch_result *r, struct why *why)
{
	struct hash name;
	const char *hex = json_string_value(json_object_get(item, "blob"));
	json_int_t size = json_integer_value(json_object_get(item, "bytes"));
	if (!hex || hash_parse(hex, &name) || size < 1 || (uint64_t)size > RECORD_MAX)
		return err_why(
			why, ERR_syntax, "the coordinator's list of ledger entries is malformed");
	uint8_t *bytes = NULL;
	size_t n = 0;
	enum err e = get_small(f, &name, (size_t)size, &bytes, &n, why);
	if (!e)
		r->records[r->n_records++] = (struct standing_record){bytes, n};
	return e;
}

/* The head may move while we fetch: what is handed over ends where the signed head of the start
 * stands, or, when there is too much for one job, before it; the control loop asks again. */
static enum err do_records(
	struct fetch *f, uint64_t sequence, struct fetch_result *r, struct why *why)
{
	json_t *body = NULL, *list = NULL;
	char path[64];
	enum err e = get_signed(f, "/api/v1/head", "head", &body, why);
	if (!e)
		e = ledger_head_parse(body, &f->link->run, &r->head, why);
	json_decref(body);
	if (!e)
		e = get_roster(f, &r->roster, why);
	snprintf(path, sizeof path, "/api/v1/ledger.json?from=%llu", (unsigned long long)sequence);
	if (!e)
		e = https_client_get_json(f->client, path, DOCUMENT_MAX, &list, why);
	if (e)
		return e;
	const json_t *items = json_object_get(list, "records");
	size_t n = json_array_size(items);
	n = n > RECORDS_AT_ONCE ? RECORDS_AT_ONCE : n;
	r->records = alloc_must_zero(n + 1, sizeof *r->records);
	for (size_t i = 0; !e && i < n; i++)
		e = get_record(f, json_array_get(items, i), r, why);
	json_decref(list);
	return e;
}

/* ---- the thread */

static void serve(struct fetch *f, const struct job *job)
{
	static const enum fetch_result_kind kinds[] = {[FETCH_join] = FETCH_result_joined,
		[FETCH_data] = FETCH_result_data,
		[FETCH_snapshot] = FETCH_result_snapshot,
		[FETCH_records] = FETCH_result_records};
	enum fetch_job what = (enum fetch_job)job->mail.kind;
	struct fetch_result *r = result_new(kinds[what], what);
	struct why why = {0};
	enum err e = ERR_OK;
	switch (what) {
	case FETCH_join: e = do_join(f, r, &why); break;
	case FETCH_data: e = do_data(f, &why); break;
	case FETCH_snapshot: e = do_snapshot(f, r, &why); break;
	case FETCH_records:
		forget_snapshot(f);
		e = do_records(f, job->sequence, r, &why);
		break;
	case FETCH_stop: break;
	}
	if (e) {
		fetch_result_free(r);
		r = result_new(FETCH_result_failed, what);
		r->why = why;
		r->why.code = e;
		r->for_good = for_good(e);
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
		struct mail *m = mailbox_wait(f->jobs, UINT64_MAX);
		if (m && m->kind != FETCH_stop)
			serve(f, (struct job *)m);
		free(m);
	}
	return NULL;
}

static void put(struct fetch *f, enum fetch_job what, uint64_t sequence)
{
	struct job *job = alloc_must_zero(1, sizeof *job);
	job->mail.kind = (int)what;
	job->mail.drop = drop_job;
	job->sequence = sequence;
	mailbox_put(f->jobs, &job->mail);
}

static void release(struct fetch *f)
{
	https_client_free(f->client);
	blob_close(f->blobs);
	mailbox_free(f->jobs);
	spec_free(f->spec);
	free(f->dir);
	free(f->name);
	free(f);
}

enum err fetch_new(const struct fetch_config *config, struct fetch **out, struct why *why)
{
	struct fetch *f = alloc_must_zero(1, sizeof *f);
	f->link = config->link;
	f->identity = config->identity;
	f->dir = alloc_must_strdup(config->dir);
	f->name = alloc_must_strdup(config->name);
	f->results = config->results;
	f->jobs = mailbox_new();
	char *blobs = alloc_must_printf("%s/blobs", config->dir);
	enum err e = blob_open(blobs, 0, &f->blobs, why);
	free(blobs);
	struct https_client_config how;
	https_client_config_init(&how, config->link);
	how.cancel = &f->stop;
	if (!e)
		e = https_client_new(&how, &f->client, why);
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
