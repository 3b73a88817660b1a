#include "peer/take.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/version.h"
#include "net/link.h"
#include "peer/pick.h"
#include "round/object.h"

#define ASKED_MOST 2u    /* pieces of one peer at once: one comes, one waits */
#define ATTEMPTS_MOST 3u /* it may not have heard yet that we are on the roster */
#define CONNECT_MOST (5 * CLOCK_SECOND)
#define SILENCE_MOST (20 * CLOCK_SECOND) /* for one answer */
#define NOBODY_MOST (8 * CLOCK_SECOND)   /* without a link to anybody: the coordinator is there */
#define LOOK_EVERY (CLOCK_SECOND / 5)

enum from_state { FROM_new, FROM_dialled, FROM_listing, FROM_open, FROM_left };

struct asked {
	bool on;
	size_t piece;
	uint64_t have, at_ns;
	uint8_t *bytes;
};

struct from {
	enum from_state state;
	uint32_t number, attempts;
	uint8_t key[LINK_KEY];
	const char *address;
	bool *keeps; /* by blob */
	struct asked asked[ASKED_MOST];
	uint64_t heard_ns, rtt_ns, bytes;
	double rate;
};

struct taking {
	struct take *t;
	struct mailbox *mail;
	struct link *link;
	struct from *from;
	struct pick_piece *pieces; /* as pick.h wants them */
	struct pick_peer *peers;
	size_t n;
	uint64_t somebody_ns; /* when there last was a link to anybody */
	uint32_t left;
	struct why *why;
	enum err failed;
};

/* ---- one peer */

static struct from *find(struct taking *s, const uint8_t *key)
{
	for (size_t i = 0; i < s->n; i++)
		if (!memcmp(s->from[i].key, key, LINK_KEY))
			return &s->from[i];
	return NULL;
}

static void drop(struct taking *s, struct asked *a)
{
	if (a->on && !s->t->pieces[a->piece].here)
		s->pieces[a->piece].taken = false;
	free(a->bytes);
	*a = (struct asked){0};
}

static void leave(struct taking *s, struct from *f, const char *cause)
{
	for (uint32_t i = 0; i < ASKED_MOST; i++)
		drop(s, &f->asked[i]);
	link_forget(s->link, f->key);
	s->left++;
	f->state = FROM_left;
	log_at(peer, 1, "member %u does not give any more: %s", f->number, cause);
}

static void want(struct taking *s, const struct from *f, const shoal_want *w)
{
	shoal_header h = {.which_body = MSG_want};
	h.body.want = *w;
	link_send(s->link, f->key, &h, NULL);
}

/* What comes next of a piece; a large one comes in several objects. */
static void ask_on(struct taking *s, const struct from *f, struct asked *a)
{
	const struct take_piece *p = &s->t->pieces[a->piece];
	shoal_want w = {.kind = OBJECT_piece, .offset = p->offset + a->have};
	memcpy(w.name, s->t->blobs[p->blob].b, sizeof w.name);
	a->at_ns = clock_now_ns();
	want(s, f, &w);
}

static void ask(struct taking *s, struct from *f, size_t piece)
{
	struct asked *a = f->asked;
	while (a->on)
		a++;
	*a = (struct asked){.on = true, .piece = piece};
	a->bytes = alloc_must((size_t)s->t->pieces[piece].bytes);
	s->pieces[piece].taken = true;
	ask_on(s, f, a);
}

/* ---- what they say */

/* Of the time since it was asked, or since what came before. */
static void measure(struct from *f, const struct asked *a, size_t n, uint64_t now)
{
	uint64_t since = a->at_ns > f->heard_ns ? a->at_ns : f->heard_ns;
	double rate = (double)n / (clock_seconds(now - since) + 1e-6);
	f->rate = f->rate > 0 ? (f->rate + rate) / 2 : rate;
}

static void whole(struct taking *s, struct from *f, struct asked *a)
{
	struct take *t = s->t;
	struct why why = {0};
	const size_t piece = a->piece;
	enum err err = t->put(t->arg, piece, a->bytes, (size_t)t->pieces[piece].bytes, &why);
	t->pieces[piece].here = !err;
	f->bytes += err ? 0 : t->pieces[piece].bytes;
	drop(s, a);
	if (err == ERR_hash || err == ERR_shape) {
		leave(s, f, why.text);
	} else if (err) {
		*s->why = why;
		s->failed = err;
	}
}

static void on_piece(struct taking *s, struct from *f, const struct link_event *e, uint64_t now)
{
	struct rd meta;
	struct hash name;
	rd_init(&meta, e->meta, e->meta_len);
	rd_copy(&meta, name.b, sizeof name.b);
	const uint64_t offset = rd_u64(&meta);
	for (uint32_t i = 0; rd_ok(&meta) && i < ASKED_MOST; i++) {
		struct asked *a = &f->asked[i];
		const struct take_piece *p = &s->t->pieces[a->piece];
		if (!a->on || offset != p->offset + a->have ||
			!hash_equal(&name, &s->t->blobs[p->blob]))
			continue;
		/* The end of a piece need not be the end of what is given at once. */
		size_t n = e->payload_len;
		n = n > p->bytes - a->have ? (size_t)(p->bytes - a->have) : n;
		memcpy(a->bytes + a->have, e->payload, n);
		a->have += n;
		measure(f, a, n, now);
		if (a->have == p->bytes)
			whole(s, f, a);
		else
			ask_on(s, f, a);
		return;
	}
}

static void on_object(struct taking *s, struct from *f, const struct link_event *e, uint64_t now)
{
	struct why why;
	link_answer(s->link, e->key, e->ref, ERR_OK, NULL);
	f->rtt_ns = e->rtt_ns ? e->rtt_ns : f->rtt_ns;
	if (e->object_kind == OBJECT_piece && f->state == FROM_open) {
		on_piece(s, f, e, now);
	} else if (e->object_kind == OBJECT_shelf && f->state == FROM_listing) {
		f->state = FROM_open;
		if (take_list(
			    e->payload, e->payload_len, s->t->blobs, s->t->n_blobs, f->keeps, &why))
			leave(s, f, why.text);
	}
	f->heard_ns = now;
}

/* It does not keep any more what it listed: answers come in the order of the questions. */
static void on_refusal(struct taking *s, struct from *f, const shoal_refusal *r)
{
	struct asked *first = NULL;
	for (uint32_t i = 0; i < ASKED_MOST; i++)
		if (f->asked[i].on && (!first || f->asked[i].at_ns < first->at_ns))
			first = &f->asked[i];
	if (!first || r->code != ERR_missing) {
		leave(s, f, r->text);
		return;
	}
	f->keeps[s->t->pieces[first->piece].blob] = false;
	drop(s, first);
}

static void on_event(struct taking *s, const struct link_event *e, uint64_t now)
{
	struct from *f = find(s, e->key);
	if (!f || f->state == FROM_left)
		return;
	switch ((enum link_event_kind)e->mail.kind) {
	case LINK_connected:
		f->state = FROM_listing;
		f->heard_ns = now;
		want(s, f, &(shoal_want){.kind = OBJECT_shelf});
		break;
	case LINK_object: on_object(s, f, e, now); break;
	case LINK_waiting:
		if (e->why.code != ERR_unknown_peer || ++f->attempts == ATTEMPTS_MOST)
			leave(s, f, e->why.text);
		break;
	case LINK_lost: leave(s, f, e->why.text); break;
	case LINK_message:
		if (e->header.which_body == MSG_refusal)
			on_refusal(s, f, &e->header.body.refusal);
		break;
	default: break;
	}
}

/* ---- what is next */

static void dial(struct taking *s, struct from *f)
{
	shoal_hello h = {.number = s->t->member, .instance = s->t->identity->instance};
	snprintf(h.version, sizeof h.version, "%s", version_text());
	memcpy(h.run, s->t->run->b, sizeof h.run);
	f->state = FROM_dialled;
	link_connect(s->link, f->key, f->address, &h);
}

/* Whether anybody is there, or may be in a moment. */
static bool reach_out(struct taking *s, uint64_t now)
{
	uint32_t active = 0;
	for (size_t i = 0; i < s->n; i++) {
		const struct from *f = &s->from[i];
		active += f->state == FROM_dialled || f->state == FROM_listing ||
			  f->state == FROM_open;
		if (f->state == FROM_listing || f->state == FROM_open)
			s->somebody_ns = now;
	}
	for (size_t i = 0; i < s->n && active < TAKE_PEERS; i++) {
		if (s->from[i].state != FROM_new)
			continue;
		dial(s, &s->from[i]);
		active++;
	}
	return active && now - s->somebody_ns < NOBODY_MOST;
}

static void leave_silent(struct taking *s, uint64_t now)
{
	for (size_t i = 0; i < s->n; i++) {
		struct from *f = &s->from[i];
		uint64_t asked_ns = f->state == FROM_listing ? f->heard_ns : 0;
		for (uint32_t k = 0; k < ASKED_MOST; k++)
			if (f->asked[k].on && (!asked_ns || f->asked[k].at_ns < asked_ns))
				asked_ns = f->asked[k].at_ns;
		if (f->state == FROM_left || !asked_ns)
			continue;
		if (now - (asked_ns > f->heard_ns ? asked_ns : f->heard_ns) > SILENCE_MOST)
			leave(s, f, "nothing comes of what it was asked for");
	}
}

/* Whether anything is on its way, or was asked for now. */
static bool ask_all(struct taking *s)
{
	bool busy = false;
	struct pick_choice c;
	for (;;) {
		for (size_t i = 0; i < s->n; i++) {
			struct from *f = &s->from[i];
			struct pick_peer *p = &s->peers[i];
			*p = (struct pick_peer){.open = f->state == FROM_open,
				.keeps = f->keeps,
				.rtt_ns = f->rtt_ns,
				.rate = f->rate};
			for (uint32_t k = 0; k < ASKED_MOST; k++) {
				const struct asked *a = &f->asked[k];
				p->asked += a->on;
				p->asked_bytes +=
					a->on ? s->t->pieces[a->piece].bytes - a->have : 0;
			}
			busy |= p->asked > 0 || f->state == FROM_dialled ||
				f->state == FROM_listing;
		}
		const struct pick pick = {s->pieces, s->t->n_pieces, s->peers, s->n, ASKED_MOST};
		if (!pick_next(&pick, &c))
			return busy;
		ask(s, &s->from[c.peer], c.piece);
	}
}

static bool all_here(const struct take *t)
{
	for (size_t i = 0; i < t->n_pieces; i++)
		if (!t->pieces[i].here)
			return false;
	return true;
}

static void loop(struct taking *s)
{
	s->somebody_ns = clock_now_ns();
	while (!s->failed && !all_here(s->t)) {
		const uint64_t now = clock_now_ns();
		if (atomic_load(s->t->stop)) {
			s->failed = err_why(s->why, ERR_interrupted, "interrupted");
			return;
		}
		leave_silent(s, now);
		if (!reach_out(s, now) || !ask_all(s))
			return;
		struct mail *m = mailbox_wait(s->mail, LOOK_EVERY);
		for (; m && !s->failed; m = mailbox_take(s->mail)) {
			on_event(s, link_event_of(m), clock_now_ns());
			m->drop(m);
		}
		if (m)
			m->drop(m);
	}
}

/* ---- life */

static enum err open_link(struct taking *s, struct why *why)
{
	const struct identity_curve *curve = &s->t->identity->curve;
	struct link_config how;
	link_config_init(&how);
	how.role = LINK_peer;
	memcpy(how.public_key, curve->public_key, sizeof how.public_key);
	memcpy(how.secret_key, curve->secret_key, sizeof how.secret_key);
	how.events = s->mail;
	how.connect_ns = CONNECT_MOST;
	how.proxy = s->t->proxy;
	how.traffic = s->t->traffic;
	rng_secret(&how.seed, sizeof how.seed);
	how.kinds[0] = (struct transfer_kind){OBJECT_shelf, OBJECT_SHELF_MAX};
	how.kinds[1] = (struct transfer_kind){OBJECT_piece, OBJECT_PIECE};
	how.n_kinds = 2;
	return link_new(&how, &s->link, why);
}

static void know(struct taking *s, const struct take_from *from)
{
	const struct roster_member *m = roster_by_number(s->t->roster, from->member);
	if (!m || m->removed || m->number == s->t->member || !address_ok(from->address) ||
		find(s, m->curve) || s->n == TAKE_FROM)
		return;
	struct from *f = &s->from[s->n++];
	*f = (struct from){.number = m->number, .address = from->address};
	memcpy(f->key, m->curve, sizeof f->key);
	f->keeps = alloc_must_zero(s->t->n_blobs, sizeof *f->keeps);
}

static void release(struct taking *s)
{
	for (size_t i = 0; i < s->n; i++) {
		for (uint32_t k = 0; k < ASKED_MOST; k++)
			free(s->from[i].asked[k].bytes);
		free(s->from[i].keeps);
	}
	link_free(s->link);
	mailbox_free(s->mail);
	free(s->from);
	free(s->peers);
	free(s->pieces);
}

enum err take_run(struct take *t, struct take_outcome *out, struct why *why)
{
	struct taking s = {.t = t, .why = why, .mail = mailbox_new()};
	*out = (struct take_outcome){0};
	s.from = alloc_must_zero(TAKE_FROM, sizeof *s.from);
	s.peers = alloc_must_zero(TAKE_FROM, sizeof *s.peers);
	s.pieces = alloc_must_zero(t->n_pieces + 1, sizeof *s.pieces);
	for (size_t i = 0; i < t->n_pieces; i++)
		s.pieces[i] = (struct pick_piece){t->pieces[i].blob,
			t->pieces[i].here || t->pieces[i].bytes > TAKE_PIECE_MOST,
			t->pieces[i].bytes};
	for (size_t i = 0; i < t->n_from; i++)
		know(&s, &t->from[i]);
	enum err err = s.n ? open_link(&s, why) : ERR_OK;
	if (!err && s.n)
		loop(&s);
	for (size_t i = 0; i < s.n; i++) {
		out->bytes += s.from[i].bytes;
		out->used += s.from[i].bytes > 0;
	}
	out->left = s.left;
	release(&s);
	return err ? err : s.failed;
}
