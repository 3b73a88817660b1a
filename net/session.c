#include "net/session.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/bucket.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUMP_MOST 256 // messages sent for one session before the others have their turn
#define CREDITS_MOST 4096
#define FLOOD 10 // so many bursts too many, and the connection is cut

enum session_state { SESSION_down, SESSION_greeting, SESSION_open };

struct session {
	struct session_world *world;
	uint8_t key[LINK_KEY];
	enum session_state state;
	struct session_conn conn;
	uint64_t instance; // of the process in charge, as its hello said
	uint64_t greeted_ns, heard_ns;
	uint64_t beat_ns, beat_sent_ns, status_ns; // last heartbeat due, sent, and news of it
	shoal_heartbeat status;
	uint32_t old_conn; // replaced by conn: what still arrives from it is passed over
	struct bucket bucket;
	uint64_t told_rate_ns;
	uint32_t credits_due; // that the other side may send for what we sent
	bool failed;
	struct why failure;
	struct transfer_tx *tx;
	struct transfer_rx *rx;
	struct transfer_out held; // did not fit into the queue; held.bytes is a reference
	bool holding;
};

struct session *session_new(struct session_world *world, const uint8_t key[static LINK_KEY])
{
	struct session *s = alloc_must_zero(1, sizeof *s);
	const struct link_config *c = world->config;
	s->world = world;
	memcpy(s->key, key, LINK_KEY);
	bucket_init(&s->bucket, c->messages_per_s, c->messages_burst);
	s->tx = transfer_tx_new(&c->transfer);
	s->rx = transfer_rx_new(&c->transfer, c->kinds, c->n_kinds, &world->budget);
	return s;
}

static void release_held(struct session *s)
{
	if (s->holding)
		shared_drop(s->held.bytes);
	s->holding = false;
}

void session_free(struct session *s)
{
	if (!s)
		return;
	s->world->counters->links -= s->state == SESSION_open;
	release_held(s);
	transfer_tx_free(s->tx);
	transfer_rx_free(s->rx);
	free(s);
}

void session_cut(struct session *s)
{
	if (s->state != SESSION_down)
		s->world->io.cut(s->world->io.arg, &s->conn);
}

const uint8_t *session_key(const struct session *s)
{
	return s->key;
}

bool session_is_open(const struct session *s)
{
	return s->state == SESSION_open;
}

bool session_is_down(const struct session *s)
{
	return s->state == SESSION_down;
}

static bool is_coordinator(const struct session *s)
{
	return s->world->config->role == LINK_coordinator;
}

/* The only place where the state changes. */
static void set_state(struct session *s, enum session_state to)
{
	static const char *const names[] = {"down", "greeting", "open"};
	s->world->counters->links += (to == SESSION_open) - (s->state == SESSION_open);
	log_at(net, 2, "link %02x%02x%02x%02x: %s -> %s", s->key[0], s->key[1], s->key[2],
		s->key[3], names[s->state], names[to]);
	s->state = to;
}

static void emit(struct session *s, struct link_event *e)
{
	s->world->io.event(s->world->io.arg, e);
}

static void emit_header(struct session *s, enum link_event_kind kind, const struct session_in *in)
{
	struct link_event *e = link_event_new(kind, s->key);
	e->header = *in->header;
	e->rtt_ns = (uint64_t)s->status.rtt_us * 1000;
	if (in->payload_len) {
		e->payload = alloc_try(in->payload_len, 1);
		if (!e->payload) {
			log_warn(net, "a message of %zu bytes is dropped: no memory",
				in->payload_len);
			link_event_free(e);
			return;
		}
		memcpy(e->payload, in->payload, in->payload_len);
		e->payload_len = in->payload_len;
	}
	emit(s, e);
}

static void emit_clone(struct session *s, uint64_t other)
{
	struct link_event *e = link_event_new(LINK_clone, s->key);
	e->instance = s->instance;
	e->other_instance = other;
	emit(s, e);
}

static void emit_transfer(struct session *s, const struct transfer_event *t)
{
	s->world->counters->objects_in += t->what == TRANSFER_received;
	s->world->counters->objects_out += t->what == TRANSFER_delivered;
	struct link_event *e = link_event_of_transfer(t, s->key);
	e->rtt_ns = (uint64_t)s->status.rtt_us * 1000;
	emit(s, e);
}

static enum err send_on(
	struct session *s, uint32_t conn, const shoal_header *h, struct shared *bytes)
{
	struct transfer_out out = {.header = *h, .bytes = bytes};
	out.len = bytes ? shared_len(bytes) : 0;
	return s->world->io.send(s->world->io.arg, s->key, conn, &out);
}

void session_fail(struct session *s, enum err code, const char *text)
{
	enum session_state was = s->state;
	if (was == SESSION_down)
		return;
	release_held(s);
	set_state(s, SESSION_down);
	if (is_coordinator(s))
		s->world->io.cut(s->world->io.arg, &s->conn);
	if (was == SESSION_open || is_coordinator(s)) {
		struct link_event *e = link_event_new(LINK_lost, s->key);
		err_why(&e->why, code, "%s", text);
		emit(s, e);
	}
	s->failed = true;
	err_why(&s->failure, code, "%s", text);
}

bool session_failed(struct session *s, struct why *why)
{
	bool failed = s->failed;
	if (failed)
		*why = s->failure;
	s->failed = false;
	return failed;
}

/* Tell the other side on any of its connections what was wrong; if that cannot be said, so be it.
 */
static void refuse(struct session *s, uint32_t conn, uint32_t kind, enum err code, const char *text)
{
	shoal_header h = msg_refusal(kind, code, text);
	(void)!send_on(s, conn, &h, NULL);
}

/* false: over the rate. */
static bool allow(struct session *s, const struct session_conn *conn, uint64_t now_ns)
{
	if (bucket_take(&s->bucket, now_ns))
		return true;
	s->world->counters->refused_rate++;
	if (!s->told_rate_ns || now_ns - s->told_rate_ns > CLOCK_SECOND) {
		char text[120];
		snprintf(text, sizeof text, "more than %u messages per second; the rest is dropped",
			s->bucket.per_s);
		s->told_rate_ns = now_ns;
		refuse(s, conn->id, 0, ERR_busy, text);
	}
	if (bucket_flooded(&s->bucket, FLOOD) && is_coordinator(s))
		s->world->io.cut(s->world->io.arg, conn);
	return false;
}

/* ---- coordinator: hello */

static void refuse_clone(struct session *s, const struct session_in *in, uint64_t now_ns)
{
	const shoal_hello *h = &in->header->body.hello;
	char text[300];
	snprintf(text, sizeof text,
		"another process with the same key is connected (it is instance %llu, this is "
		"%llu): "
		"the folder was copied or is used twice; stop one, or give it a folder of its own",
		(unsigned long long)s->instance, (unsigned long long)h->instance);
	s->world->counters->refused_clone++;
	refuse(s, in->conn.id, MSG_hello, ERR_exists, text);
	// Right after a restart a last word of the process before may still arrive: that is no
	// clone.
	if (now_ns - s->greeted_ns > s->world->config->timeout_ns)
		emit_clone(s, h->instance);
}

static bool on_hello(struct session *s, const struct session_in *in, uint64_t now_ns)
{
	const shoal_hello *h = &in->header->body.hello;
	bool again = s->state != SESSION_down;
	if (again && in->conn.id == s->conn.id)
		return true; // said twice
	if (again && h->instance < s->instance) {
		refuse_clone(s, in, now_ns);
		return false;
	}
	if (again) {
		bool same = h->instance == s->instance;
		if (s->conn.fd == in->conn.fd)
			s->conn.fd = -1; // the old connection is closed, and its descriptor the new
					 // one's
		session_fail(s, same ? ERR_closed : ERR_exists,
			same ? "it connected anew" : "a newer process with the same key took over");
		s->old_conn = s->conn.id;
	}
	s->conn = in->conn;
	s->instance = h->instance;
	s->greeted_ns = s->heard_ns = now_ns;
	set_state(s, SESSION_greeting);
	transfer_tx_restart(s->tx, h->eager);
	emit_header(s, LINK_connected, in);
	return true;
}

/* ---- peer: welcome, refusal, echo */

static bool on_greeting(struct session *s, const struct session_in *in, uint64_t now_ns)
{
	const shoal_header *h = in->header;
	if (h->which_body == MSG_refusal) {
		const shoal_refusal *r = &h->body.refusal;
		bool known = r->code && strcmp(err_name((enum err)r->code), "unknown") != 0;
		session_fail(s, known ? (enum err)r->code : ERR_refused, r->text);
		return true;
	}
	if (h->which_body != MSG_welcome) {
		s->world->counters->refused_hello++;
		return false;
	}
	set_state(s, SESSION_open);
	s->heard_ns = now_ns;
	s->beat_ns = 0;
	transfer_tx_restart(s->tx, h->body.welcome.eager);
	emit_header(s, LINK_connected, in);
	return true;
}

static void on_echo(struct session *s, const shoal_echo *e, uint64_t now_ns)
{
	if (e->sequence != s->status.sequence || !s->beat_sent_ns)
		return;
	uint64_t us = (now_ns - s->beat_sent_ns) / 1000;
	s->status.rtt_us = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
	s->beat_sent_ns = 0;
}

void session_up(struct session *s, uint32_t conn, const shoal_hello *hello, uint64_t now_ns)
{
	shoal_header h = shoal_header_init_zero;
	h.which_body = MSG_hello;
	h.body.hello = *hello;
	h.body.hello.eager = s->world->config->transfer.eager;
	s->conn = (struct session_conn){conn, -1};
	s->greeted_ns = s->heard_ns = now_ns;
	s->failed = false;
	set_state(s, SESSION_greeting);
	if (send_on(s, conn, &h, NULL))
		session_fail(s, ERR_network, "the connection ended before hello");
}

/* ---- both */

static bool is_transfer(uint32_t kind)
{
	return kind == MSG_begin || kind == MSG_credit || kind == MSG_chunk || kind == MSG_done ||
	       kind == MSG_decline || kind == MSG_cancel;
}

/* To us as the sender.  true: it was of use. */
static bool on_answer(struct session *s, const struct session_in *in, uint64_t now_ns)
{
	struct transfer_event e;
	if (transfer_tx_take(s->tx, in->header, now_ns, &e)) {
		emit_transfer(s, &e);
		return true;
	}
	if (in->header->which_body != MSG_credit || !s->credits_due)
		return false;
	s->credits_due--;
	return true;
}

/* To us as the receiver.  true: it was of use. */
static bool on_object(struct session *s, const struct session_in *in, uint64_t now_ns)
{
	struct transfer_event e;
	struct transfer_in t = {in->header, in->payload, in->payload_len};
	bool got, chunk = in->header->which_body == MSG_chunk;
	size_t before = transfer_rx_count(s->rx);
	enum err err = transfer_rx_take(s->rx, &t, now_ns, &e, &got);
	if (got)
		emit_transfer(s, &e);
	if (err && chunk && err != ERR_hash)
		s->world->counters->refused_chunk++;
	else if (err)
		s->world->counters->refused_object++;
	return !err && (chunk || transfer_rx_count(s->rx) != before);
}

/* What moves a transfer is bounded by credit and by the objects at once; only what is of no use
 * counts as messages do. */
static void on_transfer(struct session *s, const struct session_in *in, uint64_t now_ns)
{
	uint32_t kind = in->header->which_body;
	bool to_sender = kind == MSG_credit || kind == MSG_done || kind == MSG_decline;
	if (!(to_sender ? on_answer(s, in, now_ns) : on_object(s, in, now_ns)))
		(void)allow(s, &in->conn, now_ns);
}

static bool on_open(struct session *s, const struct session_in *in, uint64_t now_ns)
{
	shoal_header reply = shoal_header_init_zero;
	if (is_transfer(in->header->which_body)) {
		on_transfer(s, in, now_ns);
		return true;
	}
	switch (in->header->which_body) {
	case MSG_hello:
	case MSG_welcome: return true; // said twice
	case MSG_echo: on_echo(s, &in->header->body.echo, now_ns); return true;
	case MSG_bye:
		emit_header(s, LINK_message, in);
		session_fail(s, ERR_closed, in->header->body.bye.reason);
		return true;
	case MSG_heartbeat:
		reply.which_body = MSG_echo;
		reply.body.echo.sequence = in->header->body.heartbeat.sequence;
		(void)!send_on(s, s->conn.id, &reply, NULL);
		break;
	default: break;
	}
	emit_header(s, LINK_message, in);
	return true;
}

/* From a connection that is not the one in charge. */
static bool on_stranger(struct session *s, const struct session_in *in)
{
	if (in->conn.id == s->old_conn)
		return false;
	s->world->counters->refused_hello++;
	refuse(s, in->conn.id, in->header->which_body, ERR_state, "say hello first");
	s->world->io.cut(s->world->io.arg, &in->conn);
	return false;
}

/* Only the coordinator answers, so that two versions never refuse each other's refusals. */
static void on_unreadable(struct session *s, const struct session_in *in)
{
	const struct why *why = in->why;
	if (is_coordinator(s) && why->code != ERR_unsupported)
		refuse(s, in->conn.id, 0, why->code, why->text);
	if (!is_coordinator(s) && why->code == ERR_version)
		session_fail(s, ERR_version, why->text);
}

bool session_take(struct session *s, const struct session_in *in, uint64_t now_ns)
{
	bool later = s->state == SESSION_open && in->conn.id == s->conn.id && in->header &&
		     is_transfer(in->header->which_body);
	if (!later && !allow(s, &in->conn, now_ns))
		return false;
	if (!in->header) {
		on_unreadable(s, in);
		return false;
	}
	if (is_coordinator(s) && in->header->which_body == MSG_hello)
		return on_hello(s, in, now_ns);
	if (s->state == SESSION_down || in->conn.id != s->conn.id)
		return is_coordinator(s) && on_stranger(s, in);
	s->heard_ns = now_ns;
	if (s->state == SESSION_greeting && !is_coordinator(s))
		return on_greeting(s, in, now_ns);
	if (s->state == SESSION_greeting && in->header->which_body == MSG_bye) {
		session_fail(s, ERR_closed, in->header->body.bye.reason);
		return true;
	}
	if (s->state == SESSION_greeting) {
		s->world->counters->refused_hello++;
		return false; // we have not welcomed it yet
	}
	return on_open(s, in, now_ns);
}

void session_send(struct session *s, const shoal_header *header, struct shared *payload)
{
	const struct msg_row *row = msg_row(header->which_body);
	assert(row && (payload != NULL) == (row->payload_max > 0));
	if (payload && shared_len(payload) > row->payload_max) {
		log_warn(net, "%s of %zu bytes was not sent: the most is %zu", row->name,
			shared_len(payload), row->payload_max);
		s->world->counters->unsent++;
		return;
	}
	bool welcome = header->which_body == MSG_welcome;
	bool refusal = header->which_body == MSG_refusal;
	bool bye = header->which_body == MSG_bye;
	if (s->state == SESSION_down ||
		(s->state == SESSION_greeting && !welcome && !refusal && !bye)) {
		s->world->counters->unsent++;
		return;
	}
	shoal_header told = *header;
	if (welcome)
		told.body.welcome.eager = s->world->config->transfer.eager;
	enum err err = send_on(s, s->conn.id, &told, payload);
	if (err)
		s->world->counters->unsent++;
	if (err) {
		session_fail(s, ERR_network,
			err == ERR_busy ? "it does not take its messages" : "the connection ended");
		return;
	}
	if (welcome && is_coordinator(s))
		set_state(s, SESSION_open);
	if (bye || (refusal && s->state == SESSION_greeting))
		set_state(s, SESSION_down);
}

void session_status(struct session *s, const shoal_heartbeat *status, uint64_t now_ns)
{
	uint32_t sequence = s->status.sequence, rtt_us = s->status.rtt_us;
	s->status = *status;
	s->status.sequence = sequence;
	s->status.rtt_us = rtt_us;
	s->status_ns = now_ns;
}

void session_push(struct session *s, const struct link_object *o)
{
	transfer_tx_push(s->tx, o->kind, o->bytes, o->meta, o->meta_len);
}

void session_cancel(struct session *s, uint64_t ref)
{
	transfer_tx_cancel(s->tx, ref);
}

void session_answer(struct session *s, uint64_t ref, enum err code, const char *text)
{
	transfer_rx_answer(s->rx, ref, code, text);
	s->world->counters->refused_object += code != ERR_OK;
}

static void beat(struct session *s, uint64_t now_ns)
{
	if (s->beat_ns && now_ns - s->beat_ns < s->world->config->heartbeat_ns)
		return;
	shoal_header h = shoal_header_init_zero;
	uint64_t age_ms = s->status_ns ? (now_ns - s->status_ns) / CLOCK_MS : 0;
	s->beat_ns = s->beat_sent_ns = now_ns;
	s->status.sequence++;
	h.which_body = MSG_heartbeat;
	h.body.heartbeat = s->status;
	h.body.heartbeat.age_ms = age_ms < UINT32_MAX ? (uint32_t)age_ms : UINT32_MAX;
	session_send(s, &h, NULL);
}

void session_tick(struct session *s, uint64_t now_ns)
{
	const struct link_config *c = s->world->config;
	char text[120];
	if (s->state == SESSION_down)
		return;
	if (s->state == SESSION_greeting && !is_coordinator(s)) {
		if (now_ns - s->greeted_ns > c->connect_ns)
			session_fail(s, ERR_timeout, "connected, but hello was not answered");
		return;
	}
	if (now_ns - s->heard_ns > c->timeout_ns) {
		snprintf(text, sizeof text, "nothing heard for %.1f s",
			clock_seconds(c->timeout_ns));
		session_fail(s, ERR_timeout, text);
		return;
	}
	if (s->state == SESSION_open && !is_coordinator(s))
		beat(s, now_ns);
}

static bool is_shut(const struct session *s, uint64_t now_ns)
{
	return egress_wait_ns(s->world->config->egress, now_ns) > 0;
}

/* The next message of the transfers: the one held back before, answers, then our own objects, which
 * alone may have to wait for the egress. */
static bool next_out(struct session *s, uint64_t now_ns)
{
	if (s->holding)
		return true;
	if (!transfer_rx_next(s->rx, now_ns, &s->held) &&
		(is_shut(s, now_ns) || !transfer_tx_next(s->tx, now_ns, &s->held)))
		return false;
	uint32_t kind = s->held.header.which_body;
	// One credit for what came, and one when memory or window become free.
	if ((kind == MSG_chunk || kind == MSG_begin) && s->credits_due < CREDITS_MOST)
		s->credits_due += 2;
	if (s->held.bytes)
		shared_hold(s->held.bytes);
	return s->holding = true;
}

enum session_rest session_pump(struct session *s, uint64_t now_ns)
{
	for (int i = 0; i < PUMP_MOST && s->state == SESSION_open; i++) {
		if (!next_out(s, now_ns))
			return transfer_tx_count(s->tx) && is_shut(s, now_ns) ? SESSION_rest_egress
									      : SESSION_rest_none;
		enum err err = s->world->io.send(s->world->io.arg, s->key, s->conn.id, &s->held);
		if (err == ERR_busy)
			return SESSION_rest_queue;
		release_held(s);
		if (err)
			session_fail(s, ERR_network, "the connection ended");
	}
	return s->state == SESSION_open ? SESSION_rest_queue : SESSION_rest_none;
}
