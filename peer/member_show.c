#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/text.h"
#include "peer/member_parts.h"

#define SHOW_EVERY CLOCK_SECOND
/* A reason that lasts is told in the log without being asked for. */
#define TELL_AFTER (3 * CLOCK_SECOND)

typedef unsigned long long ull;

/* What the peer does, and why nothing happens where nothing does. */
struct shown {
	shoal_state state;
	const char *name;
	char reason[STATUSFILE_TEXT];
};

static void say(struct shown *v, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void say(struct shown *v, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(v->reason, sizeof v->reason, fmt, args);
	va_end(args);
	text_clean(v->reason);
}

static void set(struct shown *v, shoal_state state, const char *name)
{
	v->state = state;
	v->name = name;
}

/* Before the first link, and while the own state is made anew. */
static void show_start(const struct member *m, struct shown *v)
{
	set(v, shoal_state_syncing, m->joined ? "syncing" : "joining");
	if (m->retry_why[0]) /* also while the next try runs: it may take as long as the wait */
		say(v, "%s", m->retry_why);
	else if (!m->joined)
		say(v, "contacting the coordinator at %s", m->status.coordinator);
	else if (m->fetching)
		say(v, "fetching %s from the coordinator%s", m->worker ? "a snapshot" : "the data",
			m->fetched);
	else
		say(v, "loading the model's state");
}

static void show_behind(const struct member *m, struct shown *v)
{
	set(v, shoal_state_syncing, "syncing");
	if (m->retry_why[0])
		say(v, "%s", m->retry_why);
	else if (m->fetching)
		say(v, "fetching ledger entries after %llu%s", (ull)m->head.sequence, m->fetched);
	else
		say(v, "ledger entries %llu to %llu are on their way", (ull)m->head.sequence + 1,
			(ull)m->target.sequence);
}

/* A run that waits for more members is the usual cause, and the peer cannot see them. */
static const char *company(const struct member *m, char out[static 40])
{
	uint32_t least = m->spec->round.peers_min;
	snprintf(out, 40, ", which takes %u peers", least);
	return least > 1 ? out : "";
}

/* At the head, with nothing to compute. */
static void show_waiting(const struct member *m, struct shown *v)
{
	const uint32_t shards = m->spec->model.n_shards,
		       due = turns_shards(&m->spec->round, m->plan.round, shards);
	uint32_t sending = 0;
	char several[40];
	for (uint32_t i = 0; i < shards; i++)
		sending += m->pushes[i] != 0;
	set(v, shoal_state_ready, "ready");
	if (sending) {
		set(v, shoal_state_sending, "sending");
		say(v, "round %llu: sending the contribution, %u of %u shards are delivered",
			(ull)m->plan.round, m->delivered, due);
	} else if (m->refused) {
		say(v, "round %llu: the contribution was refused (%.120s)%s", (ull)m->plan.round,
			m->status.last_refusal, m->again_ns ? "" : ", waiting for the next");
	} else if (m->delivered) {
		say(v, "round %llu: contribution delivered, waiting for the others",
			(ull)m->plan.round);
	} else if (m->parked) {
		set(v, shoal_state_parked, "parked");
		say(v, "parked by the coordinator: %s", m->parked_why);
	} else {
		say(v, "at ledger entry %llu, waiting for the coordinator to open a round%s",
			(ull)m->head.sequence, company(m, several));
	}
}

static void derive(const struct member *m, struct shown *v)
{
	*v = (struct shown){0};
	if (m->ended) {
		set(v, shoal_state_ready, "ended");
		say(v, "the run has ended");
	} else if (!m->started) {
		show_start(m, v);
	} else if (m->applying && !(m->training && m->spec->round.overlap)) {
		set(v, shoal_state_applying, "applying");
	} else if (m->training && !m->starved) {
		bool working = m->plan.steps > 0;
		set(v, working ? shoal_state_working : shoal_state_validating,
			working ? "working" : "validating");
		if (!m->linked)
			say(v, "working on without a link: %.200s", m->unlinked_why);
	} else if (!m->linked) {
		set(v, shoal_state_syncing, "syncing");
		say(v, "%sno link to the coordinator: %.180s",
			m->starved ? "all data that was given ahead is trained on, and " : "",
			m->unlinked_why);
	} else if (m->ahead || m->target.sequence > m->head.sequence) {
		show_behind(m, v);
	} else {
		show_waiting(m, v);
	}
}

static void beat(struct member *m, const struct shown *v)
{
	shoal_heartbeat h = {.state = v->state,
		.round = m->status.round,
		.steps_done = (uint32_t)m->status.steps_done,
		.steps = (uint32_t)m->status.steps,
		.tokens = m->spec ? m->status.steps_done * spec_step_tokens(m->spec) : 0,
		.tokens_per_s = (float)m->status.tokens_per_s,
		.delay_round = m->delay_round,
		.delay_s = (float)m->status.delay_s,
		.loss = (float)m->status.loss,
		.given = give_bytes(m->give),
		.taken = m->taken};
	snprintf(h.reason, sizeof h.reason, "%.199s", v->reason);
	text_clean(h.reason);
	if (!m->link || !memcmp(&h, &m->heartbeat, sizeof h))
		return;
	m->heartbeat = h;
	link_status(m->link, &h);
}

/* But for when the next try is. */
static bool same_cause(const char *a, const char *b)
{
	const char *end_a = strstr(a, MEMBER_NEXT_TRY), *end_b = strstr(b, MEMBER_NEXT_TRY);
	const size_t n = end_a ? (size_t)(end_a - a) : strlen(a);
	return n == (end_b ? (size_t)(end_b - b) : strlen(b)) && !memcmp(a, b, n);
}

/* A reason is told at level 3 when it arises, and to everybody when it lasts. */
static void tell_reason(struct member *m, const struct shown *v, uint64_t now)
{
	if (strcmp(v->reason, m->status.reason) != 0) {
		if (!same_cause(v->reason, m->status.reason)) {
			m->reason_since_ns = now;
			m->reason_logged = !v->reason[0] || log_wants(LOG_peer, 3);
		}
		memcpy(m->status.reason, v->reason, sizeof m->status.reason);
		m->shown_ns = 0; /* status.json has it at once */
		if (v->reason[0])
			member_log(m, 3, "%s", v->reason);
	}
	if (m->reason_logged || now - m->reason_since_ns < TELL_AFTER)
		return;
	member_log(m, 1, "%s", v->reason);
	m->reason_logged = true;
}

static void write_status(struct member *m)
{
	struct why why;
	m->status.written_s = clock_wall_s();
	if (m->link) {
		struct link_counters c;
		link_counters(m->link, &c);
		m->status.bytes_down = c.bytes_in;
		m->status.bytes_up = c.bytes_out;
	}
	m->status.given = give_bytes(m->give);
	m->status.taken = m->taken;
	bool failed = statusfile_write(m->config->dir, &m->status, &why) != ERR_OK;
	if (failed && !m->status_failed)
		member_warn(m, "%s", why.text);
	m->status_failed = failed;
}

static void show_progress(struct member *m)
{
	double share =
		m->spec ? (double)m->plan.ledger_tokens / (double)m->spec->train.total_tokens : 0;
	if (m->status.reason[0])
		progress_show(&m->progress, share, true, "%s", m->status.reason);
	else
		progress_show(&m->progress, share, true,
			"round %llu  %s  step %llu of %llu  loss %.3f  %.0f tokens/s",
			(ull)m->status.round, m->status.state, (ull)m->status.steps_done,
			(ull)m->status.steps, m->status.loss, m->status.tokens_per_s);
}

static void show_place(struct member *m)
{
	m->status.sequence = m->head.sequence;
	m->status.state_round = m->head.round;
	if (m->started)
		hash_hex(&m->state, m->status.state_hash);
	else
		m->status.state_hash[0] = 0;
}

void member_show(struct member *m, uint64_t now)
{
	struct shown v;
	derive(m, &v);
	snprintf(m->status.state, sizeof m->status.state, "%s", v.name);
	show_place(m);
	beat(m, &v);
	tell_reason(m, &v, now);
	if (now - m->shown_ns < SHOW_EVERY)
		return;
	m->shown_ns = now;
	write_status(m);
	if (m->progress.tty)
		show_progress(m);
}
