#include "peer/member.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/rng.h"
#include "base/signal.h"
#include "base/version.h"
#include "peer/member_parts.h"

#define TICK (200 * CLOCK_MS)
#define FIRST_WAYS 4                     /* round trips that a first contribution takes longer */
#define REPAIRS_MAX 5                    /* in a row without a round between them */
#define SEND_PATIENCE (2 * CLOCK_SECOND) /* what is pending when asked to stop */
#define END_PATIENCE (8 * CLOCK_SECOND)  /* the run has ended, its last round is on its way */

void member_fail(struct member *m, const struct why *why)
{
	m->failed = why->code ? why->code : ERR_refused;
	*m->why = *why;
}

void member_repair(struct member *m, const struct why *why, bool own)
{
	const bool room = why->code == ERR_full; /* is missing, nothing else is wrong */
	own = own && !m->repairs && !room;
	if (!room && m->repairs++ == REPAIRS_MAX) {
		member_fail(m, why);
		return;
	}
	if (!room)
		member_warn(m, "%s; beginning again from %s", why->text,
			own ? "what was saved last" : "the newest snapshot");
	m->started = false;
	m->plan_waits = m->training = false;
	worker_abandon(m->worker);
	member_send_end(m);
	inbox_drop(&m->inbox, UINT64_MAX);
	m->target_since_ns = m->wanted = 0; /* nobody sends again what was dropped */
	if (own)
		worker_start(m->worker, NULL, NULL);
	else if (m->repairs == 1 && !room)
		member_fetch(m, FETCH_snapshot);
	else
		member_fetch_later(m, FETCH_snapshot, backoff_next(&m->mending), why);
}

void member_roster(struct member *m, struct roster *r)
{
	const struct roster *newest = m->next_roster ? m->next_roster : m->roster;
	if (!r || (newest && roster_version(r) <= roster_version(newest))) {
		roster_free(r);
		return;
	}
	give_roster(m->give, r);
	struct roster **to = m->applying ? &m->next_roster : &m->roster;
	roster_free(*to);
	*to = r;
	member_aggregate_roster(m);
}

void member_hello(struct member *m, bool first)
{
	shoal_hello h = {.number = m->number,
		.instance = m->config->identity->instance,
		.sequence = m->head.sequence};
	snprintf(h.version, sizeof h.version, "%s", version_text());
	snprintf(h.address, sizeof h.address, "%s", give_address(m->give));
	memcpy(h.run, m->spec->id.b, sizeof h.run);
	memcpy(h.head, m->head.hash.b, sizeof h.head);
	if (first)
		link_connect(m->link, m->curve, m->address, &h);
	else
		link_hello(m->link, m->curve, &h);
}

void member_target(struct member *m, const struct ledger_head *h, uint64_t patience_from)
{
	if (h->sequence <= m->target.sequence && m->target.sequence)
		return;
	m->target = *h;
	m->target_since_ns =
		m->ahead ? 0 : patience_from; /* what was before the link is not sent */
	if (m->ahead && m->wanted)
		m->wanted = h->sequence; /* how far that leads is known now */
	m->ahead = false;
}

/* ---- what is next */

static void report(struct member *m)
{
	shoal_header h = {.which_body = MSG_report};
	h.body.report.round = m->head.round;
	h.body.report.sequence = m->head.sequence;
	memcpy(h.body.report.state, m->state.b, sizeof h.body.report.state);
	link_send(m->link, m->curve, &h, NULL);
	m->reported = true;
}

/* The round waits for those that it knows, and learns from them for how long.  A first contribution
 * goes over a connection that begins slowly, and its plan was on the way for a while: it is cut so
 * much earlier, each time until one is in. */
static struct plan in_time(const struct member *m)
{
	struct plan plan = m->plan;
	const double way = FIRST_WAYS * clock_seconds(m->rtt_ns);
	if (!m->contributed && plan.seconds > 0)
		plan.seconds = plan.seconds > 2 * way ? plan.seconds - way : plan.seconds / 2;
	return plan;
}

static void train(struct member *m)
{
	const struct plan plan = in_time(m);
	m->plan_waits = false;
	m->training = true;
	m->starved = false;
	m->parked = false;
	member_send_begin(m);
	m->status.round = m->plan.round;
	m->status.steps = m->plan.steps;
	m->status.steps_done = 0;
	m->cut_bytes = 0;
	member_rate_pick(m);
	if (m->spec->round.overlap && m->plan.steps)
		worker_follow(m->worker, &plan);
	else
		worker_train(m->worker, &m->plan);
}

void member_advance(struct member *m, uint64_t now)
{
	if (m->retry_set && now >= m->retry_at_ns && !m->fetching)
		member_fetch(m, m->retry);
	if (!m->started || !m->linked || m->applying)
		return;
	if (m->target.sequence > m->head.sequence) {
		member_catchup_go(m, now);
		return;
	}
	if (m->ahead) {
		member_catchup_want(m, m->head.sequence + 1, now);
		return;
	}
	m->wanted = 0;
	if (!m->reported)
		report(m);
	if (m->again_ns && now >= m->again_ns && !m->ended)
		m->plan_waits = true; /* said again it is answered again */
	if (m->plan_waits && (!m->training || m->spec->round.overlap) && !m->ended &&
		hash_equal(&m->plan.parent.hash, &m->head.hash))
		train(m);
}

/* ---- the loop */

static void dispatch(struct member *m, struct mail *mail, uint64_t now)
{
	struct link_event *event = link_event_of(mail);
	if (event) {
		member_link_event(m, event, now);
		link_event_free(event);
	} else if (aggregate_is_result(mail)) {
		member_aggregate_result(m, (struct aggregate_result *)mail, now);
		aggregate_result_free((struct aggregate_result *)mail);
	} else if (mail->kind == PORTMAP_result) {
		member_shelf_reach(m, (struct portmap_result *)mail);
		mail->drop(mail);
	} else if (mail->kind >= FETCH_result_joined) {
		member_fetch_result(m, (struct fetch_result *)mail, now);
		fetch_result_free((struct fetch_result *)mail);
	} else {
		member_work_result(m, (struct worker_result *)mail);
		worker_result_free((struct worker_result *)mail);
	}
}

static void wait_for_mail(struct member *m)
{
	struct pollfd fds[] = {{.fd = mailbox_fd(m->mail), .events = POLLIN},
		{.fd = give_fd(m->give), .events = POLLIN}, {.fd = signal_fd(), .events = POLLIN}};
	poll(fds, signal_asked() ? 2 : 3, (int)(TICK / CLOCK_MS));
}

/* The run has ended for us when its last round is applied, or does not come. */
static bool over(const struct member *m, uint64_t now)
{
	bool there = !m->applying && m->head.sequence >= m->target.sequence;
	return m->failed || m->spent || (m->ended && (there || now - m->ended_ns > END_PATIENCE));
}

static void loop(struct member *m)
{
	uint64_t now = clock_now_ns();
	while (!over(m, now) && !signal_asked()) {
		struct mail *mail;
		wait_for_mail(m);
		now = clock_now_ns();
		while (!m->failed && (mail = mailbox_take(m->mail)))
			dispatch(m, mail, now);
		member_quota_count(m);
		give_turn(m->give, m->shelf, now);
		member_mesh_turn(m, now);
		member_send_turn(m, now);
		if (!m->failed)
			member_advance(m, now);
		member_show(m, now);
	}
}

static bool sending(const struct member *m)
{
	for (uint32_t i = 0; m->pushes && i < m->spec->model.n_shards; i++)
		if (m->pushes[i])
			return true;
	return false;
}

/* A contribution that is on its way may still arrive. */
static void send_pending(struct member *m)
{
	const uint64_t until = clock_now_ns() + SEND_PATIENCE;
	while (m->linked && !m->failed && sending(m) && clock_now_ns() < until) {
		struct mail *mail;
		wait_for_mail(m);
		while ((mail = mailbox_take(m->mail))) {
			if (link_event_of(mail))
				member_link_event(m, link_event_of(mail), clock_now_ns());
			mail->drop(mail);
		}
		give_turn(m->give, m->shelf, clock_now_ns());
	}
}

static void leave(struct member *m, const char *reason)
{
	if (m->worker)
		worker_abandon(m->worker);
	send_pending(m);
	if (m->linked) {
		shoal_header bye = msg_bye(reason);
		link_send(m->link, m->curve, &bye, NULL);
	}
	link_free(m->link); /* sends what is pending first */
	portmap_free(m->portmap);
	give_close(m->give);
	member_aggregate_end(m);
	fetch_free(m->fetch);
	worker_free(m->worker, m->ended && !m->failed);
	shelf_close(m->shelf);
	member_update_end(m);
	for (uint32_t i = 0; m->sent && i < m->spec->model.n_shards; i++)
		shared_drop(m->sent[i].bytes);
	if (!m->failed) /* else the caller has the sentence */
		member_log(m, 1, "left: %s", reason);
	progress_end(&m->progress);
	mailbox_free(m->mail);
	dataset_release(&m->data);
	inbox_release(&m->inbox);
	roster_free(m->roster);
	roster_free(m->next_roster);
	spec_free(m->spec);
	free(m->pushes);
	free(m->sent);
	free(m->updates);
	free(m->witness);
}

/* Until the quota is used up (ERR_OK and *spent) or it is over. */
static enum err take_part(const struct member_config *config, bool *spent, struct why *why)
{
	static struct member m; /* too large for a stack */
	m = (struct member){.config = config, .why = why, .status = {.pid = getpid()}};
	snprintf(m.status.name, sizeof m.status.name, "%s", config->name);
	snprintf(m.status.coordinator, sizeof m.status.coordinator, "%.120s", config->link->host);
	m.mail = mailbox_new();
	inbox_init(&m.inbox);
	uint64_t seed;
	rng_secret(&seed, sizeof seed);
	backoff_init(&m.backoff, seed, CLOCK_SECOND / 2, 30 * CLOCK_SECOND);
	backoff_init(&m.mending, seed + 1, CLOCK_SECOND / 2, 30 * CLOCK_SECOND);
	backoff_init(&m.again, seed + 2, CLOCK_SECOND, MEMBER_RETRY_MOST);
	progress_init(&m.progress, 0);
	struct fetch_config how = {.link = config->link,
		.identity = config->identity,
		.proxy = config->proxy,
		.traffic = config->traffic,
		.dir = config->dir,
		.name = config->name,
		.results = m.mail};
	enum err e = fetch_new(&how, &m.fetch, why);
	if (!e) {
		member_fetch(&m, FETCH_join);
		loop(&m);
		e = m.failed             ? m.failed
		    : m.ended || m.spent ? ERR_OK
					 : err_why(why, ERR_interrupted, "stopped by its user");
	}
	*spent = !e && !m.ended;
	leave(&m, e ? why->text : *spent ? m.spent_why : "the run has ended");
	return e;
}

enum err member_run(const struct member_config *config, struct why *why)
{
	bool spent = true;
	enum err e = ERR_OK;
	while (!e && spent) {
		e = member_quota_wait(config, why);
		if (!e)
			e = take_part(config, &spent, why);
	}
	return e;
}
