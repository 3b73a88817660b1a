#include "coordinator/api_view.h"
#include <stdlib.h>
#include "base/clock.h"
#include "base/file.h"
#include "coordinator/hub.h"
#include "coordinator/hub_topology.h"
#include "coordinator/metrics.h"
#include "coordinator/reason.h"
#include "coordinator/view.h"
#include "net/https_reply.h"
#include "round/object.h"

#define LIMIT_MOST 1000
#define LIMIT_USUAL 100

void api_view_overview(void *hub, struct https_request *r)
{
	https_reply_json(r, view_overview(hub, clock_now_ns()));
}

/* Rows of a list, or the error. */
static void reply_list(struct https_request *r, enum err err, const struct why *why, json_t *doc)
{
	if (err) {
		json_decref(doc);
		https_reply_error(r, 0, why);
	} else {
		https_reply_json(r, doc);
	}
}

static bool read_range(struct https_request *r, uint64_t *from, uint64_t *limit, struct why *why)
{
	*limit = LIMIT_USUAL;
	if (https_request_number(r, "from", INT64_MAX, from) &&
		https_request_number(r, "limit", LIMIT_MOST, limit))
		return true;
	err_why(why, ERR_syntax, "\"from\" must be a number, \"limit\" one up to %d", LIMIT_MOST);
	https_reply_error(r, 0, why);
	return false;
}

/* ---- peers */

void api_view_peers(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	struct why why;
	uint64_t from = 0, limit = LIMIT_MOST;
	(void)https_request_number(r, "limit", LIMIT_MOST, &limit);
	if (!https_request_number(r, "from", UINT32_MAX, &from)) {
		err_why(&why, ERR_syntax, "\"from\" must be the number of a member");
		https_reply_error(r, 0, &why);
		return;
	}
	const struct view_page page = {(uint32_t)from, (uint32_t)limit};
	hub_store_refusals(h);
	json_t *doc = NULL;
	if (view_peers(h, &page, clock_now_ns(), &doc, &why))
		https_reply_error(r, 0, &why);
	else
		https_reply_json(r, doc);
}

/* ---- rounds */

static void add_round(void *arg, const struct store_round *row)
{
	json_array_append_new(arg, view_round(row));
}

void api_view_rounds(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	struct why why;
	uint64_t newest = run_head(&h->run).round, from = UINT64_MAX, limit;
	if (!read_range(r, &from, &limit, &why))
		return;
	if (from == UINT64_MAX)
		from = newest > limit ? newest - limit : 0;
	const struct store_range range = {from, (uint32_t)limit};
	json_t *rows = json_array();
	enum err err = store_round_list(h->run.store, &range, add_round, rows, &why);
	reply_list(r, err, &why,
		json_pack("{s:o, s:b}", "rounds", rows, "more", from + limit < newest));
}

/* ---- ledger */

static json_t *record_row(const struct store_entry *e)
{
	char blob[HASH_HEX];
	hash_hex(&e->record, blob);
	return json_pack("{s:I, s:I, s:i, s:s, s:I}", "sequence", (json_int_t)e->sequence, "round",
		(json_int_t)e->round, "shard", (int)e->shard, "blob", blob, "bytes",
		(json_int_t)e->bytes);
}

static void add_record(void *arg, const struct store_entry *e)
{
	json_array_append_new(arg, record_row(e));
}

static void add_hash(json_t *doc, const char *name, const struct hash *h)
{
	char hex[HASH_HEX];
	hash_hex(h, hex);
	json_object_set_new(doc, name, json_string(hex));
}

static void add_entry(void *arg, const struct store_entry *row)
{
	struct ledger_entry e;
	size_t used;
	json_t *doc = record_row(row), *list = json_array();
	add_hash(doc, "hash", &row->hash);
	add_hash(doc, "state", &row->state);
	json_object_set_new(doc, "contributions", list);
	if (!ledger_entry_decode(row->entry, row->entry_len, &used, &e, NULL)) {
		for (uint32_t i = 0; i < e.count; i++)
			json_array_append_new(
				list, json_pack("{s:i, s:I}", "peer", (int)e.accepted[i].peer,
					      "tokens", (json_int_t)e.accepted[i].tokens));
		add_hash(doc, "update", &e.update);
		add_hash(doc, "previous", &e.previous);
		json_object_set_new(doc, "merged", json_boolean(e.kind == UPDATE_merged));
		ledger_entry_release(&e);
	}
	json_array_insert_new(arg, 0, doc); /* newest first */
}

static void ledger_full(struct hub *h, struct https_request *r, uint64_t limit)
{
	struct why why;
	uint64_t newest = run_head(&h->run).sequence;
	const struct store_range range = {newest > limit ? newest - limit : 0, (uint32_t)limit};
	json_t *rows = json_array();
	enum err err = store_entry_list(h->run.store, &range, add_entry, rows, &why);
	reply_list(r, err, &why, json_pack("{s:o, s:b}", "records", rows, "more", newest > limit));
}

/* Whether what came after this entry is still kept; else the request is answered. */
static bool is_kept(struct hub *h, struct https_request *r, uint64_t from)
{
	struct why why;
	uint64_t pruned = 0;
	enum err err = store_get_number(h->run.store, "pruned", 0, &pruned, &why);
	if (!err && from >= pruned)
		return true;
	if (!err)
		err_why(&why, ERR_missing,
			"the records up to %llu are not kept any more: begin from the snapshot",
			(unsigned long long)pruned);
	https_reply_error(r, err ? 0 : 410, &why);
	return false;
}

/* For peers that missed rounds: what is still there to be fetched after `from`. */
static void ledger_records(struct hub *h, struct https_request *r, uint64_t from, uint64_t limit)
{
	struct why why;
	const uint64_t newest = run_head(&h->run).sequence;
	if (!is_kept(h, r, from))
		return;
	const struct store_range range = {from, (uint32_t)limit};
	json_t *rows = json_array();
	enum err err = store_entry_list(h->run.store, &range, add_record, rows, &why);
	reply_list(r, err, &why,
		json_pack("{s:o, s:b}", "records", rows, "more", from + limit < newest));
}

void api_view_ledger(void *hub, struct https_request *r)
{
	struct why why;
	uint64_t from = 0, limit, full = 0;
	(void)https_request_number(r, "full", 1, &full);
	if (!read_range(r, &from, &limit, &why))
		return;
	if (full)
		ledger_full(hub, r, limit);
	else
		ledger_records(hub, r, from, limit);
}

/* Many records in one answer, since far away each question costs a round trip. */
struct gathered {
	const struct blob_store *blobs;
	struct buf bytes; /* not more than OBJECT_PIECE */
	bool full;
};

static void gather(void *arg, const struct store_entry *e)
{
	struct gathered *g = arg;
	uint8_t *bytes = NULL;
	size_t n = 0;
	if (g->full || e->bytes > OBJECT_PIECE - g->bytes.len) {
		g->full = true;
		return;
	}
	char *path = blob_path(g->blobs, &e->record);
	g->full = file_read(path, (size_t)e->bytes, &bytes, &n, NULL) != ERR_OK;
	if (!g->full)
		buf_put(&g->bytes, bytes, n);
	free(bytes);
	free(path);
}

void api_view_records(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	struct why why;
	uint64_t from = 0, limit;
	struct gathered g = {.blobs = h->run.blobs};
	if (!read_range(r, &from, &limit, &why) || !is_kept(h, r, from))
		return;
	const struct store_range range = {from, (uint32_t)limit};
	buf_init(&g.bytes, OBJECT_PIECE);
	enum err err = store_entry_list(h->run.store, &range, gather, &g, &why);
	if (!err && !g.bytes.len)
		err = err_why(&why, ERR_missing,
			"no record after entry %llu is to be had here: each has an address of its "
			"own, /api/v1/blob/HASH",
			(unsigned long long)from);
	const struct https_reply_content c = {.type = "application/octet-stream"};
	if (err)
		https_reply_error(r, 0, &why);
	else
		https_reply_bytes(r, &c, g.bytes.data, g.bytes.len);
	buf_release(&g.bytes);
}

/* ---- who aggregates */

void api_view_topology(void *hub, struct https_request *r)
{
	https_reply_json(r, hub_topology_view(hub, clock_now_ns()));
}

/* ---- refusals */

static void add_count(void *arg, enum err code, uint64_t n)
{
	json_array_append_new(
		arg, json_pack("{s:i, s:s, s:s, s:I}", "code", (int)code, "name", err_name(code),
			     "text", err_text(code), "count", (json_int_t)n));
}

static void add_refusal(void *arg, const struct store_refusal *row)
{
	json_array_append_new(arg, view_refusal(row));
}

void api_view_refusals(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	struct why why;
	json_t *counts = json_array(), *recent = json_array();
	hub_store_refusals(h);
	enum err err = store_refusal_counts(h->run.store, add_count, counts, &why);
	if (!err)
		err = store_refusal_list(h->run.store, add_refusal, recent, &why);
	reply_list(r, err, &why,
		json_pack("{s:I, s:o, s:o}", "total", (json_int_t)h->refusals, "counts", counts,
			"recent", recent));
}

/* ---- losses */

static void add_loss(void *arg, const struct store_loss *l)
{
	json_array_append_new(arg, view_loss(l));
}

void api_view_loss(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	struct why why;
	json_t *points = json_array();
	enum err err = store_loss_list(h->run.store, add_loss, points, &why);
	reply_list(r, err, &why,
		json_pack("{s:o, s:o}", "points", points, "yardsticks", view_yardsticks(h)));
}

static void print_loss(void *arg, const struct store_loss *l)
{
	buf_printf(arg, "%llu,%llu,%.9g,%.9g,%llu,%u,%llu\n", (unsigned long long)l->round,
		(unsigned long long)l->tokens, l->nats_per_byte, l->nats_per_token,
		(unsigned long long)l->measured, l->member, (unsigned long long)l->at_s);
}

void api_view_loss_csv(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	struct why why;
	struct buf b;
	const struct https_reply_content c = {
		.type = "text/csv; charset=utf-8", .filename = "loss.csv"};
	buf_init(&b, 64u << 20);
	buf_printf(&b, "round,tokens,nats_per_byte,nats_per_token,measured,member,at_s\n");
	enum err err = store_loss_list(h->run.store, print_loss, &b, &why);
	if (!err && !buf_ok(&b))
		err = err_why(&why, ERR_toobig, "the history is too long for one reply");
	if (err)
		https_reply_error(r, 0, &why);
	else
		https_reply_bytes(r, &c, b.data, b.len);
	buf_release(&b);
}

/* ---- for machines */

void api_view_metrics(void *hub, struct https_request *r)
{
	struct why why;
	struct buf b;
	const struct https_reply_content c = {.type = "text/plain; version=0.0.4; charset=utf-8"};
	buf_init(&b, 16u << 20);
	metrics_print(hub, clock_now_ns(), &b);
	if (buf_ok(&b)) {
		https_reply_bytes(r, &c, b.data, b.len);
	} else {
		err_why(&why, ERR_toobig, "too many members for one reply");
		https_reply_error(r, 0, &why);
	}
	buf_release(&b);
}

void api_view_health(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	char reason[REASON_TEXT];
	reason_text(h->rounds, h->run.spec, clock_now_ns(), reason);
	https_reply_json(
		r, json_pack("{s:b, s:s, s:s}", "ok", 1, "state",
			   roundstate_text(rounds_ask_state(h->rounds)), "reason", reason));
}
