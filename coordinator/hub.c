#include "coordinator/hub.h"
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signal.h"
#include "coordinator/hub_distance.h"
#include "coordinator/hub_gather.h"
#include "coordinator/hub_link.h"
#include "coordinator/hub_round.h"
#include "coordinator/hub_topology.h"
#include "coordinator/progress_line.h"
#include "coordinator/view.h"
#include "net/https_server.h"
#include "net/statement.h"

#define BEAT_MS 250
#define ROSTER_AT_ONCE 256u /* members: up to there a roster is made for each newcomer */
#define PEERS_PER_BEAT 32   /* told to pages */
#define MAILS_PER_TURN 256
#define PENDING_MOST 1000             /* refusals of one beat that are stored with their text */
#define END_GRACE (10 * CLOCK_SECOND) /* for peers to leave by themselves at the end */

/* ---- members */

struct hub_member *hub_member(struct hub *h, uint32_t number)
{
	if (number >= h->n_members) {
		uint32_t n = number + 1;
		h->members = alloc_must_resize(h->members, n, sizeof *h->members);
		for (uint32_t i = h->n_members; i < n; i++) {
			uint32_t shards = h->run.files.n_shards;
			h->members[i] = (struct hub_member){
				.pushed = alloc_must_zero(shards, sizeof(uint64_t)),
				.arrived = alloc_must_zero(shards, sizeof(struct hub_arrival))};
		}
		h->n_members = n;
	}
	return &h->members[number];
}

static void admit(struct hub *h)
{
	size_t n;
	uint8_t *keys = members_links(h->run.members, &n);
	link_admit(h->link, keys, n);
	free(keys);
}

void hub_joined(struct hub *h, uint32_t number, uint64_t now)
{
	if (members_end(h->run.members) < ROSTER_AT_ONCE) {
		hub_roster_changed(h, now);
		return;
	}
	members_take(h->run.members);
	admit(h);
	(void)hub_member(h, number);
	rounds_on_joined(h->rounds, number, now);
	h->changed = true;
}

void hub_roster_settle(struct hub *h, uint64_t now)
{
	if (members_pending(h->run.members))
		hub_roster_changed(h, now);
}

void hub_roster_changed(struct hub *h, uint64_t now)
{
	struct why why;
	h->roster_ns = now;
	if (members_renew(h->run.members, &why)) {
		hub_fail(h, &why);
		return;
	}
	admit(h);
	for (uint32_t i = MEMBERS_FIRST; i < members_end(h->run.members); i++) {
		if (!members_at(h->run.members, i))
			continue;
		rounds_on_joined(h->rounds, i, now);
		if (hub_member(h, i)->linked)
			hub_link_roster(h, i);
	}
	h->changed = true;
}

enum err hub_kick(struct hub *h, uint32_t number, uint64_t now)
{
	struct why why;
	store_begin(h->run.store);
	if (members_remove(h->run.members, number)) {
		store_rollback(h->run.store);
		return ERR_missing;
	}
	enum err err = store_commit(h->run.store, &why);
	if (err) {
		hub_fail(h, &why);
		return err;
	}
	struct hub_member *m = hub_member(h, number);
	const struct hub_refused r = {.what = "kick", .member = number};
	if (m->linked)
		hub_link_refusal(h, number, &r, ERR_unknown_peer,
			"the operator has removed this peer from the run");
	hub_link_cancel(h, number);
	m->linked = false;
	m->changed = true;
	hub_gather_gone(h, number, now);
	rounds_on_gone(h->rounds, number, now);
	hub_roster_changed(h, now);
	return ERR_OK;
}

void hub_pause(struct hub *h, bool paused, uint64_t now)
{
	struct why why;
	store_begin(h->run.store);
	store_put_number(h->run.store, "paused", paused);
	if (store_commit(h->run.store, &why)) {
		hub_fail(h, &why);
		return;
	}
	rounds_on_pause(h->rounds, paused, now);
}

/* ---- refusals */

void hub_alarm(struct hub *h, const struct why *why)
{
	h->alarm = *why;
	h->alarm_ns = clock_now_ns();
	h->changed = true;
}

void hub_refuse(struct hub *h, const struct hub_refused *r, const struct why *why)
{
	struct store_refusal row = {.at_s = clock_wall_s(),
		.member = r->member,
		.round = r->round,
		.shard = r->shard,
		.code = why->code};
	memcpy(row.what, r->what, strnlen(r->what, sizeof row.what - 1));
	memcpy(row.text, why->text, sizeof row.text);
	row.text[sizeof row.text - 1] = 0;
	log_at(coord, 2, "%s of member %u refused (%s): %s", r->what, r->member,
		err_name(why->code), why->text);
	h->refusals++;
	if (r->member != MEMBERS_NONE)
		hub_member(h, r->member)->refusals++;
	if (h->n_pending == PENDING_MOST)
		return; /* a flood: the count goes on, the sentences repeat anyway */
	h->pending = alloc_must_resize(h->pending, h->n_pending + 1, sizeof *h->pending);
	h->pending[h->n_pending++] = row;
}

void hub_store_refusals(struct hub *h)
{
	struct why why;
	if (!h->n_pending)
		return;
	store_begin(h->run.store);
	for (size_t i = 0; i < h->n_pending; i++) {
		store_refusal_add(h->run.store, &h->pending[i]);
		feed_tell(h->feed, "refusal", view_refusal(&h->pending[i]));
	}
	h->n_pending = 0;
	if (store_commit(h->run.store, &why))
		hub_fail(h, &why);
}

/* ---- the loop */

void hub_fail(struct hub *h, const struct why *why)
{
	if (h->failed.code)
		return;
	h->failed = *why;
	h->stop = true;
	log_warn(coord, "stopping: %s", why->text);
	if (h->base)
		event_base_loopbreak(h->base);
}

/* What the machine decided. */
static void act(struct hub *h, uint64_t now)
{
	struct rounds_action a;
	while (!h->stop && (a = rounds_next(h->rounds)).kind != ROUNDS_none)
		hub_round_act(h, &a, now);
	/* Without an action too: the reason why nothing happens is another one after any event. */
	h->changed = true;
}

/* When the machine wants to be asked again.  Looks at every member, so not after every mail. */
static void set_timer(struct hub *h, uint64_t now)
{
	uint64_t at = rounds_ask_deadline(h->rounds), gather = hub_gather_deadline(h);
	at = gather < at ? gather : at;
	if (!h->on_timer)
		return;
	if (at == UINT64_MAX || h->stop) {
		event_del(h->on_timer);
		return;
	}
	uint64_t wait = at > now ? at - now : 0;
	struct timeval tv = {.tv_sec = (time_t)(wait / CLOCK_SECOND),
		.tv_usec = (suseconds_t)(wait % CLOCK_SECOND / 1000 + 1)};
	event_add(h->on_timer, &tv);
}

void hub_settle(struct hub *h, uint64_t now)
{
	act(h, now);
	set_timer(h, now);
}

void hub_take(struct hub *h, struct mail *m, uint64_t now)
{
	struct link_event *e = link_event_of(m);
	if (e)
		hub_link_event(h, e, now);
	else if (desk_is_job(m))
		hub_round_done(h, (struct desk_job *)m, now);
	m->drop(m);
	act(h, now);
}

static void on_mail(evutil_socket_t fd, short what, void *arg)
{
	struct hub *h = arg;
	struct mail *m;
	(void)fd;
	(void)what;
	for (int i = 0; i < MAILS_PER_TURN && !h->stop && (m = mailbox_take(h->mail)); i++)
		hub_take(h, m, clock_now_ns());
	set_timer(h, clock_now_ns());
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct hub *h = arg;
	(void)fd;
	(void)what;
	rounds_tick(h->rounds, clock_now_ns());
	hub_gather_tick(h, clock_now_ns());
	hub_settle(h, clock_now_ns());
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct hub *h = arg;
	(void)fd;
	(void)what;
	log_at(coord, 1, "asked to stop");
	h->stop = true;
	event_base_loopbreak(h->base);
}

static void tell_pages(struct hub *h, uint64_t now)
{
	int told = 0;
	for (uint32_t i = 0; i < h->n_members && told < PEERS_PER_BEAT; i++) {
		if (!h->members[i].changed || !members_at(h->run.members, i))
			continue;
		feed_now(h->feed, "peer", view_peer(h, i, NULL, now));
		h->members[i].changed = false;
		told++;
	}
	if (h->changed)
		feed_now(h->feed, "overview", view_overview(h, now));
	h->changed = false;
}

/* The end of the run is complete when its snapshot is on disk. */
static void tell_outcome(struct hub *h)
{
	if (h->told_outcome || !h->ended || h->snapshot_due)
		return;
	progress_line_end();
	progress_line_outcome(h, "finished");
	h->told_outcome = true;
}

static bool over(const struct hub *h, uint64_t now)
{
	if (!h->config.exit_at_end || !h->told_outcome)
		return false;
	for (uint32_t i = 0; i < h->n_members; i++)
		if (h->members[i].linked && now < h->ended_ns + END_GRACE)
			return false;
	return true;
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
	struct hub *h = arg;
	uint64_t now = clock_now_ns();
	(void)fd;
	(void)what;
	if (now - h->roster_ns > CLOCK_SECOND)
		hub_roster_settle(h, now);
	hub_store_refusals(h);
	hub_distance_tick(h, now);
	tell_pages(h, now);
	progress_line_show(h, now);
	tell_outcome(h);
	if (over(h, now)) {
		h->stop = true;
		event_base_loopbreak(h->base);
	}
}

void hub_begin(struct hub *h)
{
	if (h->snapshot_due)
		hub_round_snapshot(h);
	h->changed = true;
	hub_settle(h, clock_now_ns());
}

enum err hub_run(struct hub *h, struct why *why)
{
	const struct timeval beat = {.tv_usec = BEAT_MS * 1000};
	h->on_mail = event_new(h->base, mailbox_fd(h->mail), EV_READ | EV_PERSIST, on_mail, h);
	h->on_timer = event_new(h->base, -1, 0, on_timer, h);
	h->on_beat = event_new(h->base, -1, EV_PERSIST, on_beat, h);
	event_add(h->on_mail, NULL);
	event_add(h->on_beat, &beat);
	if (signal_fd() >= 0) {
		h->on_signal = event_new(h->base, signal_fd(), EV_READ | EV_PERSIST, on_signal, h);
		event_add(h->on_signal, NULL);
	}
	hub_begin(h);
	if (!h->stop)
		event_base_dispatch(h->base);
	if (!h->failed.code)
		hub_store_refusals(h);
	return h->failed.code ? err_why(why, h->failed.code, "%s", h->failed.text) : ERR_OK;
}

const char *hub_statement(struct hub *h)
{
	const uint64_t now_s = clock_wall_s(), from_s = h->statement_from_s;
	if (h->statement && now_s >= from_s && now_s - from_s < STATEMENT_VALID_S / 2)
		return h->statement;
	struct statement s = {.run = h->run.spec->id,
		.spki = tls_spki(h->run.keys.tls),
		.from_s = now_s,
		.to_s = now_s + STATEMENT_VALID_S};
	memcpy(s.curve, h->run.keys.curve.public_key, sizeof s.curve);
	free(h->statement);
	h->statement = statement_make(&s, h->run.keys.run);
	h->statement_from_s = now_s;
	return h->statement;
}

void hub_close(struct hub *h)
{
	/* The link says goodbye to peers; what the desk has begun is finished first. */
	desk_free(h->desk);
	link_free(h->link);
	feed_free(h->feed);
	https_server_free(h->https);
	struct event *const events[] = {h->on_mail, h->on_timer, h->on_signal, h->on_beat};
	for (size_t i = 0; i < sizeof events / sizeof *events; i++)
		if (events[i])
			event_free(events[i]);
	if (h->base)
		event_base_free(h->base);
	if (h->mail)
		mailbox_free(h->mail);
	rounds_free(h->rounds);
	for (uint32_t i = 0; i < h->n_members; i++) {
		free(h->members[i].pushed);
		free(h->members[i].owed);
		free(h->members[i].arrived);
	}
	free(h->members);
	free(h->pending);
	free(h->statement);
	free(h->invite_path);
	hub_gather_free(h->gather);
	hub_topology_free(h->topology);
	egress_free(h->egress);
	manifest_free(h->manifest);
	run_release(&h->run);
}
