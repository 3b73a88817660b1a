#include "peer/member_parts.h"
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"

/* ---- results of the worker */

static void on_contribution(struct member *m, struct worker_result *r)
{
	struct shared *bytes = shared_new(r->bytes, r->len);
	struct link_object object = {.kind = MEMBER_CONTRIBUTION, .bytes = bytes};
	r->bytes = NULL;
	link_push(m->link, m->curve, &object);
	shared_drop(bytes);
	m->pushed++;
	member_reason(m, "round %llu: sending the contribution", (unsigned long long)r->round);
	member_state(m, shoal_state_sending, "sending");
}

static void on_validated(struct member *m, const struct worker_result *r)
{
	shoal_header h = {.which_body = MSG_validation};
	h.body.validation.round = r->round;
	h.body.validation.nats_per_token = r->validation.per_token;
	h.body.validation.nats_per_byte = r->validation.per_byte;
	h.body.validation.tokens = r->validation.tokens;
	link_send(m->link, m->curve, &h, NULL);
	log_at(peer, 1, "round %llu: validation loss %.4f nats per byte",
		(unsigned long long)r->round, r->validation.per_byte);
}

static void on_applied(struct member *m, const struct worker_result *r, uint64_t now)
{
	m->applying = false;
	m->repairs = 0;
	m->pushed = 0;
	m->status.tokens = r->listed;
	m->head = r->head;
	m->state = r->state;
	m->at_head_told = false;
	m->status.sequence = m->head.sequence;
	if (m->next_roster) {
		roster_free(m->roster);
		m->roster = m->next_roster;
		m->next_roster = NULL;
	}
	if (m->link)
		member_hello(m, false);
	log_at(peer, 3, "ledger entry %llu applied", (unsigned long long)m->head.sequence);
	member_advance(m, now);
}

static void on_started(struct member *m, const struct worker_result *r)
{
	m->started = true;
	m->head = r->head;
	m->state = r->state;
	m->status.sequence = m->head.sequence;
	m->at_head_told = false;
	if (m->target.sequence < m->head.sequence)
		m->target = m->head;
	log_at(peer, 1, "standing at ledger entry %llu, round %llu",
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
	rng_secret(&how.seed, sizeof how.seed);
	how.kinds[0] = (struct transfer_kind){.kind = MEMBER_RECORD, .size_most = INBOX_BYTES};
	how.n_kinds = 1;
	struct why why;
	if (link_new(&how, &m->link, &why)) {
		member_fail(m, &why);
		return;
	}
	member_hello(m, true);
	member_state(m, shoal_state_syncing, "syncing");
	member_reason(m, "connecting to %s", m->address);
}

static void on_worker_failed(struct member *m, const struct worker_result *r)
{
	switch (r->job) {
	case WORKER_job_start:
		if (r->why.code == ERR_missing && !m->repairs)
			member_fetch(m, FETCH_snapshot); /* a fresh start */
		else
			member_repair(m, &r->why);
		break;
	case WORKER_job_train:
		m->training = false;
		member_repair(m, &r->why);
		break;
	case WORKER_job_apply:
		m->applying = false;
		member_repair(m, &r->why);
		break;
	case WORKER_job_stop: break;
	}
}

static void figures(struct member *m, const struct worker_result *r)
{
	m->status.steps_done = r->steps;
	m->status.tokens_per_s = r->tokens_per_s;
	m->status.loss = r->loss;
}

void member_work_result(struct member *m, struct worker_result *r, uint64_t now)
{
	switch ((enum worker_result_kind)r->mail.kind) {
	case WORKER_started: on_started(m, r); break;
	case WORKER_progress:
		figures(m, r);
		member_state(m, shoal_state_working, "working");
		break;
	case WORKER_contribution: on_contribution(m, r); break;
	case WORKER_trained:
		m->training = false;
		if (r->steps) {
			figures(m, r);
			member_state(m, shoal_state_sending, "sending");
		}
		break;
	case WORKER_validated: on_validated(m, r); break;
	case WORKER_applied: on_applied(m, r, now); break;
	case WORKER_failed: on_worker_failed(m, r); break;
	}
}
