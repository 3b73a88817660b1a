#include "coordinator/view.h"
#include <math.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/version.h"
#include "coordinator/pace.h"
#include "coordinator/reason.h"

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

/* ---- rows */

json_t *view_round(const struct store_round *r)
{
	return json_pack("{s:o, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:f}", "round", count(r->round),
		"tokens", count(r->tokens), "total_tokens", count(r->total_tokens), "members",
		(int)r->members, "dropped", (int)r->dropped, "bytes_up", count(r->bytes_up),
		"bytes_down", count(r->bytes_down), "closed_s", count(r->closed_s), "took_s",
		clock_seconds(r->took_ns));
}

json_t *view_loss(const struct store_loss *l)
{
	return json_pack("{s:o, s:o, s:f, s:f, s:o, s:i, s:o}", "round", count(l->round), "tokens",
		count(l->tokens), "nats_per_byte", l->nats_per_byte, "nats_per_token",
		l->nats_per_token, "measured", count(l->measured), "member", (int)l->member, "at_s",
		count(l->at_s));
}

json_t *view_refusal(const struct store_refusal *r)
{
	return json_pack("{s:o, s:o, s:o, s:i, s:s, s:i, s:s, s:s}", "at_s", count(r->at_s),
		"member", r->member == MEMBERS_NONE ? json_null() : count(r->member), "round",
		count(r->round), "shard", (int)r->shard, "what", r->what, "code", (int)r->code,
		"name", err_name(r->code), "text", r->text);
}

/* ---- members */

/* Why it idles: its own words, or what can be seen from here. */
static const char *member_reason(const struct hub *h, const struct hub_member *m,
	const struct rounds_member *r, const struct store_member *who)
{
	if (who->removed)
		return "removed by the operator";
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
		return rounds_state(h->rounds) == ROUNDS_open ? "waits for the next round"
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

json_t *view_peer(const struct hub *h, uint32_t number, const struct store_refusal *last_refusal,
	uint64_t now)
{
	const struct store_member *who = members_at(h->run.members, number);
	const struct rounds_member *r = rounds_member(h->rounds, number);
	const struct hub_member *m = &h->members[number];
	uint64_t tokens = ledger_peer_tokens(h->run.ledger, number),
		 all = ledger_tokens(h->run.ledger);
	json_t *doc = json_pack("{s:i, s:s, s:s, s:s, s:b, s:f, s:o, s:f}", "number", (int)number,
		"name", who->name, "state", r ? rounds_member_text(r->state) : "unknown", "reason",
		member_reason(h, m, r, who), "linked", m->linked, "since_s",
		r && now > r->since_ns ? clock_seconds(now - r->since_ns) : 0.0, "tokens",
		count(tokens), "share", all ? (double)tokens / (double)all : 0.0);
	json_t *more = json_pack("{s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:b, s:o}",
		"tokens_per_s", r ? r->speed : 0.0, "rtt_ms",
		m->told.rtt_us ? json_real(m->told.rtt_us / 1000.0) : json_null(), "steps_done",
		count(r && r->assigned ? r->steps_done : 0), "steps",
		count(r && r->assigned ? r->steps : 0), "round", count(m->told.round), "bytes_up",
		count(m->bytes_up), "bytes_down", count(m->bytes_down), "version",
		m->version[0] ? m->version : who->version, "joined_s", count(who->joined_s),
		"removed", who->removed, "refusals", count(m->refusals));
	json_object_update_new(doc, more);
	json_object_set_new(doc, "sequence", count(m->sequence));
	json_object_set_new(doc, "does", doing(m) ? json_string(doing(m)) : json_null());
	json_object_set_new(
		doc, "last_refusal", last_refusal ? view_refusal(last_refusal) : json_null());
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
	const uint32_t *n = h->manifest->micronats;
	return json_pack("{s:f, s:f, s:f}", "unigram", n[0] / 1e6, "bigram", n[1] / 1e6, "trigram",
		n[2] / 1e6);
}

static json_t *view_run(const struct hub *h)
{
	const struct spec *s = h->run.spec;
	json_t *doc = json_pack("{s:o, s:s, s:s, s:s, s:s, s:o, s:i}", "id", hex(&s->id), "name",
		s->name, "mode", s->round.mode == SPEC_fixed ? "fixed" : "timed", "rule",
		s->outer.rule, "codec", s->codec.name, "params", count(graph_params(h->run.graph)),
		"shards", (int)h->run.files.n_shards);
	json_t *more = json_pack("{s:i, s:o, s:i, s:f, s:i, s:i}", "peers_min",
		(int)s->round.peers_min, "total_tokens", count(s->train.total_tokens), "steps",
		(int)s->round.steps, "seconds", s->round.seconds, "seq", (int)s->train.seq, "batch",
		(int)s->train.batch);
	json_object_update_new(doc, more);
	return doc;
}

static json_t *view_counts(const struct hub *h)
{
	json_t *doc = json_pack("{s:o}", "total", count(members_count(h->run.members)));
	for (int i = 0; i < MEMBER_STATES; i++)
		json_object_set_new(doc, rounds_member_text((enum member_state)i),
			count(rounds_count(h->rounds, (enum member_state)i)));
	return doc;
}

static json_t *view_alerts(const struct hub *h)
{
	json_t *alerts = json_array();
	uint32_t ready = rounds_count(h->rounds, MEMBER_ready);
	if (h->alarm.code)
		json_array_append_new(alerts, json_string(h->alarm.text));
	if (rounds_state(h->rounds) == ROUNDS_waiting && ready < h->run.spec->round.peers_min)
		json_array_append_new(alerts, json_sprintf("%u of at least %u peers are ready",
						      ready, h->run.spec->round.peers_min));
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

static void add_figures(const struct hub *h, json_t *doc)
{
	json_object_set_new(doc, "tokens", count(ledger_tokens(h->run.ledger)));
	json_object_set_new(doc, "total_tokens", count(h->run.spec->train.total_tokens));
	json_object_set_new(doc, "tokens_per_s", figure(pace_tokens_per_s(h)));
	json_object_set_new(doc, "utilisation", figure(pace_utilisation(h)));
	json_object_set_new(doc, "eta_s", figure(pace_left_s(h)));
	json_object_set_new(doc, "bytes_up", count(h->sum.bytes_up));
	json_object_set_new(doc, "bytes_down", count(h->sum.bytes_down));
	json_object_set_new(doc, "bits_per_param_up", figure(pace_bits_up(h)));
	json_object_set_new(doc, "bits_per_param_down", figure(pace_bits_down(h)));
	json_object_set_new(doc, "loss", h->have_loss ? view_loss(&h->last_loss) : json_null());
	json_object_set_new(
		doc, "start_loss", h->have_loss ? view_loss(&h->first_loss) : json_null());
	json_object_set_new(doc, "yardsticks", view_yardsticks(h));
}

json_t *view_overview(const struct hub *h, uint64_t now)
{
	char reason[REASON_TEXT];
	struct ledger_head head = run_head(&h->run);
	struct hash state = run_state(&h->run);
	bool open = rounds_state(h->rounds) == ROUNDS_open;
	reason_text(h->rounds, h->run.spec, now, reason);
	json_t *doc = json_pack("{s:o, s:s, s:s, s:b, s:o, s:o}", "run", view_run(h), "state",
		rounds_state_text(rounds_state(h->rounds)), "reason", reason, "paused",
		rounds_paused(h->rounds), "round", count(rounds_round(h->rounds)), "round_s",
		figure(open ? clock_seconds(now - rounds_opened_ns(h->rounds)) : NAN));
	json_object_set_new(doc, "head",
		json_pack("{s:o, s:o, s:o}", "sequence", count(head.sequence), "round",
			count(head.round), "hash", hex(&head.hash)));
	json_object_set_new(doc, "state_hash", hex(&state));
	json_object_set_new(doc, "members", view_counts(h));
	add_figures(h, doc);
	json_object_set_new(doc, "refusals", count(h->refusals));
	json_object_set_new(doc, "alerts", view_alerts(h));
	json_object_set_new(doc, "link", view_link(h));
	json_object_set_new(doc, "link_port", count(link_port(h->link)));
	json_object_set_new(doc, "version", json_string(version_text()));
	json_object_set_new(doc, "now_s", count(clock_wall_s()));
	json_object_set_new(doc, "uptime_s", figure(clock_seconds(now - h->start_ns)));
	return doc;
}
