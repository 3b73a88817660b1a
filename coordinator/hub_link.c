#include "coordinator/hub_link.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "coordinator/hub_completion.h"
#include "coordinator/hub_distance.h"
#include "coordinator/hub_gate.h"
#include "coordinator/hub_gather.h"
#include "coordinator/hub_receipt.h"
#include "coordinator/hub_round.h"
#include "coordinator/hub_topology.h"
#include "coordinator/hub_want.h"
#include "net/signed.h"
#include "round/object.h"
#include "round/turns.h"

#define NUDGE (2 * CLOCK_SECOND) /* both sides idle for so long */
#define RATE_LEAST 16384         /* bytes of an object from which a rate is taken */
#define LOSS_MOST 1000.0         /* nats; a uniform guess over 2^20 tokens has 14 */

/* ---- saying */

static const uint8_t *key_of(const struct hub *h, uint32_t number)
{
	return members_at(h->run.members, number)->curve;
}

/* A signed document as payload of header, to one linked member. */
static void say_document(
	struct hub *h, uint32_t number, const shoal_header *header, const char *text)
{
	size_t n = strlen(text);
	if (n > MSG_PAYLOAD_MAX || !hub_member(h, number)->linked)
		return; /* a roster that large is fetched by HTTPS */
	struct shared *bytes = shared_copy(text, n);
	link_send(h->link, key_of(h, number), header, bytes);
	shared_drop(bytes);
}

void hub_link_roster(struct hub *h, uint32_t number)
{
	shoal_header header = {.which_body = MSG_roster};
	header.body.roster.version = roster_version(members_roster(h->run.members));
	say_document(h, number, &header, members_text(h->run.members));
}

void hub_link_head(struct hub *h, uint32_t number)
{
	struct ledger_head head = run_head(&h->run);
	shoal_header header = {.which_body = MSG_head};
	header.body.head.round = head.round;
	header.body.head.sequence = head.sequence;
	say_document(h, number, &header, h->run.head_text);
}

void hub_link_end(struct hub *h, uint32_t number)
{
	shoal_header header = {.which_body = MSG_end};
	snprintf(header.body.end.reason, sizeof header.body.end.reason,
		"all %llu tokens of the run are trained",
		(unsigned long long)h->run.spec->train.total_tokens);
	link_send(h->link, key_of(h, number), &header, NULL);
}

void hub_link_plan(struct hub *h, uint32_t number)
{
	hub_roster_settle(h, clock_now_ns());
	const struct rounds_member *m = rounds_ask_member(h->rounds, number);
	struct plan p = {.run = h->run.spec->id,
		.round = rounds_ask_round(h->rounds),
		.parent = run_head(&h->run),
		.member = number,
		.ledger_tokens = ledger_tokens(h->run.ledger),
		.validate = number == h->validator && h->validates == run_head(&h->run).round};
	if (m->assigned) {
		p.steps = m->steps;
		p.seconds = h->run.spec->round.mode == SPEC_timed ? m->seconds : 0;
		p.n_spans = m->n_spans;
		memcpy(p.spans, m->spans, sizeof p.spans);
		memcpy(p.listed, m->listed, sizeof p.listed);
		p.planned_tokens = rounds_ask_planned_tokens(h->rounds);
		hub_topology_fill(h, number, &p);
	} else {
		plan_star(&p);
	}
	json_t *body = plan_json(&p);
	char *text = signed_make("plan", body, h->run.keys.run);
	shoal_header header = {.which_body = MSG_plan};
	header.body.plan.round = p.round;
	say_document(h, number, &header, text);
	free(text);
	json_decref(body);
}

void hub_link_refusal(struct hub *h, uint32_t number, const struct hub_refused *r, enum err code,
	const char *text)
{
	shoal_header header = msg_refusal(0, code, text);
	header.body.refusal.round = r->round;
	header.body.refusal.shard = r->shard;
	link_send(h->link, key_of(h, number), &header, NULL);
}

static bool is_owed(const struct hub_member *m, uint64_t ref)
{
	uint32_t i = 0;
	while (i < m->n_owed && m->owed[i].ref != ref)
		i++;
	return i < m->n_owed;
}

/* What it asked for stays on the way: the same record is the same object. */
static void cancel_round(struct hub *h, uint32_t number)
{
	struct hub_member *m = hub_member(h, number);
	for (uint32_t i = 0; m->pushed && i < h->run.files.n_shards; i++) {
		if (m->pushed[i] && !is_owed(m, m->pushed[i]))
			link_cancel(h->link, key_of(h, number), m->pushed[i]);
		m->pushed[i] = 0;
	}
}

void hub_link_cancel(struct hub *h, uint32_t number)
{
	struct hub_member *m = hub_member(h, number);
	cancel_round(h, number);
	while (m->n_owed)
		link_cancel(h->link, key_of(h, number), m->owed[--m->n_owed].ref);
}

bool hub_link_sending(struct hub *h, uint32_t number)
{
	const struct hub_member *m = hub_member(h, number);
	bool sending = false;
	for (uint32_t i = 0; i < h->run.files.n_shards; i++)
		sending |= m->pushed[i] != 0;
	return sending;
}

/* Whether it gets the update from other members, and the entry behind it. */
static bool is_passed_on(struct hub *h, uint32_t number, const struct desk_close *c, uint32_t shard)
{
	const uint32_t by = c->made[shard].have ? c->made[shard].by : MEMBERS_NONE;
	return by < h->n_members && h->members[by].linked &&
	       (by == number || hub_topology_follows(h, number));
}

void hub_link_records(struct hub *h, uint32_t number, const struct desk_close *c)
{
	struct hub_member *m = hub_member(h, number);
	cancel_round(h, number);
	for (uint32_t i = 0; i < c->n_shards; i++) {
		const struct link_object o = {.kind = OBJECT_record, .bytes = c->out[i].record};
		if (shared_len(c->out[i].record) <= HUB_PUSH_MOST && !is_passed_on(h, number, c, i))
			m->pushed[i] = link_push(h->link, key_of(h, number), &o);
	}
}

void hub_link_entry(struct hub *h, uint32_t number, const struct ledger_entry *e)
{
	struct buf b, meta;
	size_t n;
	buf_init(&b, LEDGER_ENTRY_MAX);
	if (ledger_entry_encode(e, &b)) { /* who misses it asks for the record */
		buf_release(&b);
		return;
	}
	buf_init(&meta, TRANSFER_META);
	buf_put_u64(&meta, e->round);
	buf_put_u32(&meta, e->shard);
	uint8_t *bytes = buf_steal(&b, &n);
	struct shared *shared = shared_new(bytes, n);
	const struct link_object o = {
		.kind = OBJECT_entry, .bytes = shared, .meta = meta.data, .meta_len = meta.len};
	(void)link_push(h->link, key_of(h, number), &o);
	shared_drop(shared);
	buf_release(&meta);
}

/* ---- hello */

/* The head that it stands at, in words, unless it is on our chain. */
static enum err check_place(const struct hub *h, const shoal_hello *hello, struct why *why)
{
	struct hash head;
	memcpy(head.b, hello->head, sizeof head.b);
	if (run_knows(&h->run, hello->sequence, &head))
		return ERR_OK;
	if (hello->sequence > run_head(&h->run).sequence)
		return err_why(why, ERR_fork,
			"this peer stands at ledger entry %llu, the coordinator at %llu: was an "
			"older backup of the coordinator's folder put back?",
			(unsigned long long)hello->sequence,
			(unsigned long long)run_head(&h->run).sequence);
	return err_why(why, ERR_fork,
		"this peer stands at ledger entry %llu with another hash than this run's: remove "
		"its saved states and begin from the snapshot",
		(unsigned long long)hello->sequence);
}

static enum err check_hello(
	const struct hub *h, uint32_t number, const shoal_hello *hello, struct why *why)
{
	if (number == MEMBERS_NONE)
		return err_why(why, ERR_unknown_peer,
			"this key is not on the roster (any more): join with an invite");
	if (hello->number != number)
		return err_why(why, ERR_unknown_peer,
			"this key is member %u's, not member %u's: is the peer's folder of another "
			"run?",
			number, hello->number);
	if (memcmp(hello->run, h->run.spec->id.b, sizeof hello->run))
		return err_why(why, ERR_wrong_run,
			"the peer trains another run: give it its own --dir for each run");
	return check_place(h, hello, why);
}

static void say_welcome(struct hub *h, uint32_t number)
{
	struct ledger_head head = run_head(&h->run);
	shoal_header header = {.which_body = MSG_welcome};
	header.body.welcome = (shoal_welcome){
		.number = number, .round = rounds_ask_round(h->rounds), .sequence = head.sequence};
	memcpy(header.body.welcome.head, head.hash.b, sizeof header.body.welcome.head);
	link_send(h->link, key_of(h, number), &header, NULL);
}

/* The plan may have been lost with the old connection.  A round that is not on disk yet is told to
 * everybody when it is.  Who is late where rounds overlap has no part in the open one and trains
 * on, which a plan without steps would end. */
static void say_plan_again(struct hub *h, uint32_t number)
{
	const struct rounds_member *m = rounds_ask_member(h->rounds, number);
	if (h->announced && m && m->assigned &&
		(m->state == MEMBER_working || hub_gather_wants(h, number)))
		hub_link_plan(h, number);
}

/* At most two rounds behind: it will be there in a moment. */
static void say_near(struct hub *h, uint32_t number, uint64_t sequence, uint64_t now)
{
	uint64_t newest = run_head(&h->run).sequence;
	if (newest - sequence > 2 * (uint64_t)h->run.files.n_shards)
		return;
	hub_member(h, number)->following = true;
	if (sequence < newest)
		rounds_on_near(h->rounds, number, now);
}

/* It trains like everybody; nobody is sent to where nobody can be. */
static void take_address(struct hub *h, uint32_t number, const char *said)
{
	const struct hub_refused r = {.what = "address", .member = number};
	struct hub_member *m = hub_member(h, number);
	struct why why;
	const char *against = address_ok(said) ? address_nowhere(said)
					       : "it is not HOST:PORT with a port above 0";
	snprintf(m->address, sizeof m->address, "%s", against ? "" : said);
	if (!against || !*said)
		return;
	err_why(&why, ERR_range,
		"%.99s is told to nobody: %s; give --listen an address that others reach", said,
		against);
	hub_refuse(h, &r, &why);
	hub_link_refusal(h, number, &r, why.code, why.text);
}

static void on_hello(struct hub *h, const struct link_event *e, uint64_t now)
{
	const shoal_hello *hello = &e->header.body.hello;
	uint32_t number = members_by_link(h->run.members, e->key);
	struct why why = {0};
	if (check_hello(h, number, hello, &why)) {
		const struct hub_refused r = {.what = "hello", .member = number};
		shoal_header header = msg_refusal(MSG_hello, why.code, why.text);
		link_send(h->link, e->key, &header, NULL);
		hub_refuse(h, &r, &why);
		return;
	}
	struct hub_member *m = hub_member(h, number);
	uint64_t newest = run_head(&h->run).sequence;
	hub_link_cancel(h, number);
	if (m->linked && m->instance != hello->instance)
		hub_gather_gone(h, number, now); /* what it kept is gone */
	m->linked = true;
	m->following = false;
	m->changed = true;
	h->changed = true;
	m->instance = hello->instance;
	m->sequence = hello->sequence;
	m->heard_ns = now;
	m->told = (shoal_heartbeat){0};
	memcpy(m->version, hello->version, strnlen(hello->version, sizeof m->version - 1));
	log_at(coord, 2, "member %u (%s) is linked, at ledger entry %llu of %llu", number,
		members_at(h->run.members, number)->name, (unsigned long long)hello->sequence,
		(unsigned long long)newest);
	hub_distance_linked(h, number, now);
	say_welcome(h, number);
	take_address(h, number, hello->address);
	hub_link_roster(h, number);
	if (m->sequence < newest)
		hub_link_head(h, number);
	rounds_on_linked(h->rounds, number, m->sequence == newest, now);
	say_near(h, number, m->sequence, now);
	say_plan_again(h, number);
	if (h->ended)
		hub_link_end(h, number);
}

/* ---- messages */

/* It waits for us and we for it: a message was lost on the way. */
static void nudge(struct hub *h, uint32_t number, uint64_t now)
{
	struct hub_member *m = hub_member(h, number);
	const struct rounds_member *r = rounds_ask_member(h->rounds, number);
	if (!r || now < r->since_ns + NUDGE || now < m->nudged_ns + NUDGE)
		return;
	m->nudged_ns = now;
	if (r->state == MEMBER_syncing)
		hub_link_head(h, number);
	else
		say_plan_again(h, number);
}

static void on_heartbeat(struct hub *h, uint32_t number, const shoal_heartbeat *b, uint64_t now)
{
	struct hub_member *m = hub_member(h, number);
	m->told = *b;
	m->changed = true;
	m->heard_ns = now;
	if (b->delay_round && isfinite(b->delay_s) && b->delay_s > 0)
		m->delay_s[turns_fragment(&h->run.spec->round, b->delay_round)] = b->delay_s;
	hub_distance_beat(h, number, b, now);
	hub_completion_beat(h, number, b, now);
	double speed = isfinite(b->tokens_per_s) && b->tokens_per_s > 0 ? b->tokens_per_s : 0;
	if (b->state == shoal_state_ready)
		nudge(h, number, now);
	if (b->state == shoal_state_working && b->round == rounds_ask_round(h->rounds))
		rounds_on_progress(h->rounds, number, b->steps_done, speed, now);
}

static void on_report(struct hub *h, uint32_t number, const shoal_report *r, uint64_t now)
{
	struct ledger_head head = run_head(&h->run);
	struct hash ours = run_state(&h->run);
	if (r->sequence != head.sequence) {
		/* of an older head: the newest will be reported too */
		say_near(h, number, r->sequence, now);
		return;
	}
	if (memcmp(r->state, ours.b, sizeof r->state)) {
		struct why why;
		const struct hub_refused refused = {
			.what = "report", .member = number, .round = r->round};
		err_why(&why, ERR_hash,
			"the replica differs from the ledger's state after round %llu: begin again "
			"from the snapshot",
			(unsigned long long)head.round);
		h->diverged++;
		hub_refuse(h, &refused, &why);
		hub_link_refusal(h, number, &refused, why.code, why.text);
		return;
	}
	hub_member(h, number)->sequence = r->sequence;
	hub_member(h, number)->following = true;
	hub_completion_standing(h, number, now);
	rounds_on_at_head(h->rounds, number, now);
	say_plan_again(h, number);
}

static void on_validation(struct hub *h, uint32_t number, const shoal_validation *v, uint64_t now)
{
	bool sane = isfinite(v->nats_per_token) && v->nats_per_token >= 0 &&
		    v->nats_per_token < LOSS_MOST && isfinite(v->nats_per_byte) &&
		    v->nats_per_byte >= 0 && v->nats_per_byte < LOSS_MOST && v->tokens;
	if (number != h->validator || v->round != h->validates || !sane) {
		struct why why;
		const struct hub_refused refused = {
			.what = "validation", .member = number, .round = v->round};
		err_why(&why, sane ? ERR_refused : ERR_not_finite,
			sane ? "member %u was not asked for the loss after round %llu"
			     : "member %u sent a loss after round %llu that is no number",
			number, (unsigned long long)v->round);
		hub_refuse(h, &refused, &why);
		return;
	}
	hub_round_loss(h, number, v, now);
}

static void on_message(struct hub *h, uint32_t number, const struct link_event *e, uint64_t now)
{
	const shoal_header *m = &e->header;
	hub_member(h, number)->heard_ns = now;
	switch (m->which_body) {
	case MSG_heartbeat: on_heartbeat(h, number, &m->body.heartbeat, now); break;
	case MSG_report: on_report(h, number, &m->body.report, now); break;
	case MSG_validation: on_validation(h, number, &m->body.validation, now); break;
	case MSG_bye:
		log_at(coord, 2, "member %u leaves: %s", number, m->body.bye.reason);
		hub_member(h, number)->linked = false;
		hub_link_cancel(h, number);
		hub_gather_gone(h, number, now);
		rounds_on_gone(h->rounds, number, now);
		break;
	case MSG_refusal:
		log_at(coord, 2, "member %u refuses (%s): %s", number,
			err_name((enum err)m->body.refusal.code), m->body.refusal.text);
		hub_gather_take_refusal(h, number, &m->body.refusal, now);
		break;
	case MSG_verdict: hub_gather_take_verdict(h, number, &m->body.verdict, now); break;
	case MSG_receipt: hub_receipt(h, number, e, now); break;
	case MSG_links: hub_distance_links(h, number, e, now); break;
	case MSG_want: hub_want(h, number, &m->body.want, now); break;
	default: break; /* the others are the link's own, or go the other way */
	}
}

/* ---- the rest */

static void on_lost(struct hub *h, uint32_t number, const struct link_event *e, uint64_t now)
{
	struct hub_member *m = hub_member(h, number);
	const struct rounds_member *r = rounds_ask_member(h->rounds, number);
	m->linked = false;
	m->changed = true;
	h->changed = true;
	hub_link_cancel(h, number);
	log_at(coord, 2, "member %u is lost: %s", number, e->why.text);
	hub_gather_gone(h, number, now);
	if (r && r->state != MEMBER_gone)
		rounds_on_lost(h->rounds, number, now);
}

static void on_clone(struct hub *h, uint32_t number)
{
	const struct hub_refused r = {.what = "hello", .member = number};
	struct why why;
	err_why(&why, ERR_exists,
		"two processes use member %u's key: was its folder copied?  Give each peer its own "
		"--dir and invite",
		number);
	hub_refuse(h, &r, &why);
	hub_alarm(h, &why);
}

/* Small objects tell of the round trip alone. */
static void note_rate(struct hub *h, uint32_t number, const struct link_event *e)
{
	if (e->size >= RATE_LEAST && e->taken_ns)
		hub_member(h, number)->rate = (double)e->size / clock_seconds(e->taken_ns);
}

static void on_delivered(struct hub *h, uint32_t number, const struct link_event *e, uint64_t now)
{
	struct hub_member *m = hub_member(h, number);
	m->bytes_down += e->size;
	note_rate(h, number, e);
	hub_gather_take_delivered(h, number, e->ref, &e->why, now);
	hub_distance_went(h, number, e, now);
	for (uint32_t i = 0; m->pushed && i < h->run.files.n_shards; i++)
		if (m->pushed[i] == e->ref)
			m->pushed[i] = 0;
	for (uint32_t i = 0; i < m->n_owed; i++)
		if (m->owed[i].ref == e->ref)
			m->owed[i--] = m->owed[--m->n_owed];
}

static void on_object(struct hub *h, uint32_t number, struct link_event *e, uint64_t now)
{
	hub_member(h, number)->bytes_up += e->payload_len;
	h->bytes_up += e->payload_len;
	note_rate(h, number, e);
	if (e->object_kind == OBJECT_contribution)
		hub_gate_object(h, number, e);
	else
		hub_gather_take_object(h, number, e, now);
}

void hub_link_event(struct hub *h, struct link_event *e, uint64_t now)
{
	uint32_t number = members_by_link(h->run.members, e->key);
	enum link_event_kind kind = (enum link_event_kind)e->mail.kind;
	if (kind == LINK_connected) {
		on_hello(h, e, now);
		return;
	}
	if (number == MEMBERS_NONE) {
		if (kind == LINK_object)
			link_answer(h->link, e->key, e->ref, ERR_unknown_peer, NULL);
		return;
	}
	switch (kind) {
	case LINK_lost: on_lost(h, number, e, now); break;
	case LINK_message: on_message(h, number, e, now); break;
	case LINK_object: on_object(h, number, e, now); break;
	case LINK_delivered: on_delivered(h, number, e, now); break;
	case LINK_declined:
		log_at(coord, 2, "member %u declines a record: %s", number, e->why.text);
		on_delivered(h, number, e, now);
		break;
	case LINK_clone: on_clone(h, number); break;
	default: break;
	}
}
