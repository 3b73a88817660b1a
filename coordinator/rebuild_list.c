#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "coordinator/rebuild_parts.h"
#include "net/signed.h"
#include "round/object.h"
#include "round/record.h"

static struct store_snapshot read_snapshot(const json_t *item, struct buf *mistakes)
{
	struct json_in in;
	json_in_init(&in, item, "snapshots", mistakes);
	return (struct store_snapshot){
		.round = (uint64_t)json_get_int(&in, "round", 0, INT64_MAX, NULL),
		.sequence = (uint64_t)json_get_int(&in, "sequence", 0, INT64_MAX, NULL),
		.bytes = (uint64_t)json_get_int(&in, "bytes", 1, (int64_t)BLOB_MAX, NULL),
		.head = json_get_hash(&in, "head", true),
		.blob = json_get_hash(&in, "blob", true)};
}

static struct rebuild_blob read_record(const json_t *item, struct buf *mistakes)
{
	struct json_in in;
	json_in_init(&in, item, "records", mistakes);
	return (struct rebuild_blob){(uint64_t)json_get_int(&in, "sequence", 1, INT64_MAX, NULL),
		(uint64_t)json_get_int(&in, "bytes", 1, (int64_t)RECORD_MAX, NULL),
		json_get_hash(&in, "blob", true)};
}

static enum err read_head(const char *text, const struct hash *run, const struct sign_public *key,
	struct ledger_head *out, struct why *why)
{
	json_t *body = NULL;
	if (!*text)
		return err_why(why, ERR_missing, "it has not reached a signed head yet");
	enum err err = signed_open(text, strlen(text), "head", key->b, &body, why);
	if (!err)
		err = ledger_head_parse(body, run, out, why);
	json_decref(body);
	return err;
}

static const char *read_rows(struct rebuild_list *out, const json_t *doc, struct buf *mistakes)
{
	struct json_in in;
	json_in_init(&in, doc, "", mistakes);
	const char *head = json_get_text(&in, "head", MSG_PAYLOAD_MAX, NULL);
	out->next = (uint64_t)json_get_int(&in, "next", 0, INT64_MAX, NULL);
	out->taken = (uint64_t)json_get_int(&in, "taken", 0, 1ll << 60, NULL);
	const json_t *snapshots = json_get_array(&in, "snapshots", REBUILD_SNAPSHOTS, true),
		     *records = json_get_array(&in, "records", REBUILD_RECORDS, true);
	out->n_snapshots = (uint32_t)json_array_size(snapshots);
	if (out->n_snapshots > REBUILD_SNAPSHOTS)
		out->n_snapshots = REBUILD_SNAPSHOTS;
	for (uint32_t i = 0; i < out->n_snapshots; i++)
		out->snapshots[i] = read_snapshot(json_array_get(snapshots, i), mistakes);
	out->n_records = json_array_size(records);
	if (out->n_records > REBUILD_RECORDS)
		out->n_records = REBUILD_RECORDS;
	out->records = alloc_must_zero(out->n_records + 1, sizeof *out->records);
	for (size_t i = 0; i < out->n_records; i++)
		out->records[i] = read_record(json_array_get(records, i), mistakes);
	return head;
}

enum err rebuild_list_parse(const void *text, size_t n, const struct hash *run,
	const struct sign_public *key, struct rebuild_list *out, struct why *why)
{
	json_t *doc = NULL;
	struct buf mistakes;
	*out = (struct rebuild_list){0};
	buf_init(&mistakes, 4096);
	enum err err = json_parse(text, n, OBJECT_SHELF_MAX, &doc, why);
	const char *head = err ? "" : read_rows(out, doc, &mistakes);
	if (!err)
		err = json_verdict(&mistakes, "the list of what it keeps is malformed", why);
	if (!err)
		err = read_head(head, run, key, &out->head, why);
	json_decref(doc);
	buf_release(&mistakes);
	if (err)
		rebuild_list_release(out);
	return err;
}

void rebuild_list_release(struct rebuild_list *l)
{
	if (!l)
		return;
	free(l->records);
	*l = (struct rebuild_list){0};
}

bool rebuild_list_choose(
	const struct rebuild_list *l, struct store_snapshot *snapshot, size_t *first)
{
	for (uint32_t i = 0; i < l->n_snapshots; i++) {
		const struct store_snapshot *s = &l->snapshots[i];
		size_t at = 0, n = 0;
		while (at < l->n_records && l->records[at].sequence <= s->sequence)
			at++;
		while (at + n < l->n_records && l->records[at + n].sequence == s->sequence + n + 1)
			n++;
		if (s->sequence > l->head.sequence || s->sequence + n < l->head.sequence)
			continue;
		*snapshot = *s;
		*first = at;
		return true;
	}
	return false;
}
