#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "model/statefile.h"
#include "peer/shelf_parts.h"
#include "round/object.h"
#include "round/section.h"

/* ---- the list */

static json_t *json_of(const struct shelf *s)
{
	char blob[HASH_HEX], head[HASH_HEX];
	json_t *snapshots = json_array(), *records = json_array();
	for (uint32_t i = 0; i < s->n_snapshots; i++) {
		const struct shelf_picture *p = &s->snapshots[i];
		hash_hex(&p->blob, blob);
		hash_hex(&p->at.hash, head);
		json_array_append_new(snapshots,
			json_pack("{s:I, s:I, s:s, s:s, s:I}", "round", (json_int_t)p->at.round,
				"sequence", (json_int_t)p->at.sequence, "head", head, "blob", blob,
				"bytes", (json_int_t)p->bytes));
	}
	for (size_t i = 0; i < s->n_records; i++) {
		hash_hex(&s->records[i].blob, blob);
		json_array_append_new(records,
			json_pack("{s:I, s:s, s:I}", "sequence", (json_int_t)s->records[i].sequence,
				"blob", blob, "bytes", (json_int_t)s->records[i].bytes));
	}
	const uint64_t next =
		s->next_text && s->next.sequence > s->at.sequence ? s->next.sequence : 0;
	return json_pack("{s:s, s:I, s:I, s:o, s:o}", "head", s->head_text ? s->head_text : "",
		"next", (json_int_t)next, "taken", (json_int_t)s->taken, "snapshots", snapshots,
		"records", records);
}

char *shelf_index_text(const struct shelf *s)
{
	json_t *doc = json_of(s);
	char *text = json_canonical(doc);
	json_decref(doc);
	return text ? text : alloc_must_strdup("{}");
}

bool shelf_index_write(struct shelf *s)
{
	struct why why;
	char *text = shelf_index_text(s);
	const bool failed = file_write(s->index, text, strlen(text), 0600, &why) != ERR_OK;
	if (failed)
		shelf_warn(s, &why);
	free(text);
	return !failed;
}

bool shelf_index_lists(const struct shelf *s, const struct hash *blob)
{
	bool listed = false;
	for (uint32_t i = 0; i < s->n_snapshots; i++)
		listed |= hash_equal(&s->snapshots[i].blob, blob);
	for (size_t i = 0; !listed && i < s->n_records; i++)
		listed = hash_equal(&s->records[i].blob, blob);
	return listed;
}

/* Of a record that came in and is not applied yet. */
static bool is_staged(const struct shelf *s, const struct hash *blob)
{
	for (size_t i = 0; i < s->n_staged; i++)
		if (hash_equal(&s->staged[i].row.blob, blob))
			return true;
	return false;
}

static void remove_strays(struct shelf *s)
{
	struct why why = {0};
	struct hash *names = NULL;
	size_t n = 0;
	enum err err = blob_list(s->blobs, &names, &n, &why);
	for (size_t i = 0; !err && i < n; i++)
		if (!shelf_index_lists(s, &names[i]) && !is_staged(s, &names[i]))
			err = blob_remove(s->blobs, &names[i], &why);
	if (err)
		shelf_warn(s, &why);
	free(names);
}

void shelf_index_drop(struct shelf *s)
{
	s->n_records = 0;
	s->n_snapshots = 0;
	remove_strays(s);
	shelf_index_write(s);
}

static struct shelf_picture read_picture(const json_t *item, struct buf *mistakes)
{
	struct json_in in;
	json_in_init(&in, item, "snapshots", mistakes);
	return (struct shelf_picture){
		.at = {(uint64_t)json_get_int(&in, "sequence", 0, INT64_MAX, NULL),
			(uint64_t)json_get_int(&in, "round", 0, INT64_MAX, NULL),
			json_get_hash(&in, "head", true)},
		.blob = json_get_hash(&in, "blob", true),
		.bytes = (uint64_t)json_get_int(&in, "bytes", 1, INT64_MAX, NULL)};
}

static struct shelf_row read_row(const json_t *item, struct buf *mistakes)
{
	struct json_in in;
	json_in_init(&in, item, "records", mistakes);
	return (struct shelf_row){(uint64_t)json_get_int(&in, "sequence", 1, INT64_MAX, NULL),
		(uint64_t)json_get_int(&in, "bytes", 1, INT64_MAX, NULL),
		json_get_hash(&in, "blob", true)};
}

static enum err read_list(struct shelf *s, const json_t *doc, struct why *why)
{
	struct buf mistakes;
	struct json_in in;
	buf_init(&mistakes, 4096);
	json_in_init(&in, doc, "", &mistakes);
	s->head_text = alloc_must_strdup(json_get_text(&in, "head", MSG_PAYLOAD_MAX, NULL));
	s->taken = (uint64_t)json_get_int(&in, "taken", 0, INT64_MAX, NULL);
	const json_t *snapshots = json_get_array(&in, "snapshots", SHELF_SNAPSHOTS, true),
		     *records = json_get_array(&in, "records", SHELF_RECORDS_MOST, true);
	s->n_snapshots = (uint32_t)json_array_size(snapshots);
	for (uint32_t i = 0; i < s->n_snapshots && i < SHELF_SNAPSHOTS; i++)
		s->snapshots[i] = read_picture(json_array_get(snapshots, i), &mistakes);
	s->n_records = json_array_size(records);
	s->records = alloc_must_zero(s->n_records + 1, sizeof *s->records);
	for (size_t i = 0; i < s->n_records; i++)
		s->records[i] = read_row(json_array_get(records, i), &mistakes);
	enum err err = json_verdict(&mistakes, "the shelf's list is malformed", why);
	buf_release(&mistakes);
	return err;
}

void shelf_index_read(struct shelf *s)
{
	struct why why = {0};
	uint8_t *text = NULL;
	size_t n = 0;
	json_t *doc = NULL;
	enum err err = file_read(s->index, OBJECT_SHELF_MAX, &text, &n, &why);
	bool fresh = err == ERR_missing;
	if (!err)
		err = json_parse(text, n, OBJECT_SHELF_MAX, &doc, &why);
	if (!err)
		err = read_list(s, doc, &why);
	json_decref(doc);
	free(text);
	if (err && !fresh)
		shelf_warn(s, &why);
	if (err)
		s->n_snapshots = 0, s->n_records = 0;
	remove_strays(s);
}

/* ---- snapshots */

/* A section of the local state as it is. */
static enum err copy(const struct statefile *from, const char *name, struct statefile_out *to,
	bool optional, struct why *why)
{
	for (size_t i = 0; i < statefile_count(from); i++) {
		const struct statefile_section *one = statefile_at(from, i);
		if (!strcmp(one->name, name))
			return statefile_add(to, name, one->bytes, one->len, why);
	}
	return optional ? ERR_OK : err_why(why, ERR_missing, "the saved state has no %s", name);
}

static enum err read_at(const struct statefile *from, struct ledger_head *at, struct why *why)
{
	struct buf mistakes;
	struct json_in in;
	buf_init(&mistakes, 4096);
	json_in_init(&in, statefile_meta(from), "", &mistakes);
	at->round = (uint64_t)json_get_int(&in, "round", 0, INT64_MAX, NULL);
	at->sequence = (uint64_t)json_get_int(&in, "sequence", 0, INT64_MAX, NULL);
	at->hash = json_get_hash(&in, "head", true);
	enum err err = json_verdict(&mistakes, "the saved state does not say where it stands", why);
	buf_release(&mistakes);
	return err;
}

/* As replica_save lays it out, without holding the replica once more. */
static enum err write_snapshot(const struct shelf *s, const struct statefile *from,
	const struct ledger_head *at, const char *path, struct why *why)
{
	char hex[HASH_HEX], name[SECTION_NAME];
	hash_hex(&at->hash, hex);
	json_t *meta = json_pack("{s:I, s:I, s:s}", "round", (json_int_t)at->round, "sequence",
		(json_int_t)at->sequence, "head", hex);
	const struct statefile_head head = {"snapshot", s->spec->id, meta};
	struct statefile_out *to = NULL;
	enum err err = statefile_create(path, &head, &to, why);
	json_decref(meta);
	if (err)
		return err;
	err = statefile_add(to, "spec", s->spec->text, strlen(s->spec->text), why);
	for (uint32_t i = 0; !err && i < s->spec->model.n_shards; i++) {
		section_name("param", i, name);
		err = copy(from, name, to, false, why);
		section_name("momentum", i, name);
		if (!err)
			err = copy(from, name, to, true, why);
	}
	if (!err)
		return statefile_commit(to, why);
	statefile_discard(to);
	return err;
}

static void add_picture(struct shelf *s, const struct shelf_picture *p)
{
	memmove(s->snapshots + 1, s->snapshots, (SHELF_SNAPSHOTS - 1) * sizeof *s->snapshots);
	s->snapshots[0] = *p;
	if (s->n_snapshots < SHELF_SNAPSHOTS)
		s->n_snapshots++;
	const uint64_t from = s->snapshots[s->n_snapshots - 1].at.sequence;
	size_t kept = 0;
	for (size_t i = 0; i < s->n_records; i++)
		if (s->records[i].sequence > from)
			s->records[kept++] = s->records[i];
	s->n_records = kept;
	remove_strays(s);
}

void shelf_index_snapshot(struct shelf *s, uint64_t round)
{
	if (s->n_snapshots && s->snapshots[0].at.round >= round)
		return;
	const struct statefile_series series = {.dir = s->dir, .prefix = "local"};
	char *local = statefile_path(&series, round),
	     *path = alloc_must_printf("%s/shelf/snapshot.tmp", s->dir);
	struct statefile *from = NULL;
	struct shelf_picture p = {0};
	struct why why = {0};
	if (file_exists(local)) {
		enum err err = statefile_open(local, "local", &s->spec->id, &from, &why);
		if (!err)
			err = read_at(from, &p.at, &why);
		if (!err)
			err = write_snapshot(s, from, &p.at, path, &why);
		if (!err)
			err = blob_adopt(s->blobs, path, &p.blob, &why);
		if (!err)
			err = blob_size(s->blobs, &p.blob, &p.bytes);
		if (err)
			shelf_warn(s, &why);
		else
			add_picture(s, &p);
		statefile_close(from);
		unlink(path);
	}
	free(local);
	free(path);
}
