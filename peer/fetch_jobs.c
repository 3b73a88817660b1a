#include "peer/fetch_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/version.h"
#include "model/manifest.h"
#include "net/address.h"
#include "net/https_client.h"
#include "net/signed.h"
#include "round/blob.h"

#define DOCUMENT_MAX SIGNED_MAX
#define TELL_EVERY (500 * CLOCK_MS)
#define GIVERS_FRESH (60 * CLOCK_SECOND)

/* ---- documents */

enum err fetch_jobs_signed(
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

enum err fetch_jobs_roster(struct fetch_jobs *j, struct roster **out, struct why *why)
{
	json_t *body = NULL;
	enum err e = fetch_jobs_signed(j, "/api/v1/roster", "roster", &body, why);
	if (!e)
		e = roster_parse(body, &j->link->run, out, why);
	json_decref(body);
	return e;
}

static enum err get_spec(struct fetch_jobs *j, struct spec **out, struct why *why)
{
	json_t *body = NULL;
	enum err e = fetch_jobs_signed(j, "/api/v1/spec", "spec", &body, why);
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

/* Hints: who is on the roster, and whether the address can be one, is looked at when they serve. */
static void read_givers(struct fetch_jobs *j, const json_t *list)
{
	j->n_givers = 0;
	j->givers_ns = clock_now_ns();
	for (size_t i = 0; i < json_array_size(list) && j->n_givers < TAKE_FROM; i++) {
		const json_t *row = json_array_get(list, i);
		json_int_t member = json_integer_value(json_object_get(row, "member"));
		const char *address = json_string_value(json_object_get(row, "address"));
		if (!address || member < 0 || member >= UINT32_MAX)
			continue;
		struct take_from *from = &j->givers[j->n_givers++];
		from->member = (uint32_t)member;
		snprintf(from->address, sizeof from->address, "%s", address);
	}
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
	read_givers(j, json_object_get(answer, "givers"));
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

void fetch_jobs_givers(struct fetch_jobs *j)
{
	uint32_t number;
	uint16_t port;
	struct why why;
	if (j->givers_ns && clock_now_ns() - j->givers_ns < GIVERS_FRESH)
		return;
	if (post_join(j, &number, &port, &why))
		j->n_givers = 0; /* the coordinator alone will do */
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
		e = fetch_jobs_roster(j, &r->roster, why);
	if (!e)
		e = keep_link(j, why);
	if (e)
		return e;
	j->member = r->number;
	memcpy(r->curve, j->statement.curve, sizeof r->curve);
	address_join(j->link->host, port, r->address, sizeof r->address);
	spec_free(j->spec);
	j->spec = NULL;
	return spec_parse(r->spec->text, strlen(r->spec->text), &j->spec, NULL, why);
}

/* ---- blobs */

struct sink {
	struct fetch_jobs *jobs;
	enum fetch_job job;
	struct blob_part *part;
};

static enum err sink_put(void *arg, const void *bytes, size_t n, struct why *why)
{
	return blob_part_put(((struct sink *)arg)->part, bytes, n, why);
}

void fetch_jobs_progress(struct fetch_jobs *j, enum fetch_job job, uint64_t have, uint64_t size)
{
	uint64_t now = clock_now_ns();
	if (now - j->told_ns < TELL_EVERY)
		return;
	j->told_ns = now;
	struct fetch_result *r = fetch_result_new(FETCH_result_progress, job);
	r->done = have;
	r->total = size;
	mailbox_put(j->results, &r->mail);
}

static void sink_progress(void *arg, uint64_t have, uint64_t size)
{
	struct sink *s = arg;
	fetch_jobs_progress(s->jobs, s->job, have, size);
}

void fetch_jobs_blob_url(const struct hash *name, char out[static 96])
{
	char hex[HASH_HEX];
	hash_hex(name, hex);
	snprintf(out, 96, "/api/v1/blob/%s", hex);
}

enum err fetch_jobs_check_stop(const struct fetch_jobs *j, struct why *why)
{
	return atomic_load(j->stop) ? err_why(why, ERR_interrupted, "interrupted") : ERR_OK;
}

/* Going on where an earlier try stopped.  What is there is verified; the store removes it if it is
 * damaged. */
enum err fetch_jobs_blob(struct fetch_jobs *j, const struct fetch_wanted *w, struct why *why)
{
	char path[96];
	struct sink sink = {.jobs = j, .job = w->job};
	enum err e = fetch_jobs_check_stop(j, why);
	if (e || (blob_has(w->store, &w->name) && !blob_verify(w->store, &w->name, why)))
		return e;
	fetch_jobs_blob_url(&w->name, path);
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
	fetch_jobs_blob_url(name, path);
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
		const struct fetch_wanted w = {
			j->blobs, FETCH_data, split->shards[i].hash, split->shards[i].bytes};
		e = fetch_jobs_blob(j, &w, why);
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
	free(j->partial);
	free(j);
}

enum err fetch_jobs_new(const struct fetch_config *config, const atomic_bool *stop,
	struct fetch_jobs **out, struct why *why)
{
	struct fetch_jobs *j = alloc_must_zero(1, sizeof *j);
	j->link = config->link;
	j->identity = config->identity;
	j->proxy = config->proxy;
	j->traffic = config->traffic;
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
	how.proxy = config->proxy;
	how.traffic = config->traffic;
	if (!e)
		e = https_client_new(&how, &j->client, why);
	if (e) {
		fetch_jobs_free(j);
		return e;
	}
	*out = j;
	return ERR_OK;
}
