#include "net/plane.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/dial.h"
#include "net/guard.h"
#include "net/keytable.h"
#include "net/session.h"
#include "net/slowline.h"
#include "net/tunnel.h"
#include "net/zap.h"
#include "net/zsock.h"
#include <stdlib.h>
#include <string.h>

#define READ_MOST 64           // messages of one socket before the others have their turn
#define UNSEEN_MORE (8u << 20) // beyond the credit given: what may be in libzmq and the kernel
#define STRANGERS_SHARE 4u     // of all connections: what strangers at one address may hold
#define STRANGERS_LEAST 16u
#define FIXED_ITEMS 4         // the caller's descriptor, admission, server, its monitor
#define TURN_BYTES (1u << 20) // of bulk, where it is bounded, before another has its turn
#define TICK_MOST (CLOCK_SECOND / 10)
#define TICK_LEAST (5 * CLOCK_MS)

/* All that is known of one key. */
struct entry {
	struct session *session;
	struct dial *dial; // peer, once connected
	shoal_hello hello;
	bool dirty; // its transfers may have something to send
};

struct plane {
	const struct link_config *config;
	void *context;
	struct zap *zap; // these three: coordinator
	struct zsock server;
	struct guard *guard;
	struct slowline *line; // where what is sent is slowed down
	struct tunnel *tunnel; // where connections go by a proxy
	uint16_t port;
	struct session_world world;
	struct link_counters counters;
	struct keytable entries; // of struct entry
	size_t n_dials;
	zmq_pollitem_t *items;
	uint64_t now_ns, tick_ns, ticked_ns;
	bool dirty, queue_full; // some entry is; some message waits for room in a queue
	bool shut;              // some object waits for the egress
	size_t turn;            // entry that is served first
	uint64_t turn_bytes;    // of bulk that it has had
};

/* ---- entries */

static struct entry *entry_at(const struct plane *p, size_t i)
{
	return p->entries.values[i];
}

static struct entry *find(const struct plane *p, const uint8_t *key)
{
	return keytable_find(&p->entries, key);
}

static struct entry *find_or_add(struct plane *p, const uint8_t *key)
{
	struct entry *e = find(p, key);
	if (e)
		return e;
	e = alloc_must_zero(1, sizeof *e);
	e->session = session_new(&p->world, key);
	keytable_put(&p->entries, key, e);
	return e;
}

static void forget(struct plane *p, struct entry *e)
{
	keytable_remove(&p->entries, session_key(e->session));
	p->n_dials -= e->dial != NULL;
	dial_free(e->dial, p->config->linger_ns);
	session_free(e->session);
	free(e);
}

static void mark(struct plane *p, struct entry *e)
{
	e->dirty = p->dirty = true;
}

/* ---- what sessions ask for */

static void put_event(void *arg, struct link_event *e)
{
	struct plane *p = arg;
	mailbox_put(p->config->events, &e->mail);
}

static enum err send_now(
	struct plane *p, const uint8_t *key, uint32_t conn, const struct transfer_out *t)
{
	uint8_t frame[MSG_HEAD_MAX];
	struct zsock *z = &p->server;
	if (p->config->role == LINK_peer) {
		const struct entry *e = find(p, key);
		if (!e || !e->dial || dial_attempt(e->dial) != conn)
			return ERR_closed;
		z = dial_socket(e->dial);
	}
	if (!z->socket)
		return ERR_closed;
	struct zsock_out out = {.conn = conn,
		.frame = frame,
		.frame_len = msg_encode(&t->header, frame),
		.bytes = t->bytes,
		.offset = t->offset,
		.len = t->len};
	enum err err = zsock_send(z, &out);
	if (err)
		return err;
	const bool bulk = t->header.which_body == MSG_chunk;
	p->counters.messages_out++;
	p->counters.bytes_out += out.frame_len + out.len;
	p->turn_bytes += bulk ? out.len : 0;
	traffic_add(p->config->traffic, out.frame_len + out.len);
	egress_count(p->config->egress, bulk ? EGRESS_bulk : EGRESS_control,
		out.frame_len + out.len, p->now_ns);
	return ERR_OK;
}

static enum err send_out(void *arg, const uint8_t *key, uint32_t conn, const struct transfer_out *t)
{
	struct plane *p = arg;
	if (!p->line)
		return send_now(p, key, conn, t);
	struct slowline_item item = {.conn = conn, .out = *t};
	memcpy(item.key, key, LINK_KEY);
	return slowline_put(p->line, &item, p->now_ns) ? ERR_OK : ERR_busy;
}

/* What has gone through the slow line by this time. */
static void send_due(struct plane *p, uint64_t upto_ns)
{
	struct slowline_item item;
	while (p->line && slowline_take(p->line, upto_ns, &item)) {
		// What has no connection any more is lost, as on any line.
		(void)!send_now(p, item.key, item.conn, &item.out);
		shared_drop(item.out.bytes);
	}
}

static void cut_out(void *arg, const struct session_conn *conn)
{
	struct plane *p = arg;
	if (p->guard)
		guard_cut(p->guard, conn->fd);
}

/* ---- receiving */

static void count_refused(struct link_counters *c, enum err err, bool decoded)
{
	switch (err) {
	case ERR_OK: break;
	case ERR_magic: c->refused_magic++; break;
	case ERR_version: c->refused_version++; break;
	case ERR_unsupported: c->refused_kind++; break;
	case ERR_permission: c->refused_way++; break;
	default: ++*(decoded ? &c->refused_payload : &c->refused_header); break;
	}
}

static bool take(struct plane *p, struct entry *e, struct session_conn conn, struct zsock_in *z)
{
	shoal_header header;
	struct why why;
	struct session_in in = {.conn = conn, .header = &header, .why = &why};
	bool second = z->frames > 1;
	in.payload = zmq_msg_data(&z->payload);
	in.payload_len = second ? zmq_msg_size(&z->payload) : 0;
	enum err err = msg_decode(zmq_msg_data(&z->frame), zmq_msg_size(&z->frame), &header, &why);
	bool decoded = !err;
	if (decoded)
		err = msg_check(
			&header, (enum msg_way)p->config->role, second, in.payload_len, &why);
	count_refused(&p->counters, err, decoded);
	if (err)
		in.header = NULL;
	mark(p, e);
	return session_take(e->session, &in, p->now_ns);
}

/* Every message is checked against the table, not only the handshake of its connection. */
static void on_server(struct plane *p, struct zsock_in *z)
{
	uint8_t key[LINK_KEY];
	struct session_conn conn = {z->conn, z->fd};
	bool known = zap_user(z->user, key) && zap_admits(p->zap, key);
	p->counters.refused_user += !known;
	p->counters.refused_routing += known && !z->conn_ok;
	if (!known || !z->conn_ok) {
		guard_cut(p->guard, z->fd);
		return;
	}
	if (z->frames > 2)
		p->counters.refused_frames++;
	else if (take(p, find_or_add(p, key), conn, z))
		guard_seen(p->guard, z->fd, z->bytes, p->now_ns);
}

static void count_in(struct plane *p, const struct zsock_in *z)
{
	p->counters.messages_in++;
	p->counters.bytes_in += z->bytes;
	traffic_add(p->config->traffic, z->bytes);
}

static void read_server(struct plane *p)
{
	struct zsock_in z;
	int value;
	for (enum zsock_event e; (e = zsock_watch(&p->server, &value)) != ZSOCK_none;) {
		if (e == ZSOCK_accepted)
			guard_accepted(p->guard, value, p->now_ns);
		else if (e == ZSOCK_gone)
			guard_gone(p->guard, value);
	}
	zap_serve(p->zap, &p->counters.handshakes, &p->counters.refused_key);
	for (int i = 0; i < READ_MOST && zsock_receive(&p->server, &z); i++) {
		count_in(p, &z);
		on_server(p, &z);
		zsock_in_release(&z);
	}
}

static void retry_later(struct plane *p, struct entry *e, const struct why *why)
{
	struct link_event *ev = link_event_new(LINK_waiting, session_key(e->session));
	ev->why = *why;
	ev->wait_ns = dial_again(e->dial, p->now_ns);
	log_at(net, 2, "%s; trying again in %.1f s", why->text, clock_seconds(ev->wait_ns));
	put_event(p, ev);
}

/* After anything that may have ended a greeting or an open link. */
static void settle(struct plane *p, struct entry *e)
{
	struct why why;
	if (!e->dial)
		return;
	if (session_failed(e->session, &why))
		retry_later(p, e, &why);
	else if (session_is_open(e->session))
		dial_settled(e->dial);
}

static void read_dial(struct plane *p, struct entry *e)
{
	struct zsock_in z;
	struct zsock *s = dial_socket(e->dial);
	for (int i = 0; i < READ_MOST && s->socket && zsock_receive(s, &z); i++) {
		count_in(p, &z);
		if (z.frames > 2)
			p->counters.refused_frames++;
		else
			take(p, e, (struct session_conn){dial_attempt(e->dial), -1}, &z);
		zsock_in_release(&z);
		settle(p, e);
	}
}

static void turn_dial(struct plane *p, struct entry *e)
{
	struct why why, ignored;
	switch (dial_turn(e->dial, p->now_ns, &why)) {
	case DIAL_up:
		p->counters.handshakes++;
		session_up(e->session, dial_attempt(e->dial), &e->hello, p->now_ns);
		settle(p, e);
		break;
	case DIAL_failed:
		session_fail(e->session, why.code, why.text);
		(void)session_failed(e->session, &ignored);
		retry_later(p, e, &why);
		break;
	case DIAL_nothing: break;
	}
}

/* ---- the loop's steps */

/* When a step is due by itself. */
static uint64_t next_step(const struct plane *p, uint64_t now_ns)
{
	const uint64_t tick = p->ticked_ns + p->tick_ns,
		       line = p->line ? slowline_due(p->line) : UINT64_MAX,
		       open = p->shut ? now_ns + egress_wait_ns(p->config->egress, now_ns)
				      : UINT64_MAX,
		       due = open < tick ? open : tick;
	if (line < due)
		return line;
	// a ROUTER does not say which of its queues has room again
	return p->queue_full && due > now_ns + CLOCK_MS ? now_ns + 1 : due;
}

void plane_wait(struct plane *p, int fd)
{
	int n = 0;
	const uint64_t now = clock_now_ns(), due = next_step(p, now);
	const long ms = now < due ? (long)((due - now) / CLOCK_MS) + 1 : 0;
	p->items[n++] = (zmq_pollitem_t){.fd = fd, .events = ZMQ_POLLIN};
	if (p->zap) {
		void *const sockets[] = {zap_socket(p->zap), p->server.socket, p->server.monitor};
		for (int i = 0; i < FIXED_ITEMS - 1; i++)
			p->items[n++] =
				(zmq_pollitem_t){.socket = sockets[i], .events = ZMQ_POLLIN};
	}
	for (size_t i = 0; p->n_dials && i < p->entries.n; i++) {
		struct dial *d = entry_at(p, i)->dial;
		if (!d || !dial_socket(d)->socket)
			continue;
		void *const sockets[] = {dial_socket(d)->socket, dial_socket(d)->monitor};
		for (int k = 0; k < 2; k++)
			p->items[n++] =
				(zmq_pollitem_t){.socket = sockets[k], .events = ZMQ_POLLIN};
	}
	// An interrupted wait is one that ended early.
	(void)!zmq_poll(p->items, n, ms);
	p->now_ns = clock_now_ns();
}

static void tick(struct plane *p)
{
	p->ticked_ns = p->now_ns;
	for (size_t i = 0; i < p->entries.n; i++) {
		session_tick(entry_at(p, i)->session, p->now_ns);
		mark(p, entry_at(p, i));
		settle(p, entry_at(p, i));
	}
	if (!p->guard)
		return;
	guard_tick(p->guard, p->now_ns);
	p->counters.connections = guard_count(p->guard);
	p->counters.cut = guard_cuts(p->guard);
}

static void pump_one(struct plane *p, struct entry *e)
{
	if (!e->dirty)
		return;
	const enum session_rest rest = session_pump(e->session, p->now_ns);
	e->dirty = rest != SESSION_rest_none;
	p->queue_full |= rest == SESSION_rest_queue;
	p->shut |= rest == SESSION_rest_egress;
	settle(p, e);
}

/* Where bulk is bounded, one is served until it has had its share or wants no more, so that objects
 * arrive one after the other and not all of them late. */
static void pump(struct plane *p)
{
	const size_t n = p->entries.n, first = p->turn < n ? p->turn : 0;
	p->queue_full = p->shut = false;
	for (size_t i = 0; i < n; i++)
		pump_one(p, entry_at(p, (first + i) % n));
	p->dirty = p->queue_full || p->shut;
	if (p->turn_bytes < TURN_BYTES && first < n && entry_at(p, first)->dirty)
		return;
	p->turn = first + 1;
	p->turn_bytes = 0;
}

void plane_turn(struct plane *p)
{
	if (p->zap)
		read_server(p);
	for (size_t i = 0; p->n_dials && i < p->entries.n; i++) {
		if (!entry_at(p, i)->dial)
			continue;
		read_dial(p, entry_at(p, i));
		turn_dial(p, entry_at(p, i));
	}
	if (p->now_ns - p->ticked_ns >= p->tick_ns)
		tick(p);
	send_due(p, p->now_ns);
	if (p->dirty)
		pump(p);
}

void plane_counters(const struct plane *p, struct link_counters *out)
{
	*out = p->counters;
}

/* ---- life */

static enum err start_server(struct plane *p, struct why *why)
{
	const struct link_config *c = p->config;
	struct zsock_options o = {c->public_key, c->secret_key, c->connect_ns};
	const uint32_t each = c->connections_most / STRANGERS_SHARE;
	struct guard_limits g = {.connections_most = c->connections_most,
		.strangers_each = each > STRANGERS_LEAST ? each : STRANGERS_LEAST,
		.silent_ns = 2 * (c->timeout_ns + c->connect_ns),
		.unseen_most = c->transfer.window + UNSEEN_MORE};
	enum err err = zap_new(p->context, &p->zap, why);
	if (err)
		return err;
	p->guard = guard_new(&g);
	return zsock_bind(&p->server, p->context, &o, c->bind, &p->port, why);
}

enum err plane_new(const struct link_config *config, struct plane **out, struct why *why)
{
	struct plane *p = alloc_must_zero(1, sizeof *p);
	*out = NULL;
	p->config = config;
	p->world = (struct session_world){.config = config,
		.io = {p, send_out, put_event, cut_out},
		.counters = &p->counters,
		.budget = {.most = config->receive_most}};
	p->tick_ns = config->heartbeat_ns / 4;
	p->tick_ns = p->tick_ns > TICK_MOST ? TICK_MOST : p->tick_ns;
	p->tick_ns = p->tick_ns < TICK_LEAST ? TICK_LEAST : p->tick_ns;
	p->now_ns = clock_now_ns();
	if (config->send_bytes_per_s > 0 || config->send_delay_ns)
		p->line = slowline_new(config->send_bytes_per_s, config->send_delay_ns);
	p->items = alloc_must_zero(FIXED_ITEMS, sizeof *p->items);
	p->context = zmq_ctx_new();
	enum err err = ERR_OK;
	if (!p->context)
		err = err_why(
			why, ERR_network, "ZeroMQ does not start: %s", zmq_strerror(zmq_errno()));
	else if (config->bind)
		err = start_server(p, why);
	else if (config->proxy) /* which is to give up before the attempt does, with its cause */
		err = tunnel_new(config->proxy, config->connect_ns - config->connect_ns / 8,
			&p->tunnel, why);
	if (err) {
		plane_free(p);
		return err;
	}
	*out = p;
	return ERR_OK;
}

void plane_free(struct plane *p)
{
	if (!p)
		return;
	send_due(p, UINT64_MAX); // a last word is not held back
	slowline_free(p->line);
	while (p->entries.n)
		forget(p, entry_at(p, p->entries.n - 1));
	zsock_close(&p->server, p->config->linger_ns);
	zap_free(p->zap);
	guard_free(p->guard);
	if (p->context)
		zmq_ctx_term(p->context);
	tunnel_free(p->tunnel, p->config->linger_ns);
	keytable_release(&p->entries);
	free(p->items);
	free(p);
}

uint16_t plane_port(const struct plane *p)
{
	return p->port;
}

/* ---- commands */

void plane_admit(struct plane *p, const uint8_t *keys, size_t n)
{
	if (!p->zap)
		return;
	zap_replace(p->zap, keys, n);
	for (size_t i = p->entries.n; i-- > 0;) {
		struct entry *e = entry_at(p, i);
		if (zap_admits(p->zap, session_key(e->session)))
			continue;
		session_fail(e->session, ERR_unknown_peer, "removed from the roster");
		forget(p, e);
	}
}

void plane_connect(struct plane *p, const uint8_t key[static LINK_KEY], const char *address,
	const shoal_hello *hello)
{
	struct why ignored;
	if (p->config->role != LINK_peer)
		return;
	struct entry *e = find_or_add(p, key);
	session_fail(e->session, ERR_closed, "connecting anew");
	(void)session_failed(e->session, &ignored);
	p->n_dials += !e->dial;
	dial_free(e->dial, 0);
	e->dial = dial_new(p->config, p->context, p->tunnel, address, key);
	e->hello = *hello;
	p->items = alloc_must_resize(p->items, FIXED_ITEMS + 2 * p->n_dials, sizeof *p->items);
}

void plane_hello(struct plane *p, const uint8_t key[static LINK_KEY], const shoal_hello *hello)
{
	struct entry *e = find(p, key);
	if (e)
		e->hello = *hello;
}

void plane_status(struct plane *p, const shoal_heartbeat *status)
{
	for (size_t i = 0; i < p->entries.n; i++)
		session_status(entry_at(p, i)->session, status, p->now_ns);
}

void plane_forget(struct plane *p, const uint8_t key[static LINK_KEY])
{
	struct entry *e = find(p, key);
	if (!e)
		return;
	session_cut(e->session);
	forget(p, e);
}

void plane_send(struct plane *p, const uint8_t key[static LINK_KEY], const shoal_header *header,
	struct shared *payload)
{
	struct entry *e = find(p, key);
	if (!e) {
		p->counters.unsent++;
		return;
	}
	session_send(e->session, header, payload);
	mark(p, e);
	settle(p, e);
}

void plane_push(
	struct plane *p, const uint8_t key[static LINK_KEY], const struct link_object *object)
{
	struct entry *e = find(p, key);
	if (!e && p->zap && zap_admits(p->zap, key))
		e = find_or_add(p, key);
	if (e) {
		session_push(e->session, object);
		mark(p, e);
		return;
	}
	struct transfer_event t = {.what = TRANSFER_declined,
		.kind = object->kind,
		.name = *shared_name(object->bytes),
		.meta_len = object->meta_len};
	if (object->meta_len)
		memcpy(t.meta, object->meta, object->meta_len);
	t.ref = transfer_ref(t.kind, &t.name, t.meta, t.meta_len);
	err_why(&t.why, ERR_unknown_peer, "there is no link to this key");
	put_event(p, link_event_of_transfer(&t, key));
}

void plane_cancel(struct plane *p, const uint8_t key[static LINK_KEY], uint64_t ref)
{
	struct entry *e = find(p, key);
	if (!e)
		return;
	session_cancel(e->session, ref);
	mark(p, e);
}

void plane_answer(
	struct plane *p, const uint8_t key[static LINK_KEY], uint64_t ref, const struct why *why)
{
	struct entry *e = find(p, key);
	if (!e)
		return;
	session_answer(e->session, ref, why->code, why->text);
	mark(p, e);
}
