#include "coordinator/view.h"
#include <math.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/version.h"
#include "coordinator/pace.h"
#include "coordinator/reason.h"
#include "round/turns.h"

/* NaN stands for a figure that is not known yet. */
static json_t *figure(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *count(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *hex(const struct hash *h)
{
	char text[HASH_HEX];
	hash_hex(h, text);
	return json_string(text);
}

/* One member at a time: a format of json_pack that does not go with its arguments is no error of
 * the compiler's. */
static void put(json_t *doc, const char *name, json_t *value)
{
	json_object_set_new(doc, name, value);
}

/* ---- rows */

json_t *view_round(const struct store_round *r)
{
	json_t *doc = json_object();
	put(doc, "round", count(r->round));
	put(doc, "tokens", count(r->tokens));
	put(doc, "total_tokens", count(r->total_tokens));
	put(doc, "members", count(r->members));
	put(doc, "dropped", count(r->dropped));
	put(doc, "merged", count(r->merged));
	put(doc, "bytes_up", count(r->bytes_up));
	put(doc, "bytes_down", count(r->bytes_down));
	put(doc, "closed_s", count(r->closed_s));
	put(doc, "took_s", figure(clock_seconds(r->took_ns)));
	put(doc, "nats_per_token", figure(r->nats_per_token > 0 ? r->nats_per_token : NAN));
	put(doc, "nats_per_byte", figure(r->nats_per_byte > 0 ? r->nats_per_byte : NAN));
	return doc;
}

json_t *view_loss(const struct store_loss *l)
{
	json_t *doc = json_object();
	put(doc, "round", count(l->round));
	put(doc, "tokens", count(l->tokens));
	put(doc, "nats_per_byte", figure(l->nats_per_byte));
	put(doc, "nats_per_token", figure(l->nats_per_token));
	put(doc, "measured", count(l->measured));
	put(doc, "member", count(l->member));
	put(doc, "at_s", count(l->at_s));
	return doc;
}

json_t *view_refusal(const struct store_refusal *r)
{
	json_t *doc = json_object();
	put(doc, "at_s", count(r->at_s));
	put(doc, "member", r->member == MEMBERS_NONE ? json_null() : count(r->member));
	put(doc, "round", count(r->round));
	put(doc, "shard", count(r->shard));
	put(doc, "what", json_string(r->what));
	put(doc, "code", count((uint64_t)r->code));
	put(doc, "name", json_string(err_name(r->code)));
	put(doc, "text", json_string(r->text));
	return doc;
}

/* ---- members */

/* Why it idles: its own words, or what can be seen from here. */
static const char *member_reason(const struct hub *h, const struct hub_member *m,
	const struct rounds_member *r, const struct store_member *who)
{
	if (who->removed)
		return "removed by the operator";
	if (r && r->state == MEMBER_ready &&
		!budget_welcome(&r->patience, rounds_ask_round(h->rounds)))
		return "is left out for some rounds: it held up the last one that it was in";
	if (m->linked && m->told.reason[0])
		return m->told.reason;
	if (!r)
		return "";
	switch (r->state) {
	case MEMBER_away:
		return m->heard_ns ? "its link is lost; it connects again by itself"
				   : "has not been seen since the coordinator started";
	case MEMBER_syncing: return "fetches and applies what it missed";
	case MEMBER_ready:
		return rounds_ask_state(h->rounds) == ROUNDS_open ? "waits for the next round"
								  : "waits for a round to open";
	case MEMBER_in: return "its contribution is in; waits for the round to close";
	case MEMBER_gone: return "has left";
	default: return "";
	}
}

/* What it says that it does, in one word; as messages.proto lists them. */
static const char *doing(const struct hub_member *m)
{
	static const char *const words[] = {NULL, "syncing", "ready", "training", "sending",
		"applying", "validating", "parked", "paused"};
	size_t at = (size_t)m->told.state;
	return m->linked && at < sizeof words / sizeof *words ? words[at] : NULL;
}

static void put_round_part(
	json_t *doc, const struct hub_member *m, const struct rounds_member *r, uint64_t now)
{
	bool part = r && r->assigned;
	put(doc, "state", json_string(r ? memberstate_text(r->state) : "unknown"));
	put(doc, "since_s",
		figure(r && now > r->since_ns ? clock_seconds(now - r->since_ns) : 0.0));
	put(doc, "tokens_per_s", figure(r ? r->speed : 0.0));
	put(doc, "steps_done", count(part ? r->steps_done : 0));
	put(doc, "steps", count(part ? r->steps : 0));
	put(doc, "round", count(m->told.round));
}

json_t *view_peer(const struct hub *h, uint32_t number, const struct store_refusal *last_refusal,
	uint64_t now)
{
	const struct store_member *who = members_at(h->run.members, number);
	const struct rounds_member *r = rounds_ask_member(h->rounds, number);
	const struct hub_member *m = &h->members[number];
	uint64_t tokens = ledger_peer_tokens(h->run.ledger, number),
		 all = ledger_tokens(h->run.ledger);
	json_t *doc = json_object();
	put(doc, "number", count(number));
	put(doc, "name", json_string(who->name));
	put(doc, "version", json_string(m->version[0] ? m->version : who->version));
	put(doc, "joined_s", count(who->joined_s));
	put(doc, "removed", json_boolean(who->removed));
	put_round_part(doc, m, r, now);
	put(doc, "reason", json_string(member_reason(h, m, r, who)));
	put(doc, "does", doing(m) ? json_string(doing(m)) : json_null());
	put(doc, "linked", json_boolean(m->linked));
	put(doc, "tokens", count(tokens));
	put(doc, "share", figure(all ? (double)tokens / (double)all : 0.0));
	put(doc, "rtt_ms", m->told.rtt_us ? figure(m->told.rtt_us / 1000.0) : json_null());
	put(doc, "sequence", count(m->sequence));
	put(doc, "bytes_up", count(m->bytes_up));
	put(doc, "bytes_down", count(m->bytes_down));
	put(doc, "bytes_given", count(m->told.given));
	put(doc, "bytes_taken", count(m->told.taken));
	put(doc, "refusals", count(m->refusals));
	put(doc, "last_refusal", last_refusal ? view_refusal(last_refusal) : json_null());
	return doc;
}

/* The newest refusal of each member among those that are kept. */
struct newest {
	struct store_refusal rows[STORE_REFUSALS];
	size_t n;
};

static const struct store_refusal *newest_of(const struct newest *l, uint32_t member)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->rows[i].member == member)
			return &l->rows[i];
	return NULL;
}

static void note_refusal(void *arg, const struct store_refusal *r)
{
	struct newest *l = arg;
	if (l->n < STORE_REFUSALS && !newest_of(l, r->member))
		l->rows[l->n++] = *r;
}

enum err view_peers(
	struct hub *h, const struct view_page *page, uint64_t now, json_t **out, struct why *why)
{
	struct newest *refusals = alloc_must_zero(1, sizeof *refusals);
	json_t *peers = json_array();
	uint32_t i = page->from;
	enum err err = store_refusal_list(h->run.store, note_refusal, refusals, why);
	for (; !err && i < h->n_members && json_array_size(peers) < page->limit; i++)
		if (members_at(h->run.members, i))
			json_array_append_new(peers, view_peer(h, i, newest_of(refusals, i), now));
	free(refusals);
	*out = json_pack(
		"{s:o, s:o}", "peers", peers, "next", i < h->n_members ? count(i) : json_null());
	if (err) {
		json_decref(*out);
		*out = NULL;
	}
	return err;
}

/* ---- the run */

json_t *view_yardsticks(const struct hub *h)
{
	static const char *const names[] = {"unigram", "bigram", "trigram"};
	json_t *doc = json_object();
	for (int i = 0; i < 3; i++)
		put(doc, names[i], figure(h->manifest->micronats[i] / 1e6));
	return doc;
}

static json_t *view_run(const struct hub *h)
{
	const struct spec *s = h->run.spec;
	char codec[CODEC_NAME_MAX];
	codec_describe(&h->run.exchange.codec, codec);
	json_t *doc = json_object();
	put(doc, "id", hex(&s->id));
	put(doc, "name", json_string(s->name));
	put(doc, "mode", json_string(s->round.mode == SPEC_fixed ? "fixed" : "timed"));
	put(doc, "rule", json_string(s->outer.rule));
	put(doc, "codec", json_string(codec));
	put(doc, "params", count(graph_params(h->run.graph)));
	put(doc, "shards", count(h->run.files.n_shards));
	put(doc, "peers_min", count(s->round.peers_min));
	put(doc, "total_tokens", count(s->train.total_tokens));
	put(doc, "steps", count(s->round.steps));
	put(doc, "seconds", figure(s->round.seconds));
	put(doc, "fragments", count(turns_fragments(&s->round)));
	put(doc, "seq", count(s->train.seq));
	put(doc, "batch", count(s->train.batch));
	return doc;
}

static json_t *view_counts(const struct hub *h)
{
	json_t *doc = json_pack("{s:o}", "total", count(members_count(h->run.members)));
	for (int i = 0; i < MEMBER_STATES; i++)
		json_object_set_new(doc, memberstate_text((enum member_state)i),
			count(rounds_ask_count(h->rounds, (enum member_state)i)));
	return doc;
}

/* What must not wait leaves no room for anything else: then updates stand still. */
static json_t *alert_of_egress(const struct hub *h, uint64_t now)
{
	struct egress_figures e;
	egress_figures(h->egress, now, &e);
	const double control = e.bits_per_s[EGRESS_control];
	if (!e.max_bits_per_s || control < (double)e.max_bits_per_s)
		return NULL;
	return json_sprintf("heartbeats, plans and heads alone take %.3g Mbit/s, --max-up is %.3g "
			    "Mbit/s: updates and downloads wait; give more, or have fewer peers",
		control / 1e6, (double)e.max_bits_per_s / 1e6);
}

static json_t *view_alerts(const struct hub *h, uint64_t now)
{
	json_t *alerts = json_array(), *egress = alert_of_egress(h, now);
	if (egress)
		json_array_append_new(alerts, egress);
	if (h->alarm.code && now < h->alarm_ns + HUB_ALARM)
		json_array_append_new(alerts, json_string(h->alarm.text));
	if (h->diverged)
		json_array_append_new(alerts,
			json_sprintf("%llu times a peer reported a state that differs from the "
				     "ledger's",
				(unsigned long long)h->diverged));
	return alerts;
}

static json_t *view_link(const struct hub *h)
{
	struct link_counters c;
	link_counters(h->link, &c);
	json_t *doc = json_object();
#define X(name, text) json_object_set_new(doc, #name, count(c.name));
	LINK_COUNTER_LIST(X)
#undef X
	return doc;
}

static json_t *view_egress(const struct hub *h, uint64_t now)
{
	struct egress_figures e;
	egress_figures(h->egress, now, &e);
	json_t *doc = json_object();
	put(doc, "max_bits_per_s", e.max_bits_per_s ? count(e.max_bits_per_s) : json_null());
	put(doc, "bits_per_s", figure(e.bits_per_s[EGRESS_bulk] + e.bits_per_s[EGRESS_control]));
	put(doc, "control_bits_per_s", figure(e.bits_per_s[EGRESS_control]));
	put(doc, "bytes", count(e.bytes[EGRESS_bulk] + e.bytes[EGRESS_control]));
	return doc;
}

/* Of each shard: how long what was cut of it is on its way until its update is joined, the mean
 * over the members that are linked, and as a share of the time from one cut of it to the next. */
static json_t *view_delays(const struct hub *h)
{
	const struct spec_round *r = &h->run.spec->round;
	json_t *all = json_array();
	for (uint32_t shard = 0; r->overlap && shard < h->run.files.n_shards; shard++) {
		const uint32_t fragment = shard % turns_fragments(r);
		double sum = 0, n = 0;
		for (uint32_t i = 0; i < h->n_members; i++) {
			double one = h->members[i].linked ? h->members[i].delay_s[fragment] : 0;
			sum += one;
			n += one > 0;
		}
		json_t *doc = json_object();
		put(doc, "shard", count(shard));
		put(doc, "seconds", figure(n > 0 ? sum / n : NAN));
		put(doc, "share", figure(n > 0 ? sum / n / r->seconds / turns_fragments(r) : NAN));
		json_array_append_new(all, doc);
	}
	return all;
}

static void add_figures(const struct hub *h, json_t *doc)
{
	put(doc, "tokens", count(ledger_tokens(h->run.ledger)));
	put(doc, "total_tokens", count(h->run.spec->train.total_tokens));
	put(doc, "tokens_per_s", figure(pace_tokens_per_s(h)));
	put(doc, "utilisation", figure(pace_utilisation(h)));
	put(doc, "eta_s", figure(pace_left_s(h)));
	put(doc, "bytes_up", count(h->sum.bytes_up));
	put(doc, "bytes_down", count(h->sum.bytes_down));
	put(doc, "bits_per_param_up", figure(pace_bits_up(h)));
	put(doc, "bits_per_param_down", figure(pace_bits_down(h)));
	put(doc, "loss", h->have_loss ? view_loss(&h->last_loss) : json_null());
	put(doc, "start_loss", h->have_loss ? view_loss(&h->first_loss) : json_null());
	put(doc, "delays", view_delays(h));
	put(doc, "yardsticks", view_yardsticks(h));
}

json_t *view_overview(const struct hub *h, uint64_t now)
{
	char reason[REASON_TEXT];
	struct ledger_head head = run_head(&h->run);
	struct hash state = run_state(&h->run);
	bool open = rounds_ask_state(h->rounds) == ROUNDS_open;
	json_t *doc = json_object(), *at = json_object();
	reason_text(h->rounds, h->run.spec, now, reason);
	put(at, "sequence", count(head.sequence));
	put(at, "round", count(head.round));
	put(at, "hash", hex(&head.hash));
	put(doc, "run", view_run(h));
	put(doc, "state", json_string(roundstate_text(rounds_ask_state(h->rounds))));
	put(doc, "reason", json_string(reason));
	put(doc, "paused", json_boolean(rounds_ask_paused(h->rounds)));
	put(doc, "round", count(rounds_ask_round(h->rounds)));
	put(doc, "round_s",
		figure(open ? clock_seconds(now - rounds_ask_opened_ns(h->rounds)) : NAN));
	put(doc, "head", at);
	put(doc, "state_hash", hex(&state));
	put(doc, "members", view_counts(h));
	add_figures(h, doc);
	put(doc, "refusals", count(h->refusals));
	put(doc, "alerts", view_alerts(h, now));
	put(doc, "egress", view_egress(h, now));
	put(doc, "link", view_link(h));
	put(doc, "link_port", count(link_port(h->link)));
	put(doc, "version", json_string(version_text()));
	put(doc, "now_s", count(clock_wall_s()));
	put(doc, "uptime_s", figure(clock_seconds(now - h->start_ns)));
	return doc;
}
