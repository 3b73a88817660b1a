#include "net/transfer.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CANCELS 16
#define BACKOFF_MOST 3 // doublings of retry_ns

uint64_t transfer_ref(uint32_t kind, const struct hash *name, const void *meta, size_t meta_len)
{
	struct hash_state *s = hash_begin();
	hash_add_u32(s, kind);
	hash_add(s, name->b, sizeof name->b);
	if (meta_len)
		hash_add(s, meta, meta_len);
	struct hash h = hash_end(s);
	struct rd r;
	rd_init(&r, h.b, sizeof h.b);
	return rd_u64(&r);
}

void transfer_limits_init(struct transfer_limits *l)
{
	*l = (struct transfer_limits){
		.chunk = 256u << 10,
		.objects = 16,
		.eager = 256u << 10,
		.window = 16u << 20,
		.delay_ns = CLOCK_SECOND,
		.retry_ns = 10 * CLOCK_SECOND,
		.stall_ns = 120 * CLOCK_SECOND,
	};
}

enum tx_state { TX_queued, TX_begun, TX_sending };

struct tx_object {
	struct tx_object *next_object;
	enum tx_state state;
	struct shared *bytes;
	uint64_t ref, push;
	uint64_t next, have, upto; // offsets: to be sent, acknowledged, allowed
	uint64_t started_ns, progress_ns;
	uint32_t kind, attempt, tries; // tries: begins since the last progress
	size_t meta_len;
	uint8_t meta[TRANSFER_META];
};

struct transfer_tx {
	const struct transfer_limits *limits;
	struct tx_object *first;
	size_t count;
	uint64_t pushes;
	uint32_t eager;            // of the other side
	uint64_t cancels[CANCELS]; // to be told to the receiver
	size_t n_cancels;
	uint64_t on_way; // bytes sent and not acknowledged
	// One sample of the rate: from mark_ns on, acked bytes came back; it is complete at need.
	uint64_t mark_ns, acked, need;
	double rate; // bytes/s
};

struct transfer_tx *transfer_tx_new(const struct transfer_limits *limits)
{
	struct transfer_tx *tx = alloc_must_zero(1, sizeof *tx);
	tx->limits = limits;
	return tx;
}

static void tx_remove(struct transfer_tx *tx, struct tx_object *o)
{
	struct tx_object **at = &tx->first;
	while (*at != o)
		at = &(*at)->next_object;
	*at = o->next_object;
	tx->count--;
	tx->on_way -= o->next - o->have;
	shared_drop(o->bytes);
	free(o);
}

void transfer_tx_free(struct transfer_tx *tx)
{
	if (!tx)
		return;
	while (tx->first)
		tx_remove(tx, tx->first);
	free(tx);
}

static struct tx_object *tx_find(const struct transfer_tx *tx, uint64_t ref)
{
	struct tx_object *o = tx->first;
	while (o && o->ref != ref)
		o = o->next_object;
	return o;
}

uint64_t transfer_tx_push(struct transfer_tx *tx, uint32_t kind, struct shared *bytes,
	const void *meta, size_t meta_len)
{
	assert(meta_len <= TRANSFER_META && shared_len(bytes) > 0);
	uint64_t ref = transfer_ref(kind, shared_name(bytes), meta, meta_len);
	if (tx_find(tx, ref))
		return ref;
	struct tx_object *o = alloc_must_zero(1, sizeof *o), **end = &tx->first;
	o->bytes = shared_hold(bytes);
	o->ref = ref;
	o->push = tx->limits->push + tx->pushes++;
	o->kind = kind;
	o->meta_len = meta_len;
	if (meta_len)
		memcpy(o->meta, meta, meta_len);
	while (*end)
		end = &(*end)->next_object;
	*end = o;
	tx->count++;
	return ref;
}

void transfer_tx_cancel(struct transfer_tx *tx, uint64_t ref)
{
	struct tx_object *o = tx_find(tx, ref);
	if (!o)
		return;
	// A cancel that finds no place is only a courtesy lost: the receiver drops what stalls.
	if (o->attempt && tx->n_cancels < CANCELS)
		tx->cancels[tx->n_cancels++] = ref;
	tx_remove(tx, o);
}

void transfer_tx_restart(struct transfer_tx *tx, uint32_t eager)
{
	tx->eager = eager;
	for (struct tx_object *o = tx->first; o; o = o->next_object) {
		o->state = TX_queued;
		o->next = o->have;
		o->tries = 0;
	}
	tx->on_way = 0;
	tx->mark_ns = 0;
}

/* The rate is what one window's worth of bytes took, so that pauses between objects do not count.
 */
static void tx_acknowledged(struct transfer_tx *tx, uint64_t bytes, uint64_t now_ns)
{
	tx->acked += bytes;
	if (!tx->mark_ns || tx->acked < tx->need) {
		tx->mark_ns = tx->on_way ? tx->mark_ns : 0;
		return;
	}
	uint64_t took = now_ns > tx->mark_ns ? now_ns - tx->mark_ns : 1;
	double sample = (double)tx->acked / clock_seconds(took);
	tx->rate = tx->rate > 0 ? (tx->rate + sample) / 2 : sample;
	tx->mark_ns = tx->on_way ? now_ns : 0;
	tx->need = tx->on_way;
	tx->acked = 0;
}

static void tx_credit(
	struct transfer_tx *tx, struct tx_object *o, const shoal_credit *c, uint64_t now_ns)
{
	uint64_t size = shared_len(o->bytes), old = o->have;
	bool answer = o->state == TX_begun;
	if (o->state == TX_queued || c->attempt != o->attempt || c->have > size || c->upto > size)
		return;
	if (!answer && c->have < o->have)
		return; // overtaken by a later one
	tx->on_way -= o->next - o->have;
	// The answer to begin says from where; it may be behind us when chunks were lost.  What we
	// sent before it came is lost unless it is all granted.
	bool eager = o->next > o->have && c->upto >= o->next;
	if (o->next < c->have || (answer && !eager))
		o->next = c->have;
	o->have = c->have;
	o->upto = answer || c->upto > o->upto ? c->upto : o->upto;
	o->state = TX_sending;
	tx->on_way += o->next - o->have;
	if (!answer && c->have == old)
		return;
	o->progress_ns = now_ns;
	if (c->have > old) {
		o->tries = 0;
		tx_acknowledged(tx, c->have - old, now_ns);
	}
}

static void tx_tell(
	struct transfer_tx *tx, struct tx_object *o, struct transfer_event *e, uint64_t now_ns)
{
	e->ref = o->ref;
	e->kind = o->kind;
	e->name = *shared_name(o->bytes);
	e->meta_len = o->meta_len;
	memcpy(e->meta, o->meta, o->meta_len);
	e->size = shared_len(o->bytes);
	e->taken_ns = now_ns - o->started_ns;
	tx_remove(tx, o);
}

bool transfer_tx_take(struct transfer_tx *tx, const shoal_header *header, uint64_t now_ns,
	struct transfer_event *event)
{
	struct tx_object *o;
	*event = (struct transfer_event){.what = TRANSFER_delivered};
	switch (header->which_body) {
	case MSG_credit:
		if ((o = tx_find(tx, header->body.credit.ref)))
			tx_credit(tx, o, &header->body.credit, now_ns);
		return false;
	case MSG_done:
		if (!(o = tx_find(tx, header->body.done.ref)) || !o->attempt)
			return false;
		break;
	case MSG_decline: {
		const shoal_decline *d = &header->body.decline;
		if (!(o = tx_find(tx, d->ref)) || !o->attempt)
			return false;
		bool known = strcmp(err_name((enum err)d->code), "unknown") != 0;
		event->what = TRANSFER_declined;
		err_why(&event->why, d->code && known ? (enum err)d->code : ERR_refused, "%s",
			d->text[0] ? d->text : "refused without a reason");
		break;
	}
	default: return false;
	}
	tx_tell(tx, o, event, now_ns);
	return true;
}

/* again: the begin before was not answered, or nothing came of it. */
static void tx_begin(struct transfer_tx *tx, struct tx_object *o, bool again, uint64_t now_ns,
	struct transfer_out *out)
{
	shoal_begin *b = &out->header.body.begin;
	uint64_t size = shared_len(o->bytes);
	out->header.which_body = MSG_begin;
	tx->on_way -= o->next - o->have;
	o->next = o->upto = o->have;
	// A receiver that has had some of it says first from where, and one that does not answer
	// may have no room.
	if (!o->have && !again)
		o->upto = size < tx->eager ? size : tx->eager;
	if (!o->attempt)
		o->started_ns = now_ns;
	o->state = TX_begun;
	o->progress_ns = now_ns;
	b->kind = o->kind;
	memcpy(b->name, shared_name(o->bytes)->b, sizeof b->name);
	b->size = size;
	b->chunk = tx->limits->chunk;
	b->attempt = ++o->attempt;
	b->push = o->push;
	b->meta.size = (pb_size_t)o->meta_len;
	memcpy(b->meta.bytes, o->meta, o->meta_len);
}

/* How much may be on the way: what the link carries in delay_ns, but enough to keep it busy. */
static uint64_t tx_room(const struct transfer_tx *tx)
{
	uint64_t least = 2ull * tx->limits->chunk;
	double paced = tx->rate * clock_seconds(tx->limits->delay_ns);
	if (paced <= (double)least)
		return least;
	return paced < (double)tx->limits->window ? (uint64_t)paced : tx->limits->window;
}

static bool tx_chunk(
	struct transfer_tx *tx, struct tx_object *o, uint64_t now_ns, struct transfer_out *out)
{
	uint64_t size = shared_len(o->bytes), left = size - o->next;
	uint64_t len = left < tx->limits->chunk ? left : tx->limits->chunk;
	if (!left || o->next + len > o->upto || (tx->on_way && tx->on_way + len > tx_room(tx)))
		return false;
	out->header.which_body = MSG_chunk;
	out->header.body.chunk.ref = o->ref;
	out->header.body.chunk.offset = o->next;
	out->bytes = o->bytes;
	out->offset = (size_t)o->next;
	out->len = (size_t)len;
	o->next += len;
	o->progress_ns = now_ns;
	tx->on_way += len;
	if (!tx->mark_ns) {
		tx->mark_ns = now_ns ? now_ns : 1;
		tx->need = tx->limits->chunk;
		tx->acked = 0;
	}
	return true;
}

bool transfer_tx_next(struct transfer_tx *tx, uint64_t now_ns, struct transfer_out *out)
{
	*out = (struct transfer_out){.header = shoal_header_init_zero};
	if (tx->n_cancels) {
		out->header.which_body = MSG_cancel;
		out->header.body.cancel.ref = tx->cancels[--tx->n_cancels];
		return true;
	}
	uint32_t begun = 0;
	for (struct tx_object *o = tx->first; o && begun < tx->limits->objects;
		o = o->next_object, begun++) {
		uint32_t doublings = o->tries < BACKOFF_MOST ? o->tries : BACKOFF_MOST;
		bool silent = o->state != TX_queued &&
			      now_ns - o->progress_ns > tx->limits->retry_ns << doublings;
		if (o->state == TX_queued || silent) {
			o->tries += silent;
			tx_begin(tx, o, o->tries, now_ns, out);
			return true;
		}
		if (tx_chunk(tx, o, now_ns, out))
			return true;
	}
	return false;
}

size_t transfer_tx_count(const struct transfer_tx *tx)
{
	return tx->count;
}

double transfer_tx_rate(const struct transfer_tx *tx)
{
	return tx->rate;
}
