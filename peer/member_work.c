#include <string.h>
#include "base/clock.h"
#include "base/rng.h"
#include "base/trace.h"
#include "peer/member_parts.h"

/* Sent, unless the round was closed while it was cut: then it travels with the next one. */
static void on_contribution(struct member *m, struct worker_result *r)
{
	m->cut_bytes += r->len;
	if (r->round != m->head.round + 1 || m->applying || !m->link)
		return;
	member_send(m, r->shard, r->bytes, r->len);
	r->bytes = NULL;
}

static void on_validated(struct member *m, const struct worker_result *r)
{
	shoal_header h = {.which_body = MSG_validation};
	h.body.validation.round = r->round;
	h.body.validation.nats_per_token = r->validation.per_token;
	h.body.validation.nats_per_byte = r->validation.per_byte;
	h.body.validation.tokens = r->validation.tokens;
	if (m->link)
		link_send(m->link, m->curve, &h, NULL);
	member_log(m, 1, "round %llu: validation loss %.4f nats per byte",
		(unsigned long long)r->round, r->validation.per_byte);
}

static void take_place(struct member *m, const struct worker_result *r)
{
	m->head = r->head;
	m->state = r->state;
	m->reported = false;
	m->status.tokens = r->listed;
	if (m->target.sequence < m->head.sequence)
		m->target = m->head;
}

/* The worker has let go of the roster. */
static void end_apply(struct member *m)
{
	m->applying = false;
	if (!m->next_roster)
		return;
	roster_free(m->roster);
	m->roster = m->next_roster;
	m->next_roster = NULL;
}

static void on_applied(struct member *m, const struct worker_result *r)
{
	end_apply(m);
	take_place(m, r);
	if (!r->confirmed)
		return; /* a piece of the way */
	m->repairs = 0;
	backoff_reset(&m->mending);
	if (r->delay_ns) {
		m->status.delay_s = clock_seconds(r->delay_ns);
		m->delay_round = r->head.round;
	}
	trace_event("standing", "{s:I, s:I}", "round", (json_int_t)m->head.round, "entry",
		(json_int_t)m->head.sequence);
	member_shelf_reached(m);
	member_hello(m, false);
	member_log(m, 3, "ledger entry %llu applied", (unsigned long long)m->head.sequence);
}

/* What this peer takes from the coordinator, and from members that it has opened a link to. */
static size_t taken_kinds(const struct member *m, struct transfer_kind *out)
{
	const struct transfer_kind kinds[] = {{OBJECT_record, INBOX_BYTES},
		{OBJECT_chain, OBJECT_PIECE}, {OBJECT_update, INBOX_BYTES},
		{OBJECT_entry, LEDGER_ENTRY_MAX}, {OBJECT_bundle, INBOX_BYTES},
		{OBJECT_contribution, member_aggregate_most(m)}};
	memcpy(out, kinds, sizeof kinds);
	return sizeof kinds / sizeof *kinds;
}

static void on_started(struct member *m, const struct worker_result *r)
{
	struct why why;
	m->started = true;
	take_place(m, r);
	fetch_forget(m->fetch);
	member_log(m, 1, "standing at ledger entry %llu, round %llu",
		(unsigned long long)m->head.sequence, (unsigned long long)m->head.round);
	if (m->link) {
		member_hello(m, false);
		return;
	}
	struct link_config how;
	link_config_init(&how);
	how.role = LINK_peer;
	memcpy(how.public_key, m->config->identity->curve.public_key, sizeof how.public_key);
	memcpy(how.secret_key, m->config->identity->curve.secret_key, sizeof how.secret_key);
	how.events = m->mail;
	how.proxy = m->config->proxy;
	how.traffic = m->config->traffic;
	how.send_bytes_per_s = (double)m->config->max_up / 8;
	how.send_delay_ns = m->config->send_delay_ns;
	how.retry_most_ns = MEMBER_RETRY_MOST;
	rng_secret(&how.seed, sizeof how.seed);
	how.n_kinds = taken_kinds(m, how.kinds);
	if (link_new(&how, &m->link, &why)) {
		member_fail(m, &why);
		return;
	}
	snprintf(m->unlinked_why, sizeof m->unlinked_why, "connecting to %.200s", m->address);
	member_hello(m, true);
}

static void on_start_failed(struct member *m, const struct why *why)
{
	if (why->code == ERR_wrong_run) {
		member_fail(m, why); /* somebody else's states are not written over */
	} else if (why->code == ERR_missing && !m->fresh) {
		m->fresh = true;
		member_fetch(m, FETCH_snapshot);
	} else {
		member_repair(m, why, false);
	}
}

static void on_failed(struct member *m, const struct worker_result *r)
{
	switch (r->job) {
	case WORKER_job_start: on_start_failed(m, &r->why); break;
	case WORKER_job_train:
	case WORKER_job_follow:
		m->training = false;
		member_repair(m, &r->why, true);
		break;
	case WORKER_job_apply:
		end_apply(m);
		member_repair(m, &r->why, true); /* fetches records and roster anew */
		break;
	case WORKER_job_applied:
	case WORKER_job_stop: break;
	}
}

static void figures(struct member *m, const struct worker_result *r)
{
	if (!r->steps)
		return; /* given up, or answered before */
	m->status.steps_done = r->steps;
	m->status.tokens_per_s = r->tokens_per_s;
	m->status.loss = r->loss;
}

void member_work_result(struct member *m, struct worker_result *r)
{
	switch ((enum worker_result_kind)r->mail.kind) {
	case WORKER_started: on_started(m, r); break;
	case WORKER_progress: figures(m, r); break;
	case WORKER_contribution: on_contribution(m, r); break;
	case WORKER_cut:
		figures(m, r);
		member_rate_cut(m);
		break;
	case WORKER_starved:
		figures(m, r);
		m->starved = true;
		break;
	case WORKER_trained:
		m->training = false;
		figures(m, r);
		if (r->steps)
			member_rate_cut(m);
		break;
	case WORKER_validated: on_validated(m, r); break;
	case WORKER_applied: on_applied(m, r); break;
	case WORKER_failed: on_failed(m, r); break;
	}
}
