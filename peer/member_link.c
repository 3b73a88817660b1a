#include "peer/member_parts.h"
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "net/signed.h"
#include "round/record.h"

/* ---- messages of the coordinator */

static enum err open_signed(const struct member *m, const struct link_event *e, const char *type,
	json_t **body, struct why *why)
{
	return signed_open(e->payload, e->payload_len, type, m->config->link->key.b, body, why);
}

static void on_plan(struct member *m, const struct link_event *e)
{
	json_t *body = NULL;
	struct why why;
	struct plan plan;
	enum err err = open_signed(m, e, "plan", &body, &why);
	if (!err)
		err = plan_parse(body, &m->spec->id, &plan, &why);
	json_decref(body);
	if (!err && plan.member != m->number)
		err = err_why(&why, ERR_unknown_peer,
			"the plan is for member %u, this is member %u", plan.member, m->number);
	if (err) {
		log_warn(peer, "plan passed over: %s", why.text);
		return;
	}
	bool same = m->plan.round == plan.round && m->plan.steps == plan.steps &&
		    hash_equal(&m->plan.parent.hash, &plan.parent.hash) &&
		    m->plan.n_spans == plan.n_spans &&
		    !memcmp(m->plan.spans, plan.spans, sizeof plan.spans);
	if (same && (m->training || m->pushed))
		return; /* said again after a reconnect */
	if (m->training)
		worker_abandon(m->worker); /* the round was opened anew */
	m->plan = plan;
	m->plan_waits = true;
}

static void on_head(struct member *m, const struct link_event *e, uint64_t now)
{
	json_t *body = NULL;
	struct why why;
	struct ledger_head head;
	enum err err = open_signed(m, e, "head", &body, &why);
	if (!err)
		err = ledger_head_parse(body, &m->spec->id, &head, &why);
	json_decref(body);
	if (err)
		log_warn(peer, "ledger head passed over: %s", why.text);
	else
		member_target(m, &head, now);
}

static void on_roster(struct member *m, const struct link_event *e)
{
	json_t *body = NULL;
	struct why why;
	struct roster *roster = NULL;
	enum err err = open_signed(m, e, "roster", &body, &why);
	if (!err)
		err = roster_parse(body, &m->spec->id, &roster, &why);
	json_decref(body);
	if (err)
		log_warn(peer, "roster passed over: %s", why.text);
	else
		member_roster(m, roster);
}

static void on_refusal(struct member *m, const shoal_refusal *r)
{
	snprintf(m->status.last_refusal, sizeof m->status.last_refusal, "%s: %.200s",
		err_name((enum err)r->code), r->text);
	log_warn(peer, "refused by the coordinator: %s", m->status.last_refusal);
	/* of a hello: this link will not come to anything */
	if (r->kind == MSG_hello) {
		struct why why = {.code = (enum err)r->code};
		snprintf(why.text, sizeof why.text, "%.390s", r->text);
		member_fail(m, &why);
	}
}

static void on_message(struct member *m, const struct link_event *e, uint64_t now)
{
	switch ((enum msg_kind)e->header.which_body) {
	case MSG_plan: on_plan(m, e); break;
	case MSG_head: on_head(m, e, now); break;
	case MSG_roster: on_roster(m, e); break;
	case MSG_refusal: on_refusal(m, &e->header.body.refusal); break;
	case MSG_park:
		member_reason(m, "parked by the coordinator: %s", e->header.body.park.reason);
		member_state(m, shoal_state_parked, "parked");
		break;
	case MSG_end:
		member_reason(m, "the run has ended: %s", e->header.body.end.reason);
		m->ended = true;
		break;
	default: break; /* a newer coordinator may say more */
	}
}

static void on_object(struct member *m, struct link_event *e)
{
	struct record record;
	struct why why;
	if (e->object_kind != MEMBER_RECORD) {
		link_answer(m->link, e->key, e->ref, ERR_unsupported, "a peer takes records only");
		return;
	}
	enum err err = record_open(e->payload, e->payload_len, &record, &why);
	link_answer(m->link, e->key, e->ref, err, err ? why.text : NULL);
	if (err)
		return;
	uint64_t sequence = record.entry.sequence;
	record_release(&record);
	(void)!inbox_put(&m->inbox, sequence, e->payload, e->payload_len, m->head.sequence);
	e->payload = NULL;
}

static void on_connected(struct member *m, const shoal_welcome *w, uint64_t now)
{
	struct ledger_head theirs = {.sequence = w->sequence, .round = w->round};
	memcpy(theirs.hash.b, w->head, sizeof theirs.hash.b);
	m->linked = true;
	m->at_head_told = false;
	m->status.reason[0] = 0;
	log_at(peer, 1, "linked with the coordinator at %s", m->address);
	/* The welcome is no signed head: it only tells that there is something to fetch. */
	if (theirs.sequence > m->head.sequence && theirs.sequence > m->target.sequence &&
		!m->fetching)
		member_fetch(m, FETCH_records);
	else if (m->target.sequence < m->head.sequence)
		member_target(m, &m->head, now);
}

void member_link_event(struct member *m, struct link_event *e, uint64_t now)
{
	switch ((enum link_event_kind)e->mail.kind) {
	case LINK_connected: on_connected(m, &e->header.body.welcome, now); break;
	case LINK_lost:
		m->linked = false;
		member_reason(m, "the link to the coordinator is down: %s", e->why.text);
		break;
	case LINK_waiting:
		member_reason(m, "no link to the coordinator: %s; next try in %.0f s", e->why.text,
			clock_seconds(e->wait_ns));
		break;
	case LINK_message: on_message(m, e, now); break;
	case LINK_object: on_object(m, e); break;
	case LINK_delivered:
		m->status.bytes_up += e->size;
		if (m->pushed && !--m->pushed)
			member_reason(m,
				"round %llu: contribution delivered, waiting for the others",
				(unsigned long long)m->status.round);
		break;
	case LINK_declined:
		snprintf(m->status.last_refusal, sizeof m->status.last_refusal, "%s: %.200s",
			err_name(e->why.code), e->why.text);
		log_warn(peer, "contribution refused: %s", m->status.last_refusal);
		if (m->pushed)
			m->pushed--;
		break;
	case LINK_clone: {
		struct why why;
		(void)err_why(&why, ERR_duplicate,
			"another process uses this peer's key: was the folder %s copied?  Use a "
			"folder of its own for each peer",
			m->config->dir);
		member_fail(m, &why);
		break;
	}
	}
}
