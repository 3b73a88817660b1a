#include "round/plan.h"

#define COUNT_MAX ((int64_t)1 << 60)

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
	return json_pack("{s:s, s:I, s:{s:I, s:I, s:s}, s:I, s:I, s:f, s:o, s:o, s:I, s:I, s:b}",
		"run", run, "round", (json_int_t)p->round, "parent", "sequence",
		(json_int_t)p->parent.sequence, "round", (json_int_t)p->parent.round, "hash", head,
		"member", (json_int_t)p->member, "steps", (json_int_t)p->steps, "seconds",
		p->seconds, "spans", spans, "listed", listed, "ledger_tokens",
		(json_int_t)p->ledger_tokens, "planned_tokens", (json_int_t)p->planned_tokens,
		"validate", p->validate);
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
	json_in_finish(&in);
	enum err e = json_verdict(&mistakes, "the plan is malformed", why);
	if (!e && !hash_equal(&out->run, run))
		e = err_why(why, ERR_wrong_run, "the plan is for another run");
	buf_release(&mistakes);
	return e;
}
