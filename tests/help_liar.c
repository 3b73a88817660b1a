#include "tests/help_liar.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "base/text.h"
#include "model/graph.h"
#include "net/https_client.h"
#include "net/identity.h"
#include "net/signed.h"
#include "round/exchange.h"
#include "round/object.h"
#include "round/record.h"
#include "round/shardstate.h"
#include "tests/help_run.h"

#define DEADLINE (60 * CLOCK_SECOND)
#define RECORD_MOST (64u << 20)
#define ANSWER_MOST (8u << 20)

static void fine(enum err err, const struct why *why)
{
	if (err)
		fail_msg("%s", why->text);
}

/* ---- joining */

static json_t *request(const struct liar *l, const struct identity_curve *curve,
	const struct joinlink *link, const char *name)
{
	char sign[2 * SIGN_PUBLIC + 1], hex[2 * LINK_KEY + 1], run[HASH_HEX];
	struct sign_public key = sign_public_of(l->key);
	text_hex(key.b, sizeof key.b, sign);
	text_hex(curve->public_key, LINK_KEY, hex);
	hash_hex(&link->run, run);
	json_t *body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:s}", "invite", link->invite,
		"name", name, "version", "liar", "sign", sign, "curve", hex, "instance",
		(json_int_t)1, "run", run);
	char *text = signed_make("join", body, l->key);
	json_t *doc = json_loads(text, 0, NULL);
	free(text);
	json_decref(body);
	return doc;
}

static void read_run(struct liar *l, struct https_client *c)
{
	json_t *doc = NULL;
	struct graph *graph = NULL;
	struct why why = {0};
	fine(https_client_get_json(c, "/api/v1/spec", ANSWER_MOST, &doc, &why), &why);
	char *text = json_canonical(json_object_get(json_object_get(doc, "body"), "spec"));
	json_decref(doc);
	fine(spec_parse(text, strlen(text), &l->spec, NULL, &why), &why);
	free(text);
	struct exchange exchange;
	fine(exchange_find(l->spec, &exchange, &why), &why);
	l->codec = exchange.codec;
	fine(graph_build(&l->spec->model, 1, l->spec->train.seq, &graph, &why), &why);
	l->n = alloc_must_zero(graph->n_shards, sizeof *l->n);
	l->states = alloc_must_zero(graph->n_shards, sizeof *l->states);
	for (uint32_t i = 0; i < graph->n_shards; i++)
		l->n[i] = (size_t)graph->shard_params[i];
	graph_free(graph);
}

static void open_link(struct liar *l, const struct identity_curve *curve)
{
	struct link_config how;
	struct why why;
	link_config_init(&how);
	how.role = LINK_peer;
	memcpy(how.public_key, curve->public_key, sizeof how.public_key);
	memcpy(how.secret_key, curve->secret_key, sizeof how.secret_key);
	how.events = l->box = mailbox_new();
	how.seed = l->number;
	how.retry_least_ns = how.retry_most_ns = 50 * CLOCK_MS;
	how.kinds[0] = (struct transfer_kind){.kind = OBJECT_record, .size_most = RECORD_MOST};
	how.n_kinds = 1;
	fine(link_new(&how, &l->link, &why), &why);
}

/* Says that it stands where the public head is; when the head moves meanwhile, again. */
static void hello(struct liar *l)
{
	json_t *doc = help_swarm_get(l->swarm, "/api/v1/head");
	struct ledger_head head;
	struct why why = {0};
	fine(ledger_head_parse(json_object_get(doc, "body"), &l->spec->id, &head, &why), &why);
	json_decref(doc);
	l->hello.sequence = l->at = head.sequence;
	memcpy(l->hello.head, head.hash.b, sizeof l->hello.head);
	l->hello.instance++;
	l->hellos++;
	l->behind_ns = 0;
	link_forget(l->link, l->curve);
	link_connect(l->link, l->curve, proc_text("127.0.0.1:%u", l->swarm->link_port), &l->hello);
}

void help_liar_join(struct liar *l, const struct swarm *s, const char *name)
{
	struct https_client_config how;
	struct https_client *c;
	struct joinlink link;
	struct statement st;
	struct identity_curve curve;
	struct why why = {0};
	*l = (struct liar){.swarm = s, .key = sign_make()};
	const char *text = help_run_read(s->link);
	text = proc_text("%.*s", (int)strcspn(text, "\n"), text);
	fine(joinlink_parse(text, &link, &why), &why);
	identity_curve_make(&curve);
	https_client_config_init(&how, &link);
	fine(https_client_new(&how, &c, &why), &why);
	fine(https_client_contact(c, &link, clock_wall_s(), &st, &why), &why);
	memcpy(l->curve, st.curve, sizeof l->curve);
	json_t *ask = request(l, &curve, &link, name), *answer = NULL;
	fine(https_client_post_json(c, "/api/v1/join", ask, ANSWER_MOST, &answer, &why), &why);
	l->number = (uint32_t)json_integer_value(json_object_get(answer, "number"));
	json_decref(ask);
	json_decref(answer);
	read_run(l, c);
	https_client_free(c);
	open_link(l, &curve);
	l->hello = (shoal_hello){.number = l->number, .version = "liar"};
	memcpy(l->hello.run, l->spec->id.b, sizeof l->hello.run);
	hello(l);
}

void help_liar_leave(struct liar *l)
{
	link_free(l->link);
	mailbox_free(l->box);
	spec_free(l->spec);
	sign_free(l->key);
	free(l->n);
	free(l->states);
}

/* ---- listening */

static void on_record(struct liar *l, const struct link_event *e)
{
	struct record record;
	struct why why;
	enum err err = record_open(e->payload, e->payload_len, &record, &why);
	link_answer(l->link, l->curve, e->ref, err, NULL);
	fine(err, &why);
	if (record.entry.sequence == l->at + 1) {
		l->states[record.entry.shard] = record.entry.state;
		l->at++;
		l->behind_ns = 0;
	}
	record_release(&record);
}

/* All records of a round are here: it says what it would say had it applied them. */
static void report(struct liar *l)
{
	const uint32_t n = l->spec->model.n_shards;
	shoal_header h = {.which_body = MSG_report};
	struct hash state = shardstate_hash_all(l->states, n);
	h.body.report.round = l->at / n;
	h.body.report.sequence = l->at;
	memcpy(h.body.report.state, state.b, sizeof h.body.report.state);
	if (!l->mute)
		help_liar_say(l, &h);
}

static void on_message(struct liar *l, const struct link_event *e)
{
	const shoal_header *h = &e->header;
	json_t *doc = NULL, *body;
	struct why why = {0};
	if (h->which_body == MSG_refusal) {
		err_why(&l->refusal, (enum err)h->body.refusal.code, "%s", h->body.refusal.text);
		l->refusals++;
	} else if (h->which_body == MSG_plan) {
		fine(json_parse(e->payload, e->payload_len, ANSWER_MOST, &doc, &why), &why);
		body = json_object_get(doc, "body");
		struct plan p;
		fine(plan_parse(body, &l->spec->id, &p, &why), &why);
		json_decref(doc);
		if (p.n_spans)
			l->plan = p;
	} else if (h->which_body == MSG_head && h->body.head.sequence > l->at) {
		l->behind_ns = l->behind_ns ? l->behind_ns : clock_now_ns();
	}
}

static void on_event(struct liar *l, const struct link_event *e)
{
	switch ((enum link_event_kind)e->mail.kind) {
	case LINK_object: on_record(l, e); break;
	case LINK_message: on_message(l, e); break;
	case LINK_delivered:
	case LINK_declined:
		l->answered = e->ref;
		l->answer = e->why;
		break;
	default: break;
	}
	if (e->mail.kind == LINK_object && l->at % l->spec->model.n_shards == 0)
		report(l);
}

void help_liar_listen(struct liar *l, unsigned ms)
{
	uint64_t now = clock_now_ns(), until = now + ms * CLOCK_MS;
	do {
		struct mail *m = mailbox_wait(l->box, until > now ? until - now : 0);
		if (m) {
			struct link_event *e = link_event_of(m);
			on_event(l, e);
			link_event_free(e);
		}
		(void)proc_out(l->swarm->coordinator); /* keeps all pipes empty */
		if (l->behind_ns && clock_now_ns() > l->behind_ns + CLOCK_SECOND)
			hello(l); /* missed some: stand at the newest instead */
	} while ((now = clock_now_ns()) < until);
}

static bool at_work(const struct liar *l)
{
	return l->plan.n_spans && l->plan.parent.sequence == l->at;
}

const struct plan *help_liar_next(struct liar *l, uint64_t round)
{
	uint64_t until = clock_now_ns() + DEADLINE;
	help_liar_listen(l, 0);
	while (!(at_work(l) && l->plan.round > round) && clock_now_ns() < until)
		help_liar_listen(l, 5);
	if (!at_work(l) || l->plan.round <= round)
		fail_msg("member %u was given no work; last refusal: %s", l->number,
			l->refusal.text);
	return &l->plan;
}

const struct plan *help_liar_plan(struct liar *l)
{
	return help_liar_next(l, 0);
}

/* ---- lying */

struct contribution help_liar_says(const struct liar *l, uint32_t shard)
{
	struct contribution c = {.run = l->spec->id,
		.parent = l->plan.parent.hash,
		.round = l->plan.round,
		.shard = shard,
		.peer = l->number,
		.n_spans = l->plan.n_spans};
	memcpy(c.spans, l->plan.spans, sizeof c.spans);
	c.tokens = span_count(c.spans, c.n_spans) * l->spec->train.seq;
	return c;
}

void help_liar_seal(
	const struct liar *l, struct contribution *says, uint32_t shard, float v, struct buf *out)
{
	size_t n = l->n[shard];
	float *values = alloc_must_zero(n, sizeof *values);
	struct planes planes;
	struct why why;
	for (size_t i = 0; i < n; i++)
		values[i] = i % 2 ? v : -v;
	planes_init(&planes, codec_bound(&l->codec, n));
	fine(codec_encode(&l->codec, values, n, NULL, &planes, &why), &why);
	free(values);
	buf_init(out, 2 * contribution_bound(&l->codec, n));
	assert_int_equal(contribution_seal(says, &l->codec, &planes, l->key, out), ERR_OK);
	planes_release(&planes);
}

enum err help_liar_push(struct liar *l, const void *bytes, size_t n, struct why *why)
{
	struct shared *copy = shared_copy(bytes, n);
	/* The receiver remembers its answer to an object; this makes it another one each time. */
	uint32_t nonce = ++l->pushes;
	const struct link_object o = {.kind = OBJECT_contribution,
		.bytes = copy,
		.meta = (const uint8_t *)&nonce,
		.meta_len = sizeof nonce};
	uint64_t until = clock_now_ns() + DEADLINE, ref = 0;
	for (unsigned hellos = 0; (!ref || l->answered != ref) && clock_now_ns() < until;) {
		if (hellos != l->hellos) /* a new hello drops what was under way */
			ref = link_push(l->link, l->curve, &o);
		hellos = l->hellos;
		help_liar_listen(l, 5);
	}
	shared_drop(copy);
	if (l->answered != ref)
		fail_msg("no answer to a contribution of member %u", l->number);
	l->answered = 0;
	*why = l->answer;
	return why->code;
}

void help_liar_say(struct liar *l, const shoal_header *header)
{
	link_send(l->link, l->curve, header, NULL);
}
