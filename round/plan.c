#include "round/plan.h"
#include <stdio.h>
#include <string.h>

#define COUNT_MAX ((int64_t)1 << 60)

void plan_star(struct plan *p)
{
	p->n_aggregators = p->n_sources = 0;
	memset(p->aggregator, PLAN_COORDINATOR, sizeof p->aggregator);
}

const struct plan_peer *plan_aggregator(const struct plan *p, uint32_t shard)
{
	const uint32_t index = shard < GRAPH_SHARDS_MAX ? p->aggregator[shard] : PLAN_COORDINATOR;
	return index < p->n_aggregators ? &p->aggregators[index] : NULL;
}

/* ---- as JSON */

static json_t *peer_json(const struct plan_peer *p)
{
	return json_pack("{s:I, s:s}", "member", (json_int_t)p->member, "address", p->address);
}

/* The shards of one aggregator as [first, last). */
static json_t *shards_json(const struct plan *p, uint32_t aggregator)
{
	json_t *out = json_array();
	for (uint32_t first = 0, end; first < GRAPH_SHARDS_MAX; first = end + 1) {
		for (end = first; end < GRAPH_SHARDS_MAX && p->aggregator[end] == aggregator;)
			end++;
		if (end > first)
			json_array_append_new(
				out, json_pack("[I, I]", (json_int_t)first, (json_int_t)end));
	}
	return out;
}

static json_t *aggregators_json(const struct plan *p)
{
	json_t *out = json_array();
	for (uint32_t i = 0; i < p->n_aggregators; i++) {
		json_t *a = peer_json(&p->aggregators[i]);
		json_object_set_new(a, "shards", shards_json(p, i));
		json_array_append_new(out, a);
	}
	return out;
}

static json_t *sources_json(const struct plan *p)
{
	json_t *out = json_array();
	for (uint32_t i = 0; i < p->n_sources; i++)
		json_array_append_new(out, peer_json(&p->sources[i]));
	return out;
}

json_t *plan_json(const struct plan *p)
{
	char run[HASH_HEX], head[HASH_HEX];
	hash_hex(&p->run, run);
	hash_hex(&p->parent.hash, head);
	json_t *spans = json_array();
	for (uint32_t i = 0; i < p->n_spans; i++)
		json_array_append_new(spans, json_pack("[I, I]", (json_int_t)p->spans[i].first,
						     (json_int_t)p->spans[i].last));
	json_t *listed = json_array();
	for (uint32_t f = 0; f < SPEC_FRAGMENTS_MAX; f++)
		json_array_append_new(listed, json_integer((json_int_t)p->listed[f]));
	return json_pack(
		"{s:s, s:I, s:{s:I, s:I, s:s}, s:I, s:I, s:f, s:o, s:o, s:I, s:I, s:b, s:o, s:o}",
		"run", run, "round", (json_int_t)p->round, "parent", "sequence",
		(json_int_t)p->parent.sequence, "round", (json_int_t)p->parent.round, "hash", head,
		"member", (json_int_t)p->member, "steps", (json_int_t)p->steps, "seconds",
		p->seconds, "spans", spans, "listed", listed, "ledger_tokens",
		(json_int_t)p->ledger_tokens, "planned_tokens", (json_int_t)p->planned_tokens,
		"validate", p->validate, "aggregators", aggregators_json(p), "sources",
		sources_json(p));
}

static void read_spans(struct json_in *in, struct plan *out)
{
	const json_t *spans = json_get_array(in, "spans", SPAN_MAX, true);
	for (size_t i = 0; spans && i < json_array_size(spans) && i < SPAN_MAX; i++) {
		const json_t *s = json_array_get(spans, i), *first = json_array_get(s, 0),
			     *last = json_array_get(s, 1);
		json_int_t a = json_integer_value(first), b = json_integer_value(last);
		if (json_array_size(s) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
			a < 0 || b <= a || b > COUNT_MAX) {
			json_mistake(
				in, "spans", "item %zu must be [first, last) with first < last", i);
			return;
		}
		out->spans[out->n_spans++] = (struct span){(uint64_t)a, (uint64_t)b};
	}
}

static void read_listed(struct json_in *in, struct plan *out)
{
	const json_t *listed = json_get_array(in, "listed", SPEC_FRAGMENTS_MAX, true);
	for (size_t f = 0; listed && f < json_array_size(listed) && f < SPEC_FRAGMENTS_MAX; f++) {
		const json_t *item = json_array_get(listed, f);
		json_int_t n = json_integer_value(item);
		if (!json_is_integer(item) || n < 0 ||
			(uint64_t)n > span_count(out->spans, out->n_spans)) {
			json_mistake(in, "listed", "item %zu must be 0 to the length of spans", f);
			return;
		}
		out->listed[f] = (uint64_t)n;
	}
}

static void read_parent(struct json_in *in, struct plan *out)
{
	const json_t *parent = json_get_object(in, "parent", true);
	if (!parent)
		return;
	struct json_in at;
	json_in_init(&at, parent, "parent", in->mistakes);
	out->parent.sequence = (uint64_t)json_get_int(&at, "sequence", 0, COUNT_MAX, NULL);
	out->parent.round = (uint64_t)json_get_int(&at, "round", 0, COUNT_MAX, NULL);
	out->parent.hash = json_get_hash(&at, "hash", true);
	json_in_finish(&at);
}

static bool read_peer(struct json_in *in, struct plan_peer *out)
{
	out->member = (uint32_t)json_get_int(in, "member", 0, UINT32_MAX - 1, NULL);
	const char *address = json_get_text(in, "address", ADDRESS_MAX - 1, NULL);
	const bool good = address_ok(address);
	snprintf(out->address, sizeof out->address, "%s", address);
	if (!good)
		json_mistake(in, "address", "must be HOST:PORT");
	return good;
}

static void read_shards(struct json_in *in, uint8_t index, struct plan *out)
{
	const json_t *shards = json_get_array(in, "shards", GRAPH_SHARDS_MAX, true);
	for (size_t i = 0; shards && i < json_array_size(shards) && i < GRAPH_SHARDS_MAX; i++) {
		const json_t *s = json_array_get(shards, i), *first = json_array_get(s, 0),
			     *last = json_array_get(s, 1);
		json_int_t a = json_integer_value(first), b = json_integer_value(last);
		if (json_array_size(s) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
			a < 0 || b <= a || b > GRAPH_SHARDS_MAX) {
			json_mistake(in, "shards",
				"item %zu must be [first, last) with first < last", i);
			return;
		}
		memset(out->aggregator + a, index, (size_t)(b - a));
	}
}

static void read_peers(struct json_in *in, const char *name, struct plan *out)
{
	const bool aggregators = !strcmp(name, "aggregators");
	const json_t *list = json_get_array(in, name, PLAN_PEERS_MAX, false);
	for (size_t i = 0; list && i < json_array_size(list) && i < PLAN_PEERS_MAX; i++) {
		struct json_in at;
		json_in_init(&at, json_array_get(list, i), name, in->mistakes);
		struct plan_peer *p = aggregators ? &out->aggregators[out->n_aggregators]
						  : &out->sources[out->n_sources];
		const bool good = read_peer(&at, p);
		if (aggregators)
			read_shards(&at, (uint8_t)i, out);
		if (good)
			(*(aggregators ? &out->n_aggregators : &out->n_sources))++;
		json_in_finish(&at);
	}
}

enum err plan_parse(const json_t *body, const struct hash *run, struct plan *out, struct why *why)
{
	struct buf mistakes;
	struct json_in in;
	*out = (struct plan){0};
	buf_init(&mistakes, 4096);
	json_in_init(&in, body, "", &mistakes);
	out->run = json_get_hash(&in, "run", true);
	out->round = (uint64_t)json_get_int(&in, "round", 1, COUNT_MAX, NULL);
	read_parent(&in, out);
	out->member = (uint32_t)json_get_int(&in, "member", 0, UINT32_MAX - 1, NULL);
	out->steps = (uint64_t)json_get_int(&in, "steps", 0, COUNT_MAX, NULL);
	out->seconds = json_get_real(&in, "seconds", 0, PLAN_SECONDS_MAX, NULL);
	read_spans(&in, out);
	read_listed(&in, out);
	out->ledger_tokens = (uint64_t)json_get_int(&in, "ledger_tokens", 0, COUNT_MAX, NULL);
	out->planned_tokens = (uint64_t)json_get_int(&in, "planned_tokens", 0, COUNT_MAX, NULL);
	out->validate = json_get_flag(&in, "validate", NULL);
	plan_star(out);
	read_peers(&in, "aggregators", out);
	read_peers(&in, "sources", out);
	json_in_finish(&in);
	enum err e = json_verdict(&mistakes, "the plan is malformed", why);
	if (!e && !hash_equal(&out->run, run))
		e = err_why(why, ERR_wrong_run, "the plan is for another run");
	buf_release(&mistakes);
	return e;
}
