/*
 * A coordinator in the test's thread for one real control loop of a peer (member_run in a thread):
 * HTTPS and the data plane are real, what it says and when is the test's.  Member 1 is the peer;
 * the run and its ledger are help_peer.h's.
 */
#ifndef TESTS_HELP_STAGE_H
#define TESTS_HELP_STAGE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "net/https_reply.h"
#include "net/https_server.h"
#include "net/identity.h"
#include "net/link.h"
#include "net/signed.h"
#include "net/statement.h"
#include "peer/member.h"
#include "round/object.h"
#include "tests/help_peer.h"

#define STAGE_WAIT (60 * CLOCK_SECOND)
#define STAGE_PAGE 50 /* ledger entries in one list */

struct stage {
	struct help_peer p;
	struct sign_key *run_key;
	struct identity_curve curve;
	struct identity_peer peer;
	struct joinlink joinlink;
	struct tls_pair *tls;
	struct event_base *base;
	struct event *mail, *tick;
	struct https_server *server;
	struct mailbox *box;
	struct link *link;
	uint16_t link_port;
	char *roster, *head; /* documents as they stand */
	struct {
		const char *path;
		struct ledger_head at;
		struct hash blob;
		uint64_t bytes;
	} snapshot;
	struct help_peer_records ledger; /* from genesis on */
	uint64_t pruned;                 /* records up to here are not given any more */
	bool hide_head;                  /* a hello that is behind is not told so */
	/* the open round */
	struct plan plan;
	bool open;
	struct hash have[2]; /* of the contributions accepted */
	bool silent;         /* contributions are not answered */
	bool gives;          /* records that are wanted are pushed; else refused */
	enum err verdict;    /* on contributions, instead of the gate's */
	enum err refusal;    /* of hellos */
	/* what was asked for and heard */
	unsigned joins, states, lists, blobs, wants;
	unsigned hellos, losts, reports, contributions, refused, validations, byes, delivered;
	uint64_t hello_sequence, reported, validated;
	unsigned early;    /* reports of another place than the ledger's */
	struct hash state; /* reported */
	char bye[200], reason[200];
	shoal_state doing; /* by the last heartbeat */
	struct why why;    /* of the last contribution that the gate refused */
	/* the peer */
	struct member_config config;
	pthread_t thread;
	atomic_bool done;
	enum err result;
	struct why end;
};

/* ---- HTTPS */

static inline void stage_text(struct https_request *r, const char *text)
{
	const struct https_reply_content c = {.type = "application/json"};
	https_reply_bytes(r, &c, text, strlen(text));
}

/* Takes the body. */
static inline char *stage_sign(const struct stage *s, const char *type, json_t *body)
{
	assert_non_null(body);
	char *text = signed_make(type, body, s->run_key);
	json_decref(body);
	return text;
}

static inline void stage_reply(
	struct stage *s, struct https_request *r, const char *type, json_t *body)
{
	char *text = stage_sign(s, type, body);
	stage_text(r, text);
	free(text);
}

static inline void stage_statement(void *arg, struct https_request *r)
{
	const struct stage *s = arg;
	struct statement what = {.run = s->p.spec->id,
		.spki = tls_spki(s->tls),
		.from_s = clock_wall_s() - 10,
		.to_s = clock_wall_s() + 10};
	memcpy(what.curve, s->curve.public_key, sizeof what.curve);
	char *text = statement_make(&what, s->run_key);
	stage_text(r, text);
	free(text);
}

static inline void stage_spec(void *arg, struct https_request *r)
{
	struct stage *s = arg;
	char hex[HASH_HEX];
	hash_hex(&s->p.spec->id, hex);
	stage_reply(s, r, "spec",
		json_pack("{s:s, s:o}", "id", hex, "spec", json_loads(s->p.spec->text, 0, NULL)));
}

static inline void stage_join(void *arg, struct https_request *r)
{
	struct stage *s = arg;
	s->joins++;
	https_reply_json(
		r, json_pack("{s:i, s:i}", "number", 1, "link_port", (int)link_port(s->link)));
}

static inline void stage_get_roster(void *arg, struct https_request *r)
{
	stage_text(r, ((struct stage *)arg)->roster);
}

static inline void stage_get_head(void *arg, struct https_request *r)
{
	stage_text(r, ((struct stage *)arg)->head);
}

static inline void stage_state(void *arg, struct https_request *r)
{
	struct stage *s = arg;
	char head[HASH_HEX], blob[HASH_HEX];
	s->states++;
	hash_hex(&s->snapshot.at.hash, head);
	hash_hex(&s->snapshot.blob, blob);
	stage_reply(s, r, "state",
		json_pack("{s:{s:I, s:I, s:s, s:s, s:I}}", "snapshot", "round",
			(json_int_t)s->snapshot.at.round, "sequence",
			(json_int_t)s->snapshot.at.sequence, "head", head, "blob", blob, "bytes",
			(json_int_t)s->snapshot.bytes));
}

static inline void stage_list(void *arg, struct https_request *r)
{
	struct stage *s = arg;
	uint64_t from = 0;
	struct why why;
	s->lists++;
	assert_true(https_request_number(r, "from", UINT32_MAX, &from));
	if (from < s->pruned) {
		err_why(&why, ERR_missing, "not kept any more: begin from the snapshot");
		https_reply_error(r, 410, &why);
		return;
	}
	json_t *rows = json_array();
	for (size_t i = from; i < s->ledger.n && i < from + STAGE_PAGE; i++) {
		char hex[HASH_HEX];
		struct hash name = hash_of(s->ledger.at[i].bytes, s->ledger.at[i].len);
		hash_hex(&name, hex);
		json_array_append_new(
			rows, json_pack("{s:I, s:s, s:I}", "sequence", (json_int_t)i + 1, "blob",
				      hex, "bytes", (json_int_t)s->ledger.at[i].len));
	}
	https_reply_json(r,
		json_pack("{s:o, s:b}", "records", rows, "more", from + STAGE_PAGE < s->ledger.n));
}

static inline void stage_blob(void *arg, struct https_request *r)
{
	struct stage *s = arg;
	const struct https_reply_content c = {.type = "application/octet-stream"};
	struct hash want;
	s->blobs++;
	assert_int_equal(hash_parse(https_request_rest(r), &want), ERR_OK);
	if (hash_equal(&want, &s->snapshot.blob)) {
		https_reply_file(r, &c, s->snapshot.path);
		return;
	}
	for (size_t i = 0; i < s->ledger.n; i++) {
		struct hash name = hash_of(s->ledger.at[i].bytes, s->ledger.at[i].len);
		if (!hash_equal(&want, &name))
			continue;
		https_reply_bytes(r, &c, s->ledger.at[i].bytes, s->ledger.at[i].len);
		return;
	}
	char path[400];
	snprintf(path, sizeof path, "%s/blobs/%s", help_peer_path("data"), https_request_rest(r));
	https_reply_file(r, &c, path);
}

/* ---- the data plane */

static inline const uint8_t *stage_key(const struct stage *s)
{
	return s->peer.curve.public_key;
}

static inline void stage_send(struct stage *s, shoal_header header, const char *text)
{
	struct shared *bytes = text ? shared_copy(text, strlen(text)) : NULL;
	link_send(s->link, stage_key(s), &header, bytes);
	shared_drop(bytes);
}

static inline void stage_send_roster(struct stage *s)
{
	stage_send(s, (shoal_header){.which_body = MSG_roster}, s->roster);
}

static inline void stage_send_head(struct stage *s)
{
	stage_send(s, (shoal_header){.which_body = MSG_head}, s->head);
}

static inline void stage_send_plan(struct stage *s)
{
	char *text = stage_sign(s, "plan", plan_json(&s->plan));
	stage_send(s, (shoal_header){.which_body = MSG_plan}, text);
	free(text);
}

/* Records from the i-th (from 0) to the newest. */
static inline void stage_push(struct stage *s, size_t i)
{
	for (; i < s->ledger.n; i++) {
		struct shared *bytes = shared_copy(s->ledger.at[i].bytes, s->ledger.at[i].len);
		const struct link_object o = {.kind = OBJECT_record, .bytes = bytes};
		link_push(s->link, stage_key(s), &o);
		shared_drop(bytes);
	}
}

static inline void stage_end(struct stage *s)
{
	stage_send(
		s, (shoal_header){.which_body = MSG_end, .body.end.reason = "all is done"}, NULL);
}

static inline void stage_on_hello(struct stage *s, const shoal_hello *h)
{
	const struct ledger_head at = ledger_at(s->p.ledger);
	s->hello_sequence = h->sequence;
	s->hellos++;
	assert_int_equal(h->number, 1);
	if (s->refusal) {
		stage_send(s, msg_refusal(MSG_hello, s->refusal, "go away, says the test"), NULL);
		return;
	}
	shoal_header welcome = {.which_body = MSG_welcome};
	welcome.body.welcome.number = 1;
	welcome.body.welcome.sequence = at.sequence;
	memcpy(welcome.body.welcome.head, at.hash.b, sizeof at.hash.b);
	stage_send(s, welcome, NULL);
	stage_send_roster(s);
	if (h->sequence < at.sequence && !s->hide_head)
		stage_send_head(s);
	if (s->open && h->sequence == at.sequence)
		stage_send_plan(s);
}

static inline void stage_on_object(struct stage *s, const struct link_event *e)
{
	struct contribution_view v;
	if (s->silent)
		return;
	if (s->verdict) {
		s->refused++;
		link_answer(s->link, e->key, e->ref, s->verdict, "refused by the test");
		return;
	}
	enum err err = contribution_parse(e->payload, e->payload_len, &v, &s->why);
	assert_int_equal(err, ERR_OK);
	assert_true(v.says.shard < 2);
	struct hash id = contribution_id(&v);
	if (!hash_equal(&id, &s->have[v.says.shard]))
		err = help_peer_gate(
			&s->p, &s->plan, v.says.shard, e->payload, e->payload_len, &s->why);
	link_answer(s->link, e->key, e->ref, err, err ? s->why.text : NULL);
	s->refused += err != ERR_OK;
	s->contributions += err == ERR_OK;
	if (!err)
		s->have[v.says.shard] = id;
}

static inline void stage_on_message(struct stage *s, const shoal_header *h)
{
	if (h->which_body == MSG_report) {
		s->reports++;
		s->reported = h->body.report.sequence;
		s->early += s->reported != ledger_at(s->p.ledger).sequence;
		memcpy(s->state.b, h->body.report.state, sizeof s->state.b);
	} else if (h->which_body == MSG_validation) {
		s->validations++;
		s->validated = h->body.validation.round;
	} else if (h->which_body == MSG_heartbeat) {
		s->doing = h->body.heartbeat.state;
		snprintf(s->reason, sizeof s->reason, "%s", h->body.heartbeat.reason);
	} else if (h->which_body == MSG_want && h->body.want.kind == OBJECT_record) {
		s->wants++;
		if (s->gives)
			stage_push(s, h->body.want.offset);
		else
			stage_send(s, msg_refusal(MSG_want, ERR_toobig, "not here"), NULL);
	} else if (h->which_body == MSG_bye) {
		s->byes++;
		snprintf(s->bye, sizeof s->bye, "%s", h->body.bye.reason);
	}
}

static inline void stage_on_mail(evutil_socket_t fd, short what, void *arg)
{
	struct stage *s = arg;
	struct mail *m;
	(void)fd, (void)what;
	while ((m = mailbox_take(s->box))) {
		struct link_event *e = link_event_of(m);
		switch ((enum link_event_kind)e->mail.kind) {
		case LINK_connected: stage_on_hello(s, &e->header.body.hello); break;
		case LINK_message: stage_on_message(s, &e->header); break;
		case LINK_object: stage_on_object(s, e); break;
		case LINK_delivered: s->delivered++; break;
		case LINK_lost: s->losts++; break;
		default: break;
		}
		link_event_free(e);
	}
}

static inline void stage_on_tick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what, (void)arg; /* the loop turns */
}

/* ---- life */

static inline void stage_listen(struct stage *s)
{
	static const struct https_route routes[] = {
		{"GET", "/api/v1/statement", 0, stage_statement},
		{"GET", "/api/v1/spec", 0, stage_spec},
		{"GET", "/api/v1/roster", 0, stage_get_roster},
		{"GET", "/api/v1/head", 0, stage_get_head},
		{"GET", "/api/v1/state", 0, stage_state},
		{"GET", "/api/v1/ledger.json", 0, stage_list},
		{"GET", "/api/v1/blob/*", 0, stage_blob},
		{"POST", "/api/v1/join", 8192, stage_join},
	};
	struct https_server_config how;
	char bind[40];
	struct why why;
	snprintf(bind, sizeof bind, "127.0.0.1:%u", s->joinlink.port);
	https_server_config_init(&how);
	how.bind = bind;
	how.tls = s->tls;
	how.routes = routes;
	how.n_routes = sizeof routes / sizeof *routes;
	how.arg = s;
	how.per_s = how.burst = 100000;
	help_peer_fine(https_server_new(s->base, &how, &s->server, &why), &why);
	if (!s->joinlink.port) /* later the peer's thread reads it */
		s->joinlink.port = https_server_port(s->server);
	struct link_config link;
	char link_bind[40];
	snprintf(link_bind, sizeof link_bind, "127.0.0.1:%u", s->link_port);
	link_config_init(&link);
	link.role = LINK_coordinator;
	memcpy(link.public_key, s->curve.public_key, sizeof link.public_key);
	memcpy(link.secret_key, s->curve.secret_key, sizeof link.secret_key);
	link.bind = link_bind;
	link.events = s->box;
	link.kinds[0] = (struct transfer_kind){.kind = 1, .size_most = 1 << 20};
	link.n_kinds = 1;
	help_peer_fine(link_new(&link, &s->link, &why), &why);
	s->link_port = link_port(s->link);
	link_admit(s->link, stage_key(s), 1);
}

/* The coordinator is gone, as by a kill. */
static inline void stage_close_doors(struct stage *s)
{
	https_server_free(s->server);
	s->server = NULL;
	link_free(s->link);
	s->link = NULL;
}

/* Members 1 (the peer) to n. */
static inline void stage_roster(struct stage *s, uint64_t version, uint32_t n)
{
	struct roster_member members[HELP_PEER_MEMBERS] = {0};
	struct why why;
	for (uint32_t i = 0; i < n; i++) {
		members[i].number = i + 1;
		members[i].sign = sign_public_of(i ? help_peer_key(i + 1) : s->peer.sign);
		memset(members[i].curve, (int)i + 1, sizeof members[i].curve);
		snprintf(members[i].name, sizeof members[i].name, "m%u", i + 1);
	}
	memcpy(members[0].curve, s->peer.curve.public_key, sizeof members[0].curve);
	roster_free(s->p.roster);
	free(s->roster);
	help_peer_fine(roster_new(&s->p.spec->id, version, members, n, &s->p.roster, &why), &why);
	s->roster = stage_sign(s, "roster", roster_json(s->p.roster));
}

static inline void stage_sign_head(struct stage *s)
{
	const struct ledger_head at = ledger_at(s->p.ledger);
	free(s->head);
	s->head = stage_sign(s, "head", ledger_head_json(&at, &s->p.spec->id));
}

/* The newest snapshot is of now. */
static inline void stage_snapshot(struct stage *s)
{
	s->snapshot.path = help_peer_snapshot(&s->p, &s->snapshot.at);
	assert_int_equal(
		hash_file(s->snapshot.path, &s->snapshot.blob, &s->snapshot.bytes), ERR_OK);
}

static inline void stage_open(struct stage *s, const char *const *changes)
{
	static const char *const names[] = {"127.0.0.1"};
	struct timeval each = {0, 5000};
	struct why why;
	signal(SIGPIPE, SIG_IGN);
	*s = (struct stage){0};
	help_peer_open(&s->p, changes);
	s->run_key = sign_make();
	identity_curve_make(&s->curve);
	help_peer_fine(identity_peer_open(help_peer_path("peer"), &s->peer, &why), &why);
	s->tls = tls_make(names, 1);
	s->base = event_base_new();
	s->box = mailbox_new();
	s->mail = event_new(s->base, mailbox_fd(s->box), EV_READ | EV_PERSIST, stage_on_mail, s);
	s->tick = event_new(s->base, -1, EV_PERSIST, stage_on_tick, s);
	event_add(s->mail, NULL);
	event_add(s->tick, &each);
	stage_roster(s, 1, 2);
	stage_sign_head(s);
	stage_snapshot(s);
	snprintf(s->joinlink.host, sizeof s->joinlink.host, "127.0.0.1");
	s->joinlink.run = s->p.spec->id;
	s->joinlink.key = sign_public_of(s->run_key);
	struct invite invite;
	invite_make(0, 0, &invite);
	invite_text(&invite, &s->p.spec->id, s->run_key, s->joinlink.invite);
	stage_listen(s);
}

static inline void *stage_peer(void *arg)
{
	struct stage *s = arg;
	s->result = member_run(&s->config, &s->end);
	atomic_store(&s->done, true);
	return NULL;
}

static inline void stage_start_peer(struct stage *s)
{
	s->config = (struct member_config){.share = 1,
		.link = &s->joinlink,
		.identity = &s->peer,
		.dir = help_peer_path("peer"),
		.name = "one",
		.backend = "cpu",
		.threads = 1};
	atomic_store(&s->done, false);
	assert_int_equal(pthread_create(&s->thread, NULL, stage_peer, s), 0);
}

/* One turn of the coordinator; fails when what is waited for does not come. */
static inline void stage_turn(struct stage *s, uint64_t until, const char *what)
{
	event_base_loop(s->base, EVLOOP_ONCE);
	if (clock_now_ns() > until)
		fail_msg("waited in vain for %s; the peer says \"%s\"", what, s->reason);
}

#define STAGE_UNTIL(s, condition) \
	do { \
		uint64_t stage_end_ns = clock_now_ns() + STAGE_WAIT; \
		while (!(condition)) \
			stage_turn((s), stage_end_ns, #condition); \
	} while (0)

/* The peer has ended by itself. */
static inline void stage_wait_peer(struct stage *s, enum err result)
{
	STAGE_UNTIL(s, atomic_load(&s->done));
	pthread_join(s->thread, NULL);
	if (s->result != result)
		fail_msg("%s: %s", err_name(s->result), s->end.text);
}

static inline void stage_release(struct stage *s)
{
	stage_close_doors(s);
	event_free(s->mail);
	event_free(s->tick);
	event_base_loop(s->base, EVLOOP_NONBLOCK); /* as https_server_free asks */
	event_base_free(s->base);
	mailbox_free(s->box);
	help_peer_drop(&s->ledger);
	tls_free(s->tls);
	sign_free(s->run_key);
	identity_peer_release(&s->peer);
	free(s->roster);
	free(s->head);
	help_peer_release(&s->p);
}

/* ---- a round */

/* Open the next one for the peer, and say so. */
static inline void stage_plan(struct stage *s, uint64_t steps)
{
	help_peer_plans(&s->p, steps, &s->plan, 1);
	s->open = true;
	memset(s->have, 0, sizeof s->have);
	stage_send_plan(s);
}

/* Over what was given; nothing is said. */
static inline void stage_close(struct stage *s)
{
	help_peer_close(&s->p, &s->ledger);
	stage_sign_head(s);
	s->open = false;
}

/* The peer stands where the ledger does, and knows the same state. */
static inline bool stage_at_head(const struct stage *s)
{
	struct hash state = replica_hash_all(s->p.replica);
	return s->reported == ledger_at(s->p.ledger).sequence && s->reports > 0 &&
	       hash_equal(&state, &s->state);
}

#endif
