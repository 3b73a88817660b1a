#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "net/signed.h"
#include "peer/member_parts.h"
#include "round/record.h"

#define UNKNOWN_MOST 3 /* attempts refused as not on the roster */
#define LOST_AFTER 3   /* attempts without a welcome: is it where it was, with the same key? */

/* ---- messages of the coordinator */

static enum err open_signed(const struct member *m, const struct link_event *e, const char *type,
	json_t **body, struct why *why)
{
	return signed_open(e->payload, e->payload_len, type, m->config->link->key.b, body, why);
}

static bool same_peers(const struct plan_peer *a, const struct plan_peer *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (a[i].member != b[i].member || strcmp(a[i].address, b[i].address) != 0)
			return false;
	return true;
}

/* Who takes the contributions and sends the updates. */
static bool same_ways(const struct plan *a, const struct plan *b)
{
	return a->n_aggregators == b->n_aggregators && a->n_sources == b->n_sources &&
	       !memcmp(a->aggregator, b->aggregator, sizeof a->aggregator) &&
	       same_peers(a->aggregators, b->aggregators, a->n_aggregators) &&
	       same_peers(a->sources, b->sources, a->n_sources);
}

static bool same_plan(const struct plan *a, const struct plan *b)
{
	return a->round == b->round && a->steps == b->steps &&
	       hash_equal(&a->parent.hash, &b->parent.hash) && a->n_spans == b->n_spans &&
	       !memcmp(a->spans, b->spans, sizeof a->spans);
}

/* Aggregators and sources of the plan that was just taken. */
static void take_ways(struct member *m, uint64_t now)
{
	member_aggregate_plan(m);
	member_mesh_plan(m, now);
	member_send_again(m, now);
}

static void on_plan(struct member *m, const struct link_event *e, uint64_t now)
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
		member_warn(m, "plan passed over: %s", why.text);
		return;
	}
	if (!m->plan.round)
		progress_init(&m->progress,
			(double)plan.ledger_tokens / (double)m->spec->train.total_tokens);
	bool same = same_plan(&m->plan, &plan);
	if (same && !same_ways(&m->plan, &plan)) { /* training goes on undisturbed */
		m->plan = plan;
		take_ways(m, now);
		return;
	}
	/* Said again after a reconnect.  Where rounds overlap the answer may have been on its way.
	 */
	if (same && m->training && !m->spec->round.overlap)
		return;
	if (!same && !m->spec->round.overlap) { /* the round was opened anew */
		worker_abandon(m->worker);
		member_send_end(m);
	}
	m->plan = plan;
	m->plan_waits = true;
	take_ways(m, now);
}

/* Two heads that the run key signed contradict each other: nobody can say which one counts. */
static void forked(struct member *m, const struct ledger_head *theirs)
{
	struct why why;
	char a[HASH_HEX], b[HASH_HEX];
	hash_hex(&m->head.hash, a);
	hash_hex(&theirs->hash, b);
	err_why(&why, ERR_fork,
		"the coordinator's ledger is not the one that this peer follows: entry %llu is "
		"%.12s here and "
		"%.12s there; was an old copy of the run's folder started?",
		(unsigned long long)theirs->sequence, a, b);
	member_fail(m, &why);
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
	if (!err)
		member_shelf_document(m, e, &head);
	if (err)
		member_warn(m, "ledger head passed over: %s", why.text);
	else if (head.sequence == m->head.sequence && !hash_equal(&head.hash, &m->head.hash))
		forked(m, &head);
	else if (head.sequence <= m->head.sequence)
		m->reported = false; /* said again because our report did not arrive */
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
		member_warn(m, "roster passed over: %s", why.text);
	if (err)
		return;
	member_shelf_document(m, e, NULL);
	member_roster(m, roster);
}

void member_link_refusal(struct member *m, enum err code, const char *what, const char *text)
{
	snprintf(m->status.last_refusal, sizeof m->status.last_refusal, "%s: %.200s",
		err_name(code), text);
	member_warn(m, "%s was refused: %s", what, m->status.last_refusal);
}

static void on_refusal(struct member *m, const shoal_refusal *r)
{
	struct why why;
	if (r->kind == MSG_want) { /* older entries that nobody keeps, or records that are many */
		if (m->wanted && !m->fetching && !m->retry_set)
			member_fetch(m, FETCH_records);
		m->wanted = 0;
		return;
	}
	member_link_refusal(m, (enum err)r->code, "a report", r->text);
	(void)err_why(&why, (enum err)r->code, "%s", r->text);
	if (r->code == ERR_hash && m->started && !m->applying)
		member_repair(m, &why, false); /* this replica has drifted */
}

static void on_end(struct member *m, uint64_t now)
{
	if (m->ended)
		return;
	m->ended = true;
	m->ended_ns = now;
	m->plan_waits = false;
	worker_abandon(m->worker);
	member_send_end(m);
}

static void on_want(struct member *m, const struct link_event *e)
{
	const shoal_want *w = &e->header.body.want;
	if (w->kind == OBJECT_bundle)
		member_aggregate_bundle(m, m->curve, w->offset,
			w->name[0] | (uint32_t)w->name[1] << 8 | (uint32_t)w->name[2] << 16 |
				(uint32_t)w->name[3] << 24);
	else
		member_shelf_want(m, e);
}

static void on_message(struct member *m, const struct link_event *e, uint64_t now)
{
	switch ((enum msg_kind)e->header.which_body) {
	case MSG_plan: on_plan(m, e, now); break;
	case MSG_head: on_head(m, e, now); break;
	case MSG_roster: on_roster(m, e); break;
	case MSG_refusal: on_refusal(m, &e->header.body.refusal); break;
	case MSG_park:
		m->parked = true;
		snprintf(m->parked_why, sizeof m->parked_why, "%s", e->header.body.park.reason);
		break;
	case MSG_end: on_end(m, now); break;
	case MSG_want: on_want(m, e); break;
	case MSG_gather: member_aggregate_gather(m, e); break;
	case MSG_witness: member_aggregate_witness(m, e); break;
	case MSG_probe: member_mesh_probe(m, e, now); break;
	default: break; /* a newer coordinator may say more */
	}
}

/* ---- objects, both ways */

static void on_record(struct member *m, struct link_event *e)
{
	struct record record;
	struct why why;
	enum err err = record_open(e->payload, e->payload_len, &record, &why);
	link_answer(m->link, e->key, e->ref, err, err ? why.text : NULL);
	if (err)
		return;
	m->rate.peers = record.entry.count;
	uint64_t sequence = record.entry.sequence;
	record_release(&record);
	member_shelf_record(m, e->payload, e->payload_len);
	/* What finds no room, or is there already, is not missed. */
	(void)!inbox_put(&m->inbox, sequence, e->payload, e->payload_len, m->head.sequence);
	e->payload = NULL;
}

static void on_object(struct member *m, struct link_event *e)
{
	switch (e->object_kind) {
	case OBJECT_record: on_record(m, e); break;
	case OBJECT_chain: member_shelf_chain(m, e); break;
	case OBJECT_entry: member_update_object(m, e); break;
	case OBJECT_contribution:
		member_aggregate_contribution(m, e->key, e->ref, e->payload, e->payload_len);
		e->payload = NULL;
		break;
	default: link_answer(m->link, e->key, e->ref, ERR_refused, "this was not asked for");
	}
}

/* ---- the link */

/* The welcome is no signed head: it only tells that there is something to fetch. */
static void on_connected(struct member *m, const shoal_welcome *w)
{
	m->linked = true;
	m->reported = false;
	m->unknown = 0;
	m->attempts = 0;
	if (m->retry_set && m->retry == FETCH_join)
		m->retry_set = false; /* it is where it was */
	m->retry_at_ns = 0;           /* who answers here answers there */
	/* What was signed and is with nobody any more is not waited for. */
	if (w->sequence >= m->head.sequence && w->sequence < m->target.sequence)
		m->target = m->head;
	m->ahead = w->sequence > m->head.sequence && w->sequence > m->target.sequence;
	m->target_since_ns = 0; /* what was before the link is not sent */
	const struct proxy *proxy = m->config->proxy;
	member_log(m, 1, "linked with the coordinator at %s%s%s", m->address,
		proxy ? " through the proxy " : "", proxy ? proxy->shown : "");
}

/* The hello was refused for a cause that does not pass.  A key that is not on the roster may be so
 * new that the links do not know it yet. */
static bool for_good(struct member *m, enum err code)
{
	switch (code) {
	case ERR_fork:
	case ERR_wrong_run:
	case ERR_version:
	case ERR_exists: return true;
	case ERR_unknown_peer: return ++m->unknown == UNKNOWN_MOST;
	default: return false;
	}
}

static void unlinked(struct member *m, const struct link_event *e)
{
	if (m->linked)
		member_log(m, 1, "the link to the coordinator is down: %s", e->why.text);
	m->linked = false;
	m->wanted = 0;
	if (e->mail.kind == LINK_lost) {
		snprintf(m->unlinked_why, sizeof m->unlinked_why, "%.250s", e->why.text);
		return;
	}
	char text[24];
	clock_text(e->wait_ns, text);
	snprintf(m->unlinked_why, sizeof m->unlinked_why, "%.200s%s%s", e->why.text,
		MEMBER_NEXT_TRY, text);
	if (for_good(m, e->why.code))
		member_fail(m, &e->why);
	else if (++m->attempts % LOST_AFTER == 0 && !m->fetching && !m->retry_set)
		member_fetch(m, FETCH_join);
}

void member_link_event(struct member *m, struct link_event *e, uint64_t now)
{
	struct member_mesh *other = member_mesh_find(m, e->key);
	if (other) {
		member_mesh_event(m, other, e, now);
		return;
	}
	if (memcmp(e->key, m->curve, LINK_KEY) != 0)
		return; /* of a link that was ended meanwhile */
	switch ((enum link_event_kind)e->mail.kind) {
	case LINK_connected: on_connected(m, &e->header.body.welcome); break;
	case LINK_lost:
	case LINK_waiting: unlinked(m, e); break;
	case LINK_message: on_message(m, e, now); break;
	case LINK_object:
		member_rate_object(m, e, now);
		on_object(m, e);
		break;
	case LINK_delivered:
		member_rate_object(m, e, now);
		member_send_answered(m, e, now);
		break;
	case LINK_declined: member_send_answered(m, e, now); break;
	case LINK_clone: break; /* the coordinator hears of those, and refuses */
	}
}
