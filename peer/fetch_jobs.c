#include "peer/fetch_jobs.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/version.h"
#include "model/manifest.h"
#include "net/https_client.h"
#include "net/signed.h"
#include "round/blob.h"
#include "round/record.h"

#define DOCUMENT_MAX SIGNED_MAX
#define TELL_EVERY (500 * CLOCK_MS)
#define RECORDS_AT_ONCE 256 /* of one job: what a long absence missed comes in pieces */
#define RECORDS_BYTES (256ull << 20)

struct fetch_jobs {
	const struct joinlink *link;
	const struct identity_peer *identity;
	char *dir, *name, *snapshots; /* snapshots: a folder of their own, swept when they served */
	const atomic_bool *stop;
	struct mailbox *results;
	struct blob_store *blobs;
	struct https_client *client;
	struct statement statement;
	struct spec *spec; /* own copy: the control loop has another */
	uint64_t told_ns;
};

/* ---- documents */

static enum err get_signed(
	struct fetch_jobs *j, const char *path, const char *type, json_t **body, struct why *why)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	enum err e = https_client_get(j->client, path, DOCUMENT_MAX, &bytes, &n, why);
	if (!e)
		e = signed_open(bytes, n, type, j->link->key.b, body, why);
	free(bytes);
	return e;
}

static enum err get_roster(struct fetch_jobs *j, struct roster **out, struct why *why)
{
	json_t *body = NULL;
	enum err e = get_signed(j, "/api/v1/roster", "roster", &body, why);
	if (!e)
		e = roster_parse(body, &j->link->run, out, why);
	json_decref(body);
	return e;
}

static enum err get_spec(struct fetch_jobs *j, struct spec **out, struct why *why)
{
	json_t *body = NULL;
	enum err e = get_signed(j, "/api/v1/spec", "spec", &body, why);
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
	if (!hash_equal(&(*out)->id, &j->link->run)) {
		char theirs[HASH_HEX], ours[HASH_HEX];
		hash_hex(&(*out)->id, theirs);
		hash_hex(&j->link->run, ours);
		spec_free(*out);
		*out = NULL;
		return err_why(why, ERR_spec,
			"the coordinator's spec is run %.12s, the join link is for run %.12s",
			theirs, ours);
	}
	return ERR_OK;
}

static json_t *join_request(const struct fetch_jobs *j)
{
	char sign[2 * SIGN_PUBLIC + 1], curve[2 * ROSTER_CURVE + 1], run[HASH_HEX];
	struct sign_public key = sign_public_of(j->identity->sign);
	text_hex(key.b, sizeof key.b, sign);
	text_hex(j->identity->curve.public_key, ROSTER_CURVE, curve);
	hash_hex(&j->link->run, run);
	json_t *body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:s}", "invite", j->link->invite,
		"name", j->name, "version", version_text(), "sign", sign, "curve", curve,
		"instance", (json_int_t)(j->identity->instance & (uint64_t)INT64_MAX), "run", run);
	char *text = signed_make("join", body, j->identity->sign);
	json_t *signed_body = json_loads(text, 0, NULL);
	free(text);
	json_decref(body);
	return signed_body;
}

/* Kept, so that coming back needs none; it holds an invite, so only its user may read it. */
static enum err keep_link(const struct fetch_jobs *j, struct why *why)
{
	char text[JOINLINK_MAX], *path = alloc_must_printf("%s/join.link", j->dir);
	joinlink_format(j->link, text);
	enum err e = file_write(path, text, strlen(text), 0600, why);
	free(path);
	return e;
}

static enum err post_join(struct fetch_jobs *j, uint32_t *number, uint16_t *port, struct why *why)
{
	json_t *answer = NULL, *request = join_request(j);
	enum err e = https_client_post_json(
		j->client, "/api/v1/join", request, DOCUMENT_MAX, &answer, why);
	json_decref(request);
	if (e)
		return e;
	json_int_t n = json_integer_value(json_object_get(answer, "number"));
	json_int_t p = json_integer_value(json_object_get(answer, "link_port"));
	json_decref(answer);
	if (n < 0 || n >= UINT32_MAX || p < 1 || p > UINT16_MAX)
		return err_why(why, ERR_syntax,
			"the coordinator's answer to the registration has no number and port");
	*number = (uint32_t)n;
	*port = (uint16_t)p;
	return ERR_OK;
}

/* A coordinator that lost its folder knows nobody before a peer shows it the roster that its run
 * key has signed. */
static enum err post_roster(struct fetch_jobs *j, struct why *why)
{
	json_t *roster = NULL, *answer = NULL;
	uint8_t *text = NULL;
	size_t n = 0;
	struct why said;
	char *path = alloc_must_printf("%s/shelf/roster", j->dir);
	enum err e = file_read(path, DOCUMENT_MAX, &text, &n, &said);
	free(path);
	if (!e)
		e = json_parse(text, n, DOCUMENT_MAX, &roster, &said);
	free(text);
	if (e)
		return ERR_missing; /* what the coordinator said stands */
	e = https_client_post_json(j->client, "/api/v1/roster", roster, DOCUMENT_MAX, &answer, why);
	json_decref(roster);
	json_decref(answer);
	return e;
}

enum err fetch_jobs_contact(struct fetch_jobs *j, struct why *why)
{
	return https_client_contact(j->client, j->link, clock_wall_s(), &j->statement, why);
}

enum err fetch_jobs_join(struct fetch_jobs *j, struct fetch_result *r, struct why *why)
{
	uint16_t port = 0;
	struct why said;
	enum err e = fetch_jobs_contact(j, why);
	if (!e)
		e = post_join(j, &r->number, &port, why);
	if (e == ERR_busy && !post_roster(j, &said))
		e = post_join(j, &r->number, &port, why);
	if (!e)
		e = get_spec(j, &r->spec, why);
	if (!e)
		e = get_roster(j, &r->roster, why);
	if (!e)
		e = keep_link(j, why);
	if (e)
		return e;
	memcpy(r->curve, j->statement.curve, sizeof r->curve);
	bool v6 = strchr(j->link->host, ':') != NULL;
	snprintf(r->address, sizeof r->address, v6 ? "[%.200s]:%u" : "%.200s:%u", j->link->host,
		port);
	spec_free(j->spec);
	j->spec = NULL;
	return spec_parse(r->spec->text, strlen(r->spec->text), &j->spec, NULL, why);
}

/* ---- blobs */

struct sink {
	struct fetch_jobs *jobs;
	enum fetch_job job;
	struct blob_part *part; /* on disk, or */
	struct buf memory;
};

static enum err sink_put(void *arg, const void *bytes, size_t n, struct why *why)
{
	return blob_part_put(((struct sink *)arg)->part, bytes, n, why);
}

static void sink_progress(void *arg, uint64_t have, uint64_t size)
{
	struct sink *s = arg;
	uint64_t now = clock_now_ns();
	if (now - s->jobs->told_ns < TELL_EVERY)
		return;
	s->jobs->told_ns = now;
	struct fetch_result *r = fetch_result_new(FETCH_result_progress, s->job);
	r->done = have;
	r->total = size;
	mailbox_put(s->jobs->results, &r->mail);
}

static void blob_url(const struct hash *name, char out[static 96])
{
	char hex[HASH_HEX];
	hash_hex(name, hex);
	snprintf(out, 96, "/api/v1/blob/%s", hex);
}

static enum err check_stop(const struct fetch_jobs *j, struct why *why)
{
	return atomic_load(j->stop) ? err_why(why, ERR_interrupted, "interrupted") : ERR_OK;
}

/* What is to be had: a blob of this size, for this job, into this store. */
struct wanted {
	struct blob_store *store;
	enum fetch_job job;
	struct hash name;
	uint64_t size;
};

/* Going on where an earlier try stopped.  What is there is verified; the store removes it if it is
 * damaged. */
static enum err get_blob(struct fetch_jobs *j, const struct wanted *w, struct why *why)
{
	char path[96];
	struct sink sink = {.jobs = j, .job = w->job};
	enum err e = check_stop(j, why);
	if (e || (blob_has(w->store, &w->name) && !blob_verify(w->store, &w->name, why)))
		return e;
	blob_url(&w->name, path);
	e = blob_part_open(w->store, &w->name, w->size, &sink.part, why);
	if (e)
		return e;
	struct https_client_sink how = {.arg = &sink,
		.have = blob_part_have(sink.part),
		.size = w->size,
		.put = sink_put,
		.progress = sink_progress};
	if (how.have < w->size)
		e = https_client_download(j->client, path, &how, why);
	if (!e)
		return blob_part_commit(sink.part, why);
	blob_part_close(sink.part);
	return e;
}

struct file {
	uint8_t *bytes; /* owned, NULL-able */
	size_t len;
};

/* A blob whose size is not known but bounded.  out is the caller's to free in any case. */
static enum err get_small(struct fetch_jobs *j, const struct hash *name, size_t most,
	struct file *out, struct why *why)
{
	char path[96];
	blob_url(name, path);
	enum err e = https_client_get(j->client, path, most, &out->bytes, &out->len, why);
	if (e)
		return e;
	struct hash is = hash_of(out->bytes, out->len);
	if (hash_equal(&is, name))
		return ERR_OK;
	return err_why(why, ERR_hash, "%s is not what the coordinator sent for it", path);
}

static enum err get_shards(
	struct fetch_jobs *j, const struct manifest_split *split, struct why *why)
{
	enum err e = ERR_OK;
	for (size_t i = 0; !e && i < split->n_shards; i++) {
		const struct wanted w = {
			j->blobs, FETCH_data, split->shards[i].hash, split->shards[i].bytes};
		e = get_blob(j, &w, why);
	}
	return e;
}

static enum err get_tokenizer(struct fetch_jobs *j, const struct hash *name, struct why *why)
{
	struct file file = {0};
	struct hash stored;
	/* As above: a damaged one would stay in the way of the one that is put. */
	if (blob_has(j->blobs, name) && !blob_verify(j->blobs, name, why))
		return ERR_OK;
	enum err e = get_small(j, name, TOKENIZER_FILE_MAX, &file, why);
	if (!e)
		e = blob_put(j->blobs, file.bytes, file.len, &stored, why);
	free(file.bytes);
	return e;
}

enum err fetch_jobs_data(struct fetch_jobs *j, struct why *why)
{
	struct file text = {0};
	struct manifest *m = NULL;
	enum err e = get_small(j, &j->spec->manifest, MANIFEST_FILE_MAX, &text, why);
	if (!e)
		e = manifest_parse(text.bytes, text.len, &m, why);
	if (!e)
		e = get_tokenizer(j, &m->tokenizer, why);
	if (!e)
		e = get_shards(j, &m->train, why);
	if (!e)
		e = get_shards(j, &m->validation, why);
	if (!e) {
		char *path = alloc_must_printf("%s/manifest.json", j->dir);
		e = file_write(path, text.bytes, text.len, 0644, why);
		free(path);
	}
	manifest_free(m);
	free(text.bytes);
	return e;
}

/* ---- the ledger */

struct snapshot_place {
	struct hash blob;
	uint64_t bytes;
	struct ledger_head at;
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

/* Removes what is in the folder of snapshots, but for the one of this name or what there is of it:
 * a newer one has taken the place of what an earlier try began. */
static void sweep(const struct fetch_jobs *j, const struct hash *keep)
{
	char hex[HASH_HEX] = "";
	struct dirent *e;
	DIR *d = opendir(j->snapshots);
	if (keep)
		hash_hex(keep, hex);
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.' || (keep && !strncmp(e->d_name, hex, HASH_HEX - 1)))
			continue;
		char *path = alloc_must_printf("%s/%s", j->snapshots, e->d_name);
		unlink(path);
		free(path);
	}
	if (d)
		closedir(d);
}

enum err fetch_jobs_snapshot(struct fetch_jobs *j, struct fetch_result *r, struct why *why)
{
	json_t *body = NULL;
	struct snapshot_place place = {0};
	struct wanted w = {.job = FETCH_snapshot};
	enum err e = get_signed(j, "/api/v1/state", "state", &body, why);
	if (!e)
		e = read_place(body, &place, why);
	json_decref(body);
	if (e)
		return e;
	sweep(j, &place.blob);
	e = blob_open(j->snapshots, 0, &w.store, why);
	if (e)
		return e;
	w.name = place.blob;
	w.size = place.bytes;
	e = get_blob(j, &w, why);
	r->head = place.at;
	r->path = blob_path(w.store, &w.name);
	blob_close(w.store);
	return e;
}

void fetch_jobs_forget(struct fetch_jobs *j)
{
	sweep(j, NULL);
}

static enum err keep_put(void *arg, const void *bytes, size_t n, struct why *why)
{
	struct sink *s = arg;
	buf_put(&s->memory, bytes, n);
	return buf_ok(&s->memory) ? ERR_OK : err_why(why, ERR_nomem, "no memory for a record");
}

/* As a download, since it may be large and the link slow. */
static enum err get_record(
	struct fetch_jobs *j, const json_t *item, struct fetch_result *r, struct why *why)
{
	char path[96];
	struct hash name;
	const char *hex = json_string_value(json_object_get(item, "blob"));
	json_int_t size = json_integer_value(json_object_get(item, "bytes"));
	if (!hex || hash_parse(hex, &name) || size < 1 || (uint64_t)size > RECORD_MAX)
		return err_why(
			why, ERR_syntax, "the coordinator's list of ledger entries is malformed");
	struct sink sink = {.jobs = j, .job = FETCH_records};
	struct https_client_sink how = {
		.arg = &sink, .size = (uint64_t)size, .put = keep_put, .progress = sink_progress};
	buf_init(&sink.memory, (size_t)size);
	blob_url(&name, path);
	enum err e = check_stop(j, why);
	if (!e)
		e = https_client_download(j->client, path, &how, why);
	if (!e) {
		struct hash is = hash_of(sink.memory.data, sink.memory.len);
		if (!hash_equal(&is, &name))
			e = err_why(
				why, ERR_hash, "%s is not what the coordinator sent for it", path);
	}
	if (e) {
		buf_release(&sink.memory);
		return e;
	}
	struct standing_record *to = &r->records[r->n_records++];
	to->bytes = buf_steal(&sink.memory, &to->len);
	return ERR_OK;
}

/* The head may move while we fetch: the records may end before it, or lead beyond.  The control
 * loop takes what leads there and asks for more. */
enum err fetch_jobs_records(
	struct fetch_jobs *j, uint64_t sequence, struct fetch_result *r, struct why *why)
{
	json_t *body = NULL, *list = NULL;
	char path[80];
	uint64_t bytes = 0;
	enum err e = get_signed(j, "/api/v1/head", "head", &body, why);
	if (!e)
		e = ledger_head_parse(body, &j->link->run, &r->head, why);
	json_decref(body);
	if (!e)
		e = get_roster(j, &r->roster, why);
	snprintf(path, sizeof path, "/api/v1/ledger.json?from=%llu&limit=%d",
		(unsigned long long)sequence, RECORDS_AT_ONCE);
	if (!e)
		e = https_client_get_json(j->client, path, DOCUMENT_MAX, &list, why);
	if (e)
		return e;
	const json_t *items = json_object_get(list, "records");
	size_t n = json_array_size(items);
	n = n > RECORDS_AT_ONCE ? RECORDS_AT_ONCE : n;
	r->records = alloc_must_zero(n + 1, sizeof *r->records);
	for (size_t i = 0; !e && i < n && bytes < RECORDS_BYTES; i++) {
		e = get_record(j, json_array_get(items, i), r, why);
		bytes += e ? 0 : r->records[i].len;
	}
	json_decref(list);
	return e;
}

/* ---- life */

void fetch_jobs_free(struct fetch_jobs *j)
{
	if (!j)
		return;
	https_client_free(j->client);
	blob_close(j->blobs);
	spec_free(j->spec);
	free(j->dir);
	free(j->name);
	free(j->snapshots);
	free(j);
}

enum err fetch_jobs_new(const struct fetch_config *config, const atomic_bool *stop,
	struct fetch_jobs **out, struct why *why)
{
	struct fetch_jobs *j = alloc_must_zero(1, sizeof *j);
	j->link = config->link;
	j->identity = config->identity;
	j->dir = alloc_must_strdup(config->dir);
	j->name = alloc_must_strdup(config->name);
	j->snapshots = alloc_must_printf("%s/snapshot", config->dir);
	j->results = config->results;
	j->stop = stop;
	char *blobs = alloc_must_printf("%s/blobs", config->dir);
	enum err e = blob_open(blobs, 0, &j->blobs, why);
	free(blobs);
	struct https_client_config how;
	https_client_config_init(&how, config->link);
	how.cancel = stop;
	if (!e)
		e = https_client_new(&how, &j->client, why);
	if (e) {
		fetch_jobs_free(j);
		return e;
	}
	*out = j;
	return ERR_OK;
}
