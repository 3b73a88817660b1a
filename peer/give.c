#include "peer/give.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "net/address.h"
#include "peer/linkspeed.h"
#include "round/object.h"

#define BURST (CLOCK_SECOND / 4) /* so much time's bytes may go at once after a rest */

struct given {
	bool open;
	uint32_t follows; /* as its hello said */
	uint8_t key[LINK_KEY];
	uint32_t number;
	shoal_want asked[GIVE_ASKED]; /* in order */
	uint32_t n_asked;
	uint64_t sending[GIVE_ASKED]; /* refs of answers that have not arrived; 0: none */
	struct linkspeed up, down;
};

struct give {
	char address[ADDRESS_MAX], own[ADDRESS_MAX]; /* own: as it was configured */
	struct give_config config;                   /* identity and address are gone */
	struct mailbox *mail;
	struct link *link;
	struct roster *roster;
	struct given links[GIVE_LINKS];
	uint32_t turn; /* who is answered next */
	uint64_t free_ns, bytes;
	bool reached;
};

/* ---- life */

/* An address, but that any port will do, and any host where it is told later. */
static bool listen_ok(const struct give_config *c)
{
	char asked[ADDRESS_MAX + 2];
	const char *colon = strrchr(c->address, ':');
	const bool star = c->later && c->address[0] == '*' && colon == c->address + 1;
	if (!colon)
		return false;
	snprintf(asked, sizeof asked, "%s%.*s%s", star ? "any" : "",
		(int)(colon - c->address) - star, c->address + star,
		strcmp(colon, ":0") != 0 ? colon : ":1");
	return address_ok(asked);
}

enum err give_open(const struct give_config *config, struct give **out, struct why *why)
{
	const char *colon = strrchr(config->address, ':');
	const bool star = config->address[0] == '*';
	if (!listen_ok(config))
		return err_why(why, ERR_usage,
			"\"%s\" is not HOST:PORT as other peers reach this machine",
			config->address);
	struct give *g = alloc_must_zero(1, sizeof *g);
	struct link_config how;
	link_config_init(&how);
	how.role = LINK_coordinator;
	memcpy(how.public_key, config->identity->curve.public_key, sizeof how.public_key);
	memcpy(how.secret_key, config->identity->curve.secret_key, sizeof how.secret_key);
	char *bind = alloc_must_printf("*%s", colon);
	how.bind = bind;
	how.events = g->mail = mailbox_new();
	rng_secret(&how.seed, sizeof how.seed);
	how.connections_most = 4 * GIVE_LINKS;
	how.traffic = config->traffic;
	how.kinds[0] = (struct transfer_kind){OBJECT_contribution, config->contribution_most};
	how.n_kinds = config->contribution_most ? 1 : 0;
	g->config = *config;
	enum err err = link_new(&how, &g->link, why);
	free(bind);
	if (err) {
		give_close(g);
		return err;
	}
	if (!star)
		snprintf(g->own, sizeof g->own, "%.*s:%u", (int)(colon - config->address),
			config->address, link_port(g->link));
	give_announce(g, NULL);
	*out = g;
	return ERR_OK;
}

void give_close(struct give *g)
{
	if (!g)
		return;
	link_free(g->link);
	mailbox_free(g->mail);
	roster_free(g->roster);
	free(g);
}

const char *give_address(const struct give *g)
{
	return g ? g->address : "";
}

uint16_t give_port(const struct give *g)
{
	return g ? link_port(g->link) : 0;
}

void give_announce(struct give *g, const char *address)
{
	if (g)
		snprintf(g->address, sizeof g->address, "%s", address ? address : g->own);
}

int give_fd(const struct give *g)
{
	return g ? mailbox_fd(g->mail) : -1;
}

uint64_t give_bytes(const struct give *g)
{
	return g ? g->bytes : 0;
}

/* ---- who may ask */

void give_roster(struct give *g, const struct roster *roster)
{
	struct why why;
	if (!g || !roster || (g->roster && roster_version(g->roster) == roster_version(roster)))
		return;
	json_t *body = roster_json(roster);
	struct roster *copy = NULL;
	if (roster_parse(body, &g->config.run, &copy, &why))
		log_warn(peer, "the roster is not taken for giving: %s", why.text);
	json_decref(body);
	if (!copy)
		return;
	roster_free(g->roster);
	g->roster = copy;
	size_t n = 0;
	uint8_t *keys = alloc_must((roster_count(copy) + 1) * LINK_KEY);
	for (size_t i = 0; i < roster_count(copy); i++)
		if (!roster_at(copy, i)->removed)
			memcpy(keys + LINK_KEY * n++, roster_at(copy, i)->curve, LINK_KEY);
	link_admit(g->link, keys, n);
	free(keys);
}

static struct given *find(struct give *g, const uint8_t *key)
{
	for (uint32_t i = 0; i < GIVE_LINKS; i++)
		if (g->links[i].open && !memcmp(g->links[i].key, key, LINK_KEY))
			return &g->links[i];
	return NULL;
}

static struct given *room(struct give *g)
{
	for (uint32_t i = 0; i < GIVE_LINKS; i++)
		if (!g->links[i].open)
			return &g->links[i];
	return NULL;
}

static void refuse(struct give *g, const uint8_t *key, uint32_t kind, const struct why *why)
{
	shoal_header h = msg_refusal(kind, why->code, why->text);
	link_send(g->link, key, &h, NULL);
}

static void on_hello(struct give *g, const struct link_event *e)
{
	const shoal_hello *hello = &e->header.body.hello;
	const struct roster_member *m = g->roster ? roster_by_curve(g->roster, e->key) : NULL;
	struct given *l = find(g, e->key);
	struct why why = {0};
	if (!l)
		l = room(g);
	if (!m || m->removed)
		(void)err_why(&why, ERR_unknown_peer, "this key is not on the roster");
	else if (memcmp(hello->run, g->config.run.b, sizeof hello->run))
		(void)err_why(&why, ERR_wrong_run, "this peer takes part in another run");
	else if (!l)
		(void)err_why(&why, ERR_busy, "this peer gives to %u others already", GIVE_LINKS);
	if (why.code) {
		refuse(g, e->key, MSG_hello, &why);
		return;
	}
	*l = (struct given){.open = true, .number = m->number, .follows = hello->follow};
	memcpy(l->key, e->key, sizeof l->key);
	g->reached = true;
	shoal_header h = {.which_body = MSG_welcome};
	h.body.welcome.number = g->config.member;
	link_send(g->link, e->key, &h, NULL);
	log_at(peer, 2, "member %u is linked here%s", m->number, l->follows ? ", and follows" : "");
}

/* What is on its way would wait for it to come back. */
static void on_gone(struct give *g, struct given *l)
{
	for (uint32_t i = 0; i < GIVE_ASKED; i++)
		if (l->sending[i])
			link_cancel(g->link, l->key, l->sending[i]);
	l->open = false;
}

/* The place of an answer on its way, or with 0 of another one; NULL: there is none. */
static uint64_t *sending(struct given *l, uint64_t ref)
{
	for (uint32_t i = 0; i < GIVE_ASKED; i++)
		if (l->sending[i] == ref)
			return &l->sending[i];
	return NULL;
}

static void measure(struct linkspeed *speed, const struct link_event *e)
{
	const uint64_t now = clock_now_ns();
	const struct linkspeed_burst object = {.bytes = e->size,
		.began_ns = now > e->taken_ns ? now - e->taken_ns : 0,
		.ended_ns = now};
	linkspeed_add(speed, &object);
}

static void on_answered(struct give *g, struct given *l, const struct link_event *e)
{
	uint64_t *ref = sending(l, e->ref);
	if (ref)
		*ref = 0;
	if (e->mail.kind != LINK_delivered)
		return;
	g->bytes += e->size;
	measure(&l->up, e);
}

/* Only contributions are taken in. */
static void on_object(struct give *g, struct given *l, struct link_event *e)
{
	measure(&l->down, e);
	if (!g->config.contribution)
		return;
	g->config.contribution(g->config.owner, e->key, e->ref, e->payload, e->payload_len);
	e->payload = NULL;
}

static uint32_t shard_of(const shoal_want *want)
{
	const uint8_t *b = want->name;
	return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void on_want(struct give *g, struct given *l, const shoal_want *want)
{
	struct why why;
	if (want->kind == OBJECT_bundle && g->config.bundle) {
		g->config.bundle(g->config.owner, l->key, want->offset, shard_of(want));
		return;
	}
	if (l->n_asked < GIVE_ASKED) {
		l->asked[l->n_asked++] = *want;
		return;
	}
	(void)err_why(&why, ERR_busy, "%u questions of this peer wait already", GIVE_ASKED);
	refuse(g, l->key, MSG_want, &why);
}

static void on_event(struct give *g, struct link_event *e)
{
	struct given *l = find(g, e->key);
	const enum link_event_kind kind = (enum link_event_kind)e->mail.kind;
	if (kind == LINK_connected) {
		on_hello(g, e);
		return;
	}
	if (!l) {
		if (kind == LINK_object)
			link_answer(g->link, e->key, e->ref, ERR_unknown_peer, NULL);
		return;
	}
	switch (kind) {
	case LINK_lost: on_gone(g, l); break;
	case LINK_message:
		if (e->header.which_body == MSG_want)
			on_want(g, l, &e->header.body.want);
		break;
	case LINK_object: on_object(g, l, e); break;
	case LINK_delivered:
	case LINK_declined: on_answered(g, l, e); break;
	default: break;
	}
}

bool give_reached(const struct give *g)
{
	return g && g->reached;
}

void give_answer(struct give *g, const uint8_t *key, uint64_t ref, const struct why *why)
{
	if (g)
		link_answer(g->link, key, ref, why->code, why->code ? why->text : NULL);
}

void give_send(struct give *g, const uint8_t *key, const struct link_object *object)
{
	if (g && find(g, key))
		(void)link_push(g->link, key, object);
}

void give_spread(struct give *g, const struct link_object *object, bool made_here)
{
	for (uint32_t i = 0; g && i < GIVE_LINKS; i++) {
		const struct given *l = &g->links[i];
		if (l->open && l->follows >= (made_here ? GIVE_made : GIVE_all))
			(void)link_push(g->link, l->key, object);
	}
}

void give_refuse(struct give *g, const uint8_t *key, uint32_t kind, const struct why *why)
{
	if (g)
		refuse(g, key, kind, why);
}

bool give_measured(const struct give *g, uint32_t i, struct give_measured *out)
{
	for (uint32_t at = 0; g && at < GIVE_LINKS; at++) {
		const struct given *l = &g->links[at];
		if (!l->open || i--)
			continue;
		*out = (struct give_measured){
			l->number, linkspeed_bits(&l->up), linkspeed_bits(&l->down)};
		return true;
	}
	return false;
}

/* ---- answering */

/* Bytes that went; 0: it was refused. */
static size_t answer(struct give *g, struct given *l, struct shelf *shelf)
{
	const shoal_want want = l->asked[0];
	struct shelf_object o = {0};
	struct why why = {0};
	memmove(l->asked, l->asked + 1, --l->n_asked * sizeof *l->asked);
	enum err err = shelf ? shelf_give(shelf, &want, &o, &why)
			     : err_why(&why, ERR_missing, "this peer keeps nothing for others");
	if (err) {
		refuse(g, l->key, MSG_want, &why);
		return 0;
	}
	const struct link_object object = {
		.kind = want.kind, .bytes = o.bytes, .meta = o.meta, .meta_len = o.meta_len};
	uint64_t ref = link_push(g->link, l->key, &object);
	if (!sending(l, ref)) /* asked for twice, it is one */
		*sending(l, 0) = ref;
	size_t n = shared_len(o.bytes);
	shared_drop(o.bytes);
	return n;
}

/* One answer after the other, each peer in its turn, as fast as the rate allows. */
static void answer_all(struct give *g, struct shelf *shelf, uint64_t now)
{
	if (g->free_ns + BURST < now)
		g->free_ns = now - BURST;
	for (uint32_t idle = 0; idle < GIVE_LINKS && g->free_ns <= now; g->turn++) {
		struct given *l = &g->links[g->turn % GIVE_LINKS];
		idle++;
		if (!l->open || !l->n_asked || !sending(l, 0))
			continue;
		idle = 0;
		g->free_ns += (uint64_t)((double)answer(g, l, shelf) / (double)g->config.rate *
					 (double)CLOCK_SECOND);
	}
}

void give_turn(struct give *g, struct shelf *shelf, uint64_t now_ns)
{
	if (!g)
		return;
	for (struct mail *m; (m = mailbox_take(g->mail));) {
		on_event(g, link_event_of(m));
		m->drop(m);
	}
	answer_all(g, shelf, now_ns);
}
