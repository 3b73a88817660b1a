/* The fetch thread's jobs that bring this peer to the head of the ledger. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "net/signed.h"
#include "peer/fetch_parts.h"
#include "round/object.h"
#include "round/record.h"

#define PIECES "pieces"     /* the file of a snapshot that comes in pieces, and */
#define TARGET "target"     /* the signed state document that names it */
#define RECORDS_AT_ONCE 256 /* of one job: what a long absence missed comes in pieces */
#define RECORDS_BYTES (256ull << 20)

struct snapshot_place {
	struct hash blob;
	uint64_t bytes;
	struct ledger_head at;
	struct hash *hashes; /* of its pieces; owned; NULL: it is to be had whole only */
};

static enum err read_pieces(const char *hex, struct snapshot_place *out, struct why *why)
{
	const size_t n = (size_t)((out->bytes + OBJECT_PIECE - 1) / OBJECT_PIECE);
	if (strlen(hex) / 2 / sizeof *out->hashes != n)
		return err_why(
			why, ERR_shape, "the list of the snapshot's pieces is not of its size");
	out->hashes = alloc_must_zero(n, sizeof *out->hashes);
	return text_unhex(hex, out->hashes, n * sizeof *out->hashes)
		       ? err_why(why, ERR_syntax, "the list of the snapshot's pieces is malformed")
		       : ERR_OK;
}

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
	if (bad)
		return err_why(
			why, ERR_syntax, "the coordinator's state document names no snapshot");
	const char *hex = json_string_value(json_object_get(body, "pieces"));
	return hex ? read_pieces(hex, out, why) : ERR_OK;
}

/* Removes what is in the folder of snapshots, but for the one of this name or what there is of it:
 * a newer one has taken the place of what an earlier try began.  Pieces of that may be of use. */
static void sweep(const struct fetch_jobs *j, const struct hash *keep)
{
	char hex[HASH_HEX] = "";
	struct dirent *e;
	DIR *d = opendir(j->snapshots);
	if (keep)
		hash_hex(keep, hex);
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.' ||
			(keep && (!strncmp(e->d_name, hex, HASH_HEX - 1) ||
					 !strcmp(e->d_name, PIECES) || !strcmp(e->d_name, TARGET))))
			continue;
		char *path = alloc_must_printf("%s/%s", j->snapshots, e->d_name);
		unlink(path);
		free(path);
	}
	if (d)
		closedir(d);
}

static enum err get_snapshot(struct fetch_jobs *j, const struct snapshot_place *place,
	struct fetch_result *r, struct why *why)
{
	struct fetch_wanted w = {.job = FETCH_snapshot, .name = place->blob, .size = place->bytes};
	enum err e = blob_open(j->snapshots, 0, &w.store, why);
	if (e)
		return e;
	char *path = alloc_must_printf("%s/" PIECES, j->snapshots);
	e = place->hashes ? fetch_pieces_blob(j, &w, place->hashes, path, &r->from_peers, why)
			  : fetch_jobs_blob(j, &w, why);
	free(path);
	r->head = place->at;
	r->path = blob_path(w.store, &w.name);
	blob_close(w.store);
	return e;
}

static enum err read_state(const struct fetch_jobs *j, const void *text, size_t n,
	struct snapshot_place *out, struct why *why)
{
	json_t *body = NULL;
	enum err e = signed_open(text, n, "state", j->link->key.b, &body, why);
	if (!e)
		e = read_place(body, out, why);
	json_decref(body);
	return e;
}

/* Whether the records after this snapshot are still kept. */
static bool leads_on(struct fetch_jobs *j, const struct snapshot_place *place)
{
	char path[80];
	json_t *list = NULL;
	struct why why;
	snprintf(path, sizeof path, "/api/v1/ledger.json?from=%llu&limit=1",
		(unsigned long long)place->at.sequence);
	enum err e = https_client_get_json(j->client, path, SIGNED_MAX, &list, &why);
	json_decref(list);
	return !e;
}

/* The snapshot that an earlier try began, if a newer one has come since and the older one will do:
 * else a line that is slow or often cut would begin anew with each, and never end. */
static bool begun(struct fetch_jobs *j, const char *path, struct snapshot_place *place)
{
	struct snapshot_place old = {0};
	uint8_t *text = NULL;
	size_t n = 0;
	struct why why;
	bool good = file_exists(path) && !file_read(path, SIGNED_MAX, &text, &n, &why) &&
		    !read_state(j, text, n, &old, &why) && old.hashes &&
		    old.at.sequence < place->at.sequence && leads_on(j, &old);
	free(text);
	struct snapshot_place *drop = good ? place : &old;
	free(drop->hashes);
	if (good)
		*place = old;
	return good;
}

enum err fetch_ledger_snapshot(struct fetch_jobs *j, struct fetch_result *r, struct why *why)
{
	struct snapshot_place place = {0};
	uint8_t *text = NULL;
	size_t n = 0;
	char *path = alloc_must_printf("%s/" TARGET, j->snapshots);
	enum err e = https_client_get(j->client, "/api/v1/state", SIGNED_MAX, &text, &n, why);
	if (!e)
		e = read_state(j, text, n, &place, why);
	if (!e && !begun(j, path, &place)) {
		e = file_mkdirs(j->snapshots, 0700, why);
		if (!e)
			e = file_write(path, text, n, 0600, why);
	}
	free(text);
	if (!e) {
		sweep(j, &place.blob);
		e = get_snapshot(j, &place, r, why);
	}
	if (e == ERR_missing)
		unlink(path); /* neither has it: the newest one then */
	free(place.hashes);
	free(path);
	return e;
}

void fetch_ledger_forget(struct fetch_jobs *j)
{
	sweep(j, NULL);
}

/* ---- records */

struct sink {
	struct fetch_jobs *jobs;
	struct buf memory;
};

static void sink_progress(void *arg, uint64_t have, uint64_t size)
{
	fetch_jobs_progress(((struct sink *)arg)->jobs, FETCH_records, have, size);
}

static enum err keep_put(void *arg, const void *bytes, size_t n, struct why *why)
{
	struct sink *s = arg;
	buf_put(&s->memory, bytes, n);
	return buf_ok(&s->memory) ? ERR_OK : err_why(why, ERR_nomem, "no memory for a record");
}

/* As a download, since it may be large and the link slow. */
static enum err get_record(struct fetch_jobs *j, struct fetch_record *to, struct why *why)
{
	char path[96];
	struct sink sink = {.jobs = j};
	struct https_client_sink how = {
		.arg = &sink, .size = to->size, .put = keep_put, .progress = sink_progress};
	buf_init(&sink.memory, (size_t)to->size);
	fetch_jobs_blob_url(&to->name, path);
	enum err e = fetch_jobs_check_stop(j, why);
	if (!e)
		e = https_client_download(j->client, path, &how, why);
	if (!e) {
		struct hash is = hash_of(sink.memory.data, sink.memory.len);
		if (!hash_equal(&is, &to->name))
			e = err_why(
				why, ERR_hash, "%s is not what the coordinator sent for it", path);
	}
	if (e) {
		buf_release(&sink.memory);
		return e;
	}
	size_t n;
	to->bytes = buf_steal(&sink.memory, &n);
	return ERR_OK;
}

/* The first ones of the list, as many as come in one answer: far away each question costs more than
 * its bytes.  That nothing comes is no failure yet: each can be had alone. */
static enum err get_many(struct fetch_jobs *j, uint64_t sequence, struct fetch_record *list,
	size_t n, struct why *why)
{
	char path[80];
	uint8_t *bytes = NULL;
	size_t len = 0, at = 0;
	struct why ignored;
	enum err e = fetch_jobs_check_stop(j, why);
	snprintf(path, sizeof path, "/api/v1/records?from=%llu&limit=%zu",
		(unsigned long long)sequence, n);
	if (e || https_client_get(j->client, path, OBJECT_PIECE, &bytes, &len, &ignored))
		return e;
	for (size_t i = 0; i < n && list[i].size <= len - at; i++) {
		const struct hash is = hash_of(bytes + at, (size_t)list[i].size);
		if (!hash_equal(&is, &list[i].name))
			break;
		if (!list[i].bytes) {
			list[i].bytes = alloc_must((size_t)list[i].size);
			memcpy(list[i].bytes, bytes + at, (size_t)list[i].size);
		}
		at += (size_t)list[i].size;
	}
	free(bytes);
	return ERR_OK;
}

/* As many of the list as are fetched at once; *n is how many. */
static enum err read_records(
	const json_t *items, struct fetch_record *out, size_t *n, struct why *why)
{
	uint64_t bytes = 0;
	for (*n = 0; *n < json_array_size(items) && *n < RECORDS_AT_ONCE && bytes < RECORDS_BYTES;
		++*n) {
		const json_t *item = json_array_get(items, *n);
		const char *hex = json_string_value(json_object_get(item, "blob"));
		json_int_t size = json_integer_value(json_object_get(item, "bytes"));
		if (!hex || hash_parse(hex, &out[*n].name) || size < 1 ||
			(uint64_t)size > RECORD_MAX)
			return err_why(why, ERR_syntax,
				"the coordinator's list of ledger entries is malformed");
		out[*n].size = (uint64_t)size;
		bytes += out[*n].size;
	}
	return ERR_OK;
}

/* The list begins after this entry. */
static enum err get_records(struct fetch_jobs *j, uint64_t sequence, const json_t *items,
	struct fetch_result *r, struct why *why)
{
	struct fetch_record *list = alloc_must_zero(RECORDS_AT_ONCE, sizeof *list);
	size_t n = 0;
	bool many = true;
	enum err e = read_records(items, list, &n, why);
	r->records = alloc_must_zero(n + 1, sizeof *r->records);
	if (!e)
		e = fetch_pieces_records(j, list, n, &r->from_peers, why);
	for (size_t i = 0; i < n; i++) {
		if (!e && !list[i].bytes && many) {
			e = get_many(j, sequence + i, list + i, n - i, why);
			many = list[i].bytes != NULL; /* else one by one */
		}
		if (!e && !list[i].bytes)
			e = get_record(j, &list[i], why);
		if (e)
			free(list[i].bytes);
		else
			r->records[r->n_records++] =
				(struct standing_record){list[i].bytes, (size_t)list[i].size};
	}
	free(list);
	return e;
}

/* The head may move while we fetch: the records may end before it, or lead beyond.  The control
 * loop takes what leads there and asks for more. */
enum err fetch_ledger_records(
	struct fetch_jobs *j, uint64_t sequence, struct fetch_result *r, struct why *why)
{
	json_t *body = NULL, *list = NULL;
	char path[80];
	enum err e = fetch_jobs_signed(j, "/api/v1/head", "head", &body, why);
	if (!e)
		e = ledger_head_parse(body, &j->link->run, &r->head, why);
	json_decref(body);
	if (!e)
		e = fetch_jobs_roster(j, &r->roster, why);
	snprintf(path, sizeof path, "/api/v1/ledger.json?from=%llu&limit=%d",
		(unsigned long long)sequence, RECORDS_AT_ONCE);
	if (!e)
		e = https_client_get_json(j->client, path, SIGNED_MAX, &list, why);
	if (e)
		return e;
	e = get_records(j, sequence, json_object_get(list, "records"), r, why);
	json_decref(list);
	return e;
}
