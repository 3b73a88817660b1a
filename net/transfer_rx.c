#include "net/transfer.h"
#include "base/alloc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((uintptr_t)2 << 20)

enum rx_state { RX_waiting, RX_receiving, RX_verified };

struct rx_object {
	struct rx_object *next_object;
	enum rx_state state;
	uint64_t ref, push, size, have, upto; // upto: what was granted
	uint64_t started_ns, progress_ns;
	uint32_t kind, attempt, chunk;
	bool credit_due, answer_due; // the latter: of a begin, as it was decided then
	struct hash name;
	struct hash_state *hash;
	uint8_t *bytes; // of size, while receiving
	size_t meta_len;
	uint8_t meta[TRANSFER_META];
};

/* An answer that was given, for senders that ask again. */
struct rx_kept {
	uint64_t ref, push;
	bool used, due;
	enum err code;
	char *text; // NULL when accepted
};

struct transfer_rx {
	const struct transfer_limits *limits;
	const struct transfer_kind *kinds;
	size_t n_kinds;
	struct transfer_budget *budget;
	struct rx_object *first;
	size_t count;
	struct rx_kept kept[TRANSFER_KEPT];
	size_t next_kept;
};

struct transfer_rx *transfer_rx_new(const struct transfer_limits *limits,
	const struct transfer_kind *kinds, size_t n_kinds, struct transfer_budget *budget)
{
	struct transfer_rx *rx = alloc_must_zero(1, sizeof *rx);
	rx->limits = limits;
	rx->kinds = kinds;
	rx->n_kinds = n_kinds;
	rx->budget = budget;
	return rx;
}

static void rx_remove(struct transfer_rx *rx, struct rx_object *o)
{
	struct rx_object **at = &rx->first;
	while (*at != o)
		at = &(*at)->next_object;
	*at = o->next_object;
	rx->count--;
	if (o->state != RX_waiting)
		rx->budget->used -= o->size;
	if (o->hash)
		hash_drop(o->hash);
	free(o->bytes);
	free(o);
}

void transfer_rx_free(struct transfer_rx *rx)
{
	if (!rx)
		return;
	while (rx->first)
		rx_remove(rx, rx->first);
	for (size_t i = 0; i < TRANSFER_KEPT; i++)
		free(rx->kept[i].text);
	free(rx);
}

static struct rx_object *rx_find(const struct transfer_rx *rx, uint64_t ref)
{
	struct rx_object *o = rx->first;
	while (o && o->ref != ref)
		o = o->next_object;
	return o;
}

/* What was answered before is pushed anew: it is judged anew. */
static void rx_forget(struct transfer_rx *rx, uint64_t ref, uint64_t push)
{
	for (size_t i = 0; i < TRANSFER_KEPT; i++)
		if (rx->kept[i].used && rx->kept[i].ref == ref && rx->kept[i].push != push)
			rx->kept[i].used = rx->kept[i].due = false;
}

/* true: ref was answered before, and the answer will be repeated. */
static bool rx_repeat(struct transfer_rx *rx, uint64_t ref)
{
	for (size_t i = 0; i < TRANSFER_KEPT; i++)
		if (rx->kept[i].used && rx->kept[i].ref == ref)
			return rx->kept[i].due = true;
	return false;
}

static void rx_keep(
	struct transfer_rx *rx, uint64_t ref, uint64_t push, enum err code, const char *text)
{
	struct rx_kept *k = &rx->kept[rx->next_kept];
	rx->next_kept = (rx->next_kept + 1) % TRANSFER_KEPT;
	free(k->text);
	*k = (struct rx_kept){.ref = ref, .push = push, .used = true, .due = true, .code = code};
	if (code)
		k->text = alloc_must_strdup(text && text[0] ? text : err_text(code));
}

static enum err rx_decline(
	struct transfer_rx *rx, uint64_t ref, uint64_t push, const struct why *why)
{
	struct rx_object *o = rx_find(rx, ref);
	if (o)
		rx_remove(rx, o);
	rx_keep(rx, ref, push, why->code, why->text);
	return why->code;
}

static enum err rx_judge(const struct transfer_rx *rx, const shoal_begin *b, struct why *why)
{
	size_t k = 0;
	while (k < rx->n_kinds && rx->kinds[k].kind != b->kind)
		k++;
	if (k == rx->n_kinds)
		return err_why(
			why, ERR_unsupported, "objects of kind %u are not taken here", b->kind);
	uint64_t most = rx->kinds[k].size_most;
	if (most > rx->budget->most)
		most = rx->budget->most;
	if (b->size > most)
		return err_why(why, ERR_toobig,
			"an object of %llu bytes, the most for kind %u is %llu",
			(unsigned long long)b->size, b->kind, (unsigned long long)most);
	if (!b->size || b->chunk < TRANSFER_CHUNK_LEAST || b->chunk > TRANSFER_CHUNK_MOST)
		return err_why(why, ERR_range, "an object of %llu bytes in chunks of %u",
			(unsigned long long)b->size, b->chunk);
	return ERR_OK;
}

/* Oldest first: what began first gets memory and window first. */
static struct rx_object *rx_add(
	struct transfer_rx *rx, const shoal_begin *b, uint64_t ref, const struct hash *name)
{
	struct rx_object *o = alloc_must_zero(1, sizeof *o), **end = &rx->first;
	o->ref = ref;
	o->kind = b->kind;
	o->name = *name;
	o->size = b->size;
	o->meta_len = b->meta.size;
	memcpy(o->meta, b->meta.bytes, b->meta.size);
	while (*end)
		end = &(*end)->next_object;
	*end = o;
	rx->count++;
	return o;
}

/* The first touch of small pages costs a third of what hashing does: ask for large ones. */
static void ask_for_huge_pages(uint8_t *bytes, uint64_t size)
{
	uintptr_t start = ((uintptr_t)bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	uintptr_t end = ((uintptr_t)bytes + size) & ~(HUGE_PAGE - 1);
	if (start < end)
		(void)madvise((void *)start, end - start, MADV_HUGEPAGE);
}

/* Memory for an object that waits, as soon as the budget and the machine have it. */
static void rx_admit(struct transfer_rx *rx, struct rx_object *o, uint64_t now_ns)
{
	if (o->size > rx->budget->most - rx->budget->used)
		return;
	o->bytes = alloc_try((size_t)o->size, 1);
	if (!o->bytes)
		return;
	ask_for_huge_pages(o->bytes, o->size);
	rx->budget->used += o->size;
	o->hash = hash_begin();
	o->state = RX_receiving;
	o->progress_ns = now_ns;
}

/* Grant what the window allows, in whole chunks, so that no remainder is held that is of no use. */
static void rx_grant(struct rx_object *o, uint64_t *window)
{
	uint64_t more = o->size - o->upto;
	if (more > *window)
		more = *window;
	uint64_t ahead = o->upto + more - o->have;
	if (o->upto + more < o->size)
		ahead -= ahead % o->chunk;
	if (o->have + ahead <= o->upto)
		return;
	*window -= o->have + ahead - o->upto;
	o->upto = o->have + ahead;
	o->credit_due = true;
}

/* What is outstanding counts against the window; what stalls is dropped. */
static uint64_t rx_survey(struct transfer_rx *rx, uint64_t now_ns)
{
	uint64_t window = rx->limits->window;
	for (struct rx_object *o = rx->first, *after; o; o = after) {
		after = o->next_object;
		if (o->state == RX_verified)
			continue;
		if (now_ns - o->progress_ns > rx->limits->stall_ns) {
			rx_remove(rx, o);
			continue;
		}
		if (o->state == RX_waiting)
			rx_admit(rx, o, now_ns);
		uint64_t ahead = o->upto - o->have;
		window -= ahead < window ? ahead : window;
	}
	return window;
}

static enum err rx_begin(struct transfer_rx *rx, const shoal_begin *b, uint64_t now_ns)
{
	struct why why;
	struct hash name;
	memcpy(name.b, b->name, sizeof name.b);
	uint64_t ref = transfer_ref(b->kind, &name, b->meta.bytes, b->meta.size);
	rx_forget(rx, ref, b->push);
	if (rx_repeat(rx, ref))
		return ERR_OK;
	uint64_t window = rx_survey(rx, now_ns);
	enum err err = rx_judge(rx, b, &why);
	struct rx_object *o = rx_find(rx, ref);
	if (!err && o && o->size != b->size)
		err = err_why(&why, ERR_syntax, "an object began with two sizes");
	if (err)
		return rx_decline(rx, ref, b->push, &why);
	if (!o && rx->count >= rx->limits->objects)
		return ERR_busy; // the sender asks again
	if (!o) {
		o = rx_add(rx, b, ref, &name);
		o->started_ns = now_ns;
	}
	if (o->state == RX_waiting)
		o->progress_ns = now_ns;
	o->push = b->push;
	o->attempt = b->attempt;
	o->chunk = b->chunk;
	o->answer_due = true;
	if (o->state == RX_waiting)
		rx_admit(rx, o, now_ns);
	if (o->state == RX_receiving)
		rx_grant(o, &window);
	return ERR_OK;
}

static enum err rx_verify(struct transfer_rx *rx, struct rx_object *o, uint64_t now_ns,
	struct transfer_event *e, bool *got)
{
	struct hash found = hash_end(o->hash);
	o->hash = NULL;
	if (!hash_equal(&found, &o->name)) {
		struct why why;
		err_why(&why, ERR_hash, "the bytes of an object do not match its hash");
		return rx_decline(rx, o->ref, o->push, &why);
	}
	o->state = RX_verified;
	*e = (struct transfer_event){.what = TRANSFER_received,
		.ref = o->ref,
		.kind = o->kind,
		.name = o->name,
		.meta_len = o->meta_len,
		.size = o->size,
		.taken_ns = now_ns - o->started_ns,
		.bytes = o->bytes};
	memcpy(e->meta, o->meta, o->meta_len);
	o->bytes = NULL;
	*got = true;
	return ERR_OK;
}

static enum err rx_chunk(struct transfer_rx *rx, const struct transfer_in *in, uint64_t now_ns,
	struct transfer_event *event, bool *got)
{
	const shoal_chunk *c = &in->header->body.chunk;
	struct rx_object *o = rx_find(rx, c->ref);
	if (!o)
		return rx_repeat(rx, c->ref) ? ERR_OK : ERR_range;
	if (o->state == RX_verified || c->offset < o->have) {
		o->credit_due = true;
		return ERR_OK;
	}
	if (o->state != RX_receiving || c->offset != o->have)
		return ERR_range;
	uint64_t left = o->size - o->have;
	if (in->payload_len != (left < o->chunk ? left : o->chunk))
		return ERR_syntax;
	if (o->have + in->payload_len > o->upto)
		return ERR_range;
	memcpy(o->bytes + o->have, in->payload, in->payload_len);
	hash_add(o->hash, in->payload, in->payload_len);
	o->have += in->payload_len;
	o->progress_ns = now_ns;
	o->credit_due = true;
	return o->have == o->size ? rx_verify(rx, o, now_ns, event, got) : ERR_OK;
}

enum err transfer_rx_take(struct transfer_rx *rx, const struct transfer_in *in, uint64_t now_ns,
	struct transfer_event *event, bool *got)
{
	*got = false;
	struct rx_object *o;
	switch (in->header->which_body) {
	case MSG_begin: return rx_begin(rx, &in->header->body.begin, now_ns);
	case MSG_chunk: return rx_chunk(rx, in, now_ns, event, got);
	case MSG_cancel:
		o = rx_find(rx, in->header->body.cancel.ref);
		if (o && o->state != RX_verified)
			rx_remove(rx, o);
		return ERR_OK;
	default: return ERR_unsupported;
	}
}

void transfer_rx_answer(struct transfer_rx *rx, uint64_t ref, enum err code, const char *text)
{
	struct rx_object *o = rx_find(rx, ref);
	if (!o || o->state != RX_verified)
		return;
	uint64_t push = o->push;
	rx_remove(rx, o);
	rx_keep(rx, ref, push, code, text);
}

static bool rx_answers(struct transfer_rx *rx, shoal_header *h)
{
	for (size_t i = 0; i < TRANSFER_KEPT; i++) {
		struct rx_kept *k = &rx->kept[i];
		if (!k->due)
			continue;
		k->due = false;
		h->which_body = k->code ? MSG_decline : MSG_done;
		if (!k->code) {
			h->body.done.ref = k->ref;
			return true;
		}
		h->body.decline.ref = k->ref;
		h->body.decline.code = k->code;
		snprintf(h->body.decline.text, sizeof h->body.decline.text, "%s", k->text);
		return true;
	}
	return false;
}

bool transfer_rx_next(struct transfer_rx *rx, uint64_t now_ns, struct transfer_out *out)
{
	*out = (struct transfer_out){.header = shoal_header_init_zero};
	if (rx_answers(rx, &out->header))
		return true;
	uint64_t window = rx_survey(rx, now_ns);
	for (struct rx_object *o = rx->first; o; o = o->next_object) {
		// The sender concludes from the answer what became of the bytes that it sent
		// without waiting for it: what is granted since then is another credit.
		if (o->state == RX_receiving && !o->answer_due)
			rx_grant(o, &window);
		if (!o->credit_due && !o->answer_due)
			continue;
		shoal_credit *c = &out->header.body.credit;
		out->header.which_body = MSG_credit;
		o->credit_due = o->answer_due = false;
		c->ref = o->ref;
		c->attempt = o->attempt;
		c->have = o->have;
		c->upto = o->upto;
		return true;
	}
	return false;
}

size_t transfer_rx_count(const struct transfer_rx *rx)
{
	return rx->count;
}
