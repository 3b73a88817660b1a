#include "peer/member_parts.h"
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/signal.h"
#include "base/version.h"
#include "round/record.h"

#define TICK (200 * CLOCK_MS)
#define SHOW_EVERY CLOCK_SECOND
#define RECORDS_PATIENCE \
	(10 * CLOCK_SECOND) /* a head has come but its records do not: fetch them */
#define REPAIRS_MAX 5       /* in a row without a round between them */

void member_reason(struct member *m, const char *fmt, ...)
{
	va_list args;
	char text[STATUSFILE_TEXT];
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (strcmp(text, m->status.reason)) {
		m->shown_ns = 0; /* status.json has it at once */
		if (text[0])
			log_at(peer, 1, "%s", text);
	}
	memcpy(m->status.reason, text, sizeof text);
}

void member_state(struct member *m, shoal_state s, const char *name)
{
	snprintf(m->status.state, sizeof m->status.state, "%s", name);
	shoal_heartbeat h = {.state = s,
		.round = m->status.round,
		.steps_done = (uint32_t)m->status.steps_done,
		.steps = (uint32_t)m->status.steps,
		.tokens = m->status.steps_done * (m->spec ? spec_step_tokens(m->spec) : 0),
		.tokens_per_s = (float)m->status.tokens_per_s,
		.loss = (float)m->status.loss};
	snprintf(h.reason, sizeof h.reason, "%.199s", m->status.reason);
	if (m->link)
		link_status(m->link, &h);
}

void member_fail(struct member *m, const struct why *why)
{
	m->failed = why->code ? why->code : ERR_refused;
	*m->why = *why;
}

/* ---- fetching, one job at a time */

void member_fetch(struct member *m, enum fetch_job job)
{
	m->fetching = true;
	m->retry_set = false;
	switch (job) {
	case FETCH_join: fetch_join(m->fetch); break;
	case FETCH_data: fetch_data(m->fetch); break;
	case FETCH_snapshot: fetch_snapshot(m->fetch); break;
	case FETCH_records:
		fetch_records(m->fetch, inbox_reaches(&m->inbox, m->head.sequence));
		break;
	case FETCH_forget:
	case FETCH_stop: break;
	}
}

/* Its own state is damaged or left behind: begin again from the newest snapshot. */
void member_repair(struct member *m, const struct why *why)
{
	/* Having been away too long for the records that are kept is no damage: it may happen again
	 * and again. */
	if (why->code != ERR_missing && m->repairs++ == REPAIRS_MAX) {
		member_fail(m, why);
		return;
	}
	log_warn(peer, "%s; beginning again from the newest snapshot", why->text);
	m->started = false;
	m->plan_waits = false;
	inbox_drop(&m->inbox, UINT64_MAX);
	member_fetch(m, FETCH_snapshot);
}

static void on_joined(struct member *m, struct fetch_result *r)
{
	m->spec = r->spec;
	m->roster = r->roster;
	m->number = r->number;
	memcpy(m->curve, r->curve, sizeof m->curve);
	snprintf(m->address, sizeof m->address, "%s", r->address);
	r->spec = NULL;
	r->roster = NULL;
	m->joined = true;
	m->status.member = m->number;
	hash_hex(&m->spec->id, m->status.run);
	log_at(peer, 1, "member %u of run \"%s\" (%.12s)", m->number, m->spec->name, m->status.run);
	member_fetch(m, FETCH_data);
}

static void on_data(struct member *m)
{
	struct why why;
	if (m->have_data)
		return;
	enum err e = dataset_open(m->config->dir, m->spec, false, &m->data, &why);
	struct worker_config how = {.spec = m->spec,
		.corpus = m->data.corpus,
		.key = m->config->identity->sign,
		.member = m->number,
		.dir = m->config->dir,
		.backend = m->config->backend,
		.threads = m->config->threads,
		.windows = m->config->windows,
		.results = m->mail};
	if (!e)
		e = worker_new(&how, &m->worker, &why);
	if (e) {
		member_fail(m, &why);
		return;
	}
	char device[200];
	worker_describe(m->worker, device, sizeof device);
	log_at(peer, 1, "computing on %s", device);
	m->have_data = true;
	worker_start(m->worker, NULL, NULL);
}

/* ---- the ledger */

void member_roster(struct member *m, struct roster *r)
{
	const struct roster *newest = m->next_roster ? m->next_roster : m->roster;
	if (!r || (newest && roster_version(r) <= roster_version(newest))) {
		roster_free(r);
		return;
	}
	if (m->applying) {
		roster_free(m->next_roster);
		m->next_roster = r;
	} else {
		roster_free(m->roster);
		m->roster = r;
	}
}

static void apply(
	struct member *m, struct standing_record *records, size_t n, const struct ledger_head *to)
{
	worker_abandon(m->worker);
	m->applying = true;
	member_state(m, shoal_state_applying, "applying");
	worker_apply(m->worker, records, n, to, m->roster);
}

void member_hello(struct member *m, bool first)
{
	shoal_hello h = {.number = m->number,
		.instance = m->config->identity->instance,
		.sequence = m->head.sequence};
	snprintf(h.version, sizeof h.version, "%s", version_text());
	memcpy(h.run, m->spec->id.b, sizeof h.run);
	memcpy(h.head, m->head.hash.b, sizeof h.head);
	if (first)
		link_connect(m->link, m->curve, m->address, &h);
	else
		link_hello(m->link, m->curve, &h);
}

static void report(struct member *m)
{
	shoal_header h = {.which_body = MSG_report};
	h.body.report.round = m->head.round;
	h.body.report.sequence = m->head.sequence;
	memcpy(h.body.report.state, m->state.b, sizeof h.body.report.state);
	link_send(m->link, m->curve, &h, NULL);
	m->at_head_told = true;
	member_reason(m, "at ledger entry %llu, waiting for the coordinator to open a round",
		(unsigned long long)m->head.sequence);
	member_state(m, shoal_state_ready, "ready");
}

static void train(struct member *m)
{
	m->plan_waits = false;
	m->training = true;
	m->status.round = m->plan.round;
	m->status.steps = m->plan.steps;
	m->status.steps_done = 0;
	member_reason(m, "%s", "");
	member_state(m, m->plan.steps ? shoal_state_working : shoal_state_validating,
		m->plan.steps ? "working" : "validating");
	worker_train(m->worker, &m->plan);
}

/* Only who stood at the head when a round closed is sent its records; others had better ask at
 * once. */
static uint64_t patience(const struct member *m)
{
	uint64_t missing = m->target.sequence - m->head.sequence;
	return missing > m->spec->model.n_shards ? 0 : RECORDS_PATIENCE;
}

/* What the ledger asks of us now. */
void member_advance(struct member *m, uint64_t now)
{
	struct standing_record *records;
	size_t n;
	if (!m->started || !m->linked || m->applying)
		return;
	if (m->target.sequence > m->head.sequence) {
		if (inbox_take(&m->inbox, m->head.sequence, m->target.sequence, &records, &n))
			apply(m, records, n, &m->target);
		else if (!m->fetching && !m->retry_set && now - m->target_since_ns > patience(m))
			member_fetch(m, FETCH_records);
		return;
	}
	if (!m->at_head_told)
		report(m);
	if (m->plan_waits && !m->training && hash_equal(&m->plan.parent.hash, &m->head.hash))
		train(m);
}

void member_target(struct member *m, const struct ledger_head *h, uint64_t patience_from)
{
	if (h->sequence <= m->target.sequence && m->target.sequence)
		return;
	m->target = *h;
	m->target_since_ns = patience_from;
}

/* ---- results of the fetch thread */

static void on_fetch_failed(struct member *m, const struct fetch_result *r, uint64_t now)
{
	m->fetching = false;
	if (r->for_good) {
		member_fail(m, &r->why);
		return;
	}
	if (r->job == FETCH_records && r->why.code == ERR_missing) {
		member_repair(m, &r->why);
		return;
	}
	uint64_t wait = backoff_next(&m->backoff);
	m->retry = r->job;
	m->retry_set = true;
	m->retry_at_ns = now + wait;
	member_reason(m, "%s; next try in %.0f s", r->why.text, clock_seconds(wait));
}

static void on_records(struct member *m, struct fetch_result *r, uint64_t now)
{
	member_roster(m, r->roster);
	r->roster = NULL;
	member_target(m, &r->head, now);
	if (r->n_records)
		m->target_since_ns = 0; /* there may be more: no patience needed before asking on */
	for (size_t i = 0; i < r->n_records; i++) {
		struct record record;
		struct why why;
		uint8_t *bytes = (uint8_t *)(uintptr_t)r->records[i].bytes;
		r->records[i].bytes = NULL;
		if (record_open(bytes, r->records[i].len, &record, &why)) {
			free(bytes);
			continue;
		}
		uint64_t sequence = record.entry.sequence;
		record_release(&record);
		(void)!inbox_put(&m->inbox, sequence, bytes, r->records[i].len, m->head.sequence);
	}
}

static void on_fetch(struct member *m, struct fetch_result *r, uint64_t now)
{
	if (r->mail.kind == FETCH_result_failed) {
		on_fetch_failed(m, r, now);
		return;
	}
	if (r->mail.kind == FETCH_result_progress) {
		if (r->total)
			snprintf(m->status.reason, sizeof m->status.reason,
				"fetching from the coordinator: %.1f of %.1f MB",
				(double)r->done / 1e6, (double)r->total / 1e6);
		return;
	}
	m->fetching = false;
	backoff_reset(&m->backoff);
	switch ((enum fetch_result_kind)r->mail.kind) {
	case FETCH_result_joined: on_joined(m, r); break;
	case FETCH_result_data: on_data(m); break;
	case FETCH_result_snapshot: worker_start(m->worker, r->path, &r->head); break;
	case FETCH_result_records: on_records(m, r, now); break;
	case FETCH_result_progress:
	case FETCH_result_failed: break;
	}
}

/* ---- the loop */

static void show(struct member *m, uint64_t now)
{
	if (now - m->shown_ns < SHOW_EVERY)
		return;
	m->shown_ns = now;
	m->status.written_s = clock_wall_s();
	if (m->link) {
		struct link_counters c;
		link_counters(m->link, &c);
		m->status.bytes_down = c.bytes_in;
		m->status.bytes_up = c.bytes_out;
	}
	struct why why;
	if (statusfile_write(m->config->dir, &m->status, &why))
		log_warn(peer, "%s", why.text);
	double share =
		m->spec ? (double)m->plan.ledger_tokens / (double)m->spec->train.total_tokens : 0;
	if (m->progress.tty && m->status.state[0])
		progress_show(&m->progress, share, true,
			"round %llu  step %llu/%llu  loss %.3f  %.0f tokens/s  %s",
			(unsigned long long)m->status.round,
			(unsigned long long)m->status.steps_done,
			(unsigned long long)m->status.steps, m->status.loss, m->status.tokens_per_s,
			m->status.reason[0] ? m->status.reason : m->status.state);
}

static void dispatch(struct member *m, struct mail *mail, uint64_t now)
{
	struct link_event *event = link_event_of(mail);
	if (event) {
		member_link_event(m, event, now);
		link_event_free(event);
	} else if (mail->kind >= FETCH_result_joined) {
		on_fetch(m, (struct fetch_result *)mail, now);
		fetch_result_free((struct fetch_result *)mail);
	} else {
		member_work_result(m, (struct worker_result *)mail, now);
		worker_result_free((struct worker_result *)mail);
	}
}

static void loop(struct member *m)
{
	while (!m->failed && !m->ended && !signal_asked()) {
		struct pollfd fds[] = {{.fd = mailbox_fd(m->mail), .events = POLLIN},
			{.fd = signal_fd(), .events = POLLIN}};
		poll(fds, 2, (int)(TICK / CLOCK_MS));
		uint64_t now = clock_now_ns();
		struct mail *mail;
		while (!m->failed && !m->ended && (mail = mailbox_take(m->mail)))
			dispatch(m, mail, now);
		if (m->retry_set && now >= m->retry_at_ns && !m->fetching)
			member_fetch(m, m->retry);
		member_advance(m, now);
		show(m, now);
	}
}

static void leave(struct member *m)
{
	progress_end(&m->progress);
	if (m->link) {
		shoal_header bye = msg_bye(m->ended ? "the run has ended" : "stopped by its user");
		if (!m->failed)
			link_send(m->link, m->curve, &bye, NULL);
		link_free(m->link); /* sends what is pending first */
	}
	fetch_free(m->fetch);
	worker_free(m->worker);
	mailbox_free(m->mail);
	dataset_release(&m->data);
	inbox_release(&m->inbox);
	roster_free(m->roster);
	roster_free(m->next_roster);
	spec_free(m->spec);
}

enum err member_run(const struct member_config *config, struct why *why)
{
	struct member m = {.config = config, .why = why, .status = {.pid = getpid()}};
	snprintf(m.status.name, sizeof m.status.name, "%s", config->name);
	snprintf(m.status.coordinator, sizeof m.status.coordinator, "%.120s", config->link->host);
	m.mail = mailbox_new();
	inbox_init(&m.inbox);
	uint64_t seed;
	rng_secret(&seed, sizeof seed);
	backoff_init(&m.backoff, seed, CLOCK_SECOND / 2, 30 * CLOCK_SECOND);
	progress_init(&m.progress, 0);
	struct fetch_config how = {.link = config->link,
		.identity = config->identity,
		.dir = config->dir,
		.name = config->name,
		.results = m.mail};
	enum err e = fetch_new(&how, &m.fetch, why);
	if (!e) {
		member_reason(&m, "contacting the coordinator at %s", m.status.coordinator);
		member_fetch(&m, FETCH_join);
		loop(&m);
		e = m.failed  ? m.failed
		    : m.ended ? ERR_OK
			      : err_why(why, ERR_interrupted, "stopped");
	}
	leave(&m);
	return e;
}
