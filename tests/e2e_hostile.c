/* Members that lie, against real programs: every lie is refused with a code and a sentence, counted
 * and shown, the honest ones go on, and the ledger verifies in the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/help_liar.h"
#include "tests/help_run.h"

#define WAIT 150

static const char *const timed[] = {"timed", NULL};

static uint64_t round_now(const struct swarm *s)
{
	json_t *head = help_swarm_get(s, "/api/v1/head");
	uint64_t at = (uint64_t)json_integer_value(
		json_object_get(json_object_get(head, "body"), "round"));
	json_decref(head);
	return at;
}

/* The newest refusals hold one of this member with this code and a sentence. */
static void shown(const struct swarm *s, const struct liar *l, const char *what, enum err code)
{
	json_t *doc = help_swarm_get(s, "/api/v1/refusals.json");
	const json_t *list = json_object_get(doc, "recent");
	bool found = false;
	for (size_t i = 0; i < json_array_size(list) && !found; i++) {
		const json_t *r = json_array_get(list, i);
		found = json_integer_value(json_object_get(r, "member")) == l->number &&
			!strcmp(json_string_value(json_object_get(r, "what")), what) &&
			!strcmp(json_string_value(json_object_get(r, "name")), err_name(code)) &&
			strlen(json_string_value(json_object_get(r, "text"))) > 20;
	}
	if (!found)
		fail_msg("no refusal of a %s as %s in:\n%s", what, err_name(code),
			proc_text("%s", json_dumps(list, JSON_INDENT(1))));
	json_decref(doc);
}

/* ---- contributions */

struct lie {
	const char *name;
	enum err code;
	void (*tell)(const struct liar *l, struct contribution *c);
};

static void other_run(const struct liar *l, struct contribution *c)
{
	(void)l;
	c->run.b[3] ^= 1;
}

static void other_parent(const struct liar *l, struct contribution *c)
{
	(void)l;
	c->parent.b[3] ^= 1;
}

static void earlier_round(const struct liar *l, struct contribution *c)
{
	(void)l;
	c->round--;
}

static void later_round(const struct liar *l, struct contribution *c)
{
	(void)l;
	c->round++;
}

static void other_part(const struct liar *l, struct contribution *c)
{
	(void)l;
	c->part = 1;
}

static void others_shape(const struct liar *l, struct contribution *c)
{
	(void)l;
	c->shard = 1 - c->shard;
}

static void no_such_shard(const struct liar *l, struct contribution *c)
{
	(void)l;
	c->shard = UINT32_MAX;
}

static void somebody_else(const struct liar *l, struct contribution *c)
{
	(void)l;
	c->peer--;
}

static void more_tokens(const struct liar *l, struct contribution *c)
{
	(void)l;
	c->tokens++;
}

static void all_tokens(const struct liar *l, struct contribution *c)
{
	(void)l;
	c->tokens = UINT64_MAX;
}

static void others_data(const struct liar *l, struct contribution *c)
{
	c->spans[0].first += 1 << 20;
	c->spans[0].last += 1 << 20;
	c->tokens = span_count(c->spans, c->n_spans) * l->spec->train.seq;
}

static void more_data(const struct liar *l, struct contribution *c)
{
	c->spans[c->n_spans - 1].last += 1000;
	c->tokens = span_count(c->spans, c->n_spans) * l->spec->train.seq;
}

static void endless_data(const struct liar *l, struct contribution *c)
{
	(void)l;
	c->spans[0] = (struct span){0, UINT64_MAX};
	c->n_spans = 1;
}

static const struct lie lies[] = {
	{"another run", ERR_wrong_run, other_run},
	{"another parent", ERR_wrong_parent, other_parent},
	{"a past round", ERR_wrong_round, earlier_round},
	{"a future round", ERR_wrong_round, later_round},
	{"another part", ERR_shape, other_part},
	{"another shard's vector", ERR_shape, others_shape},
	{"no such shard", ERR_shape, no_such_shard},
	{"somebody else's", ERR_unknown_peer, somebody_else},
	{"a token more", ERR_tokens, more_tokens},
	{"all tokens", ERR_tokens, all_tokens},
	{"others' data", ERR_tokens, others_data},
	{"more data", ERR_tokens, more_data},
	{"endless data", ERR_tokens, endless_data},
};

/* A round may close while a lie is on its way, which then is of a past round: told again. */
static void told(struct liar *l, const struct lie *lie)
{
	struct why why = {0};
	for (int tries = 0; tries < 5; tries++) {
		struct buf b;
		help_liar_plan(l);
		struct contribution c = help_liar_says(l, 0);
		lie->tell(l, &c);
		help_liar_seal(l, &c, 0, 0.01f, &b);
		enum err err = help_liar_push(l, b.data, b.len, &why);
		buf_release(&b);
		if (err == lie->code) {
			assert_true(strlen(why.text) > 20);
			shown(l->swarm, l, "contribution", err);
			return;
		}
	}
	fail_msg("%s: %s (%s), expected %s", lie->name, err_name(why.code), why.text,
		err_name(lie->code));
}

static void lies_in_contributions_are_refused(void **state)
{
	(void)state;
	struct swarm s;
	struct liar l;
	help_swarm_start(&s, timed);
	help_swarm_peer(&s, "calm");
	help_liar_join(&l, &s, "liar");
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
		told(&l, &lies[i]);
	uint64_t at = round_now(&s);
	help_liar_leave(&l);
	help_swarm_round(&s, at + 3, WAIT);
	assert_int_equal(help_swarm_tokens(&s, "liar"), 0);
	assert_int_not_equal(help_swarm_tokens(&s, "calm"), 0);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* A vector that no training can have made must not carry the model away, also when nobody is there
 * to be compared with. */
static void a_huge_vector_is_refused(void **state)
{
	(void)state;
	static const float huge[] = {1e6f, 1e20f, 3e38f};
	struct swarm s;
	struct liar l;
	help_swarm_start(&s, timed);
	help_liar_join(&l, &s, "liar");
	for (size_t i = 0; i < sizeof huge / sizeof *huge; i++)
		for (uint32_t shard = 0; shard < 2; shard++) {
			struct why why;
			struct buf b;
			help_liar_plan(&l);
			struct contribution c = help_liar_says(&l, shard);
			help_liar_seal(&l, &c, shard, huge[i], &b);
			enum err err = help_liar_push(&l, b.data, b.len, &why);
			buf_release(&b);
			if (err != ERR_norm)
				fail_msg("%g: %s", (double)huge[i], why.text);
		}
	help_liar_leave(&l);
	help_swarm_peer(&s, "calm");
	help_swarm_round(&s, round_now(&s) + 3, WAIT);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* Who answers at once looks infinitely fast.  It is given more and more, but never more than the
 * run still needs, nor than any machine can do, and the run goes on. */
static void who_answers_at_once_is_given_no_more_than_there_is(void **state)
{
	(void)state;
	struct swarm s;
	struct liar l;
	help_swarm_start(&s, timed);
	help_liar_join(&l, &s, "liar");
	shoal_header beat = {.which_body = MSG_heartbeat};
	beat.body.heartbeat.state = shoal_state_working;
	beat.body.heartbeat.tokens_per_s = 9e11f;
	for (uint64_t i = 0, last = 0; i < 8; i++) {
		const struct plan *p = help_liar_next(&l, last);
		last = p->round;
		beat.body.heartbeat.round = p->round;
		beat.body.heartbeat.steps_done = UINT32_MAX;
		help_liar_say(&l, &beat);
		uint64_t round = p->round,
			 tokens = span_count(p->spans, p->n_spans) * l.spec->train.seq;
		assert_true(tokens < l.spec->train.total_tokens / 20);
		for (uint32_t shard = 0; shard < 2; shard++) {
			struct why why;
			struct buf b;
			struct contribution c = help_liar_says(&l, shard);
			help_liar_seal(&l, &c, shard, 1e-9f, &b);
			enum err err = help_liar_push(&l, b.data, b.len, &why);
			buf_release(&b);
			if (err)
				fail_msg("%s", why.text);
		}
		help_swarm_round(&s, round, WAIT);
	}
	help_liar_leave(&l);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* ---- what an honest member said, in another's mouth, again, or twice */

/* Accepted in the open round; tried again when the round closed under way. */
static void accepted(struct liar *l, uint32_t shard, float v, struct buf *b)
{
	struct why why = {0};
	for (int tries = 0; tries < 5; tries++) {
		help_liar_plan(l);
		struct contribution c = help_liar_says(l, shard);
		help_liar_seal(l, &c, shard, v, b);
		if (!help_liar_push(l, b->data, b->len, &why))
			return;
		buf_release(b);
	}
	fail_msg("an honest contribution is refused: %s", why.text);
}

static void refused_as(struct liar *l, const struct buf *b, enum err code)
{
	struct why why;
	enum err err = help_liar_push(l, b->data, b->len, &why);
	if (err != code)
		fail_msg("%s (%s), expected %s", err_name(err), why.text, err_name(code));
	shown(l->swarm, l, "contribution", code);
}

static void what_was_said_before_does_not_count_again(void **state)
{
	(void)state;
	struct swarm s;
	struct liar a, b;
	struct buf first, other;
	help_swarm_start(&s, timed);
	help_liar_join(&a, &s, "first");
	help_liar_plan(&a); /* a round that waits for it */
	accepted(&a, 0, 1e-3f, &first);
	/* something else for the same shard */
	struct contribution c = help_liar_says(&a, 0);
	help_liar_seal(&a, &c, 0, -1e-3f, &other);
	refused_as(&a, &other, ERR_exists);
	buf_release(&other);
	/* the other shard on other data: half of it */
	c = help_liar_says(&a, 1);
	c.n_spans = 1;
	c.spans[0].last = c.spans[0].first + 1;
	c.tokens = a.spec->train.seq;
	help_liar_seal(&a, &c, 1, 1e-3f, &other);
	refused_as(&a, &other, ERR_tokens);
	buf_release(&other);
	/* another member brings it */
	help_liar_join(&b, &s, "second");
	refused_as(&b, &first, ERR_unknown_peer);
	/* and after its round */
	uint64_t round = a.plan.round;
	accepted(&a, 1, 1e-3f, &other);
	buf_release(&other);
	help_swarm_round(&s, round, WAIT);
	refused_as(&a, &first, ERR_wrong_round);
	buf_release(&first);
	help_liar_leave(&a);
	help_liar_leave(&b);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* ---- bytes that are no contribution, or a damaged one */

static void damaged_objects_are_refused(void **state)
{
	(void)state;
	struct swarm s;
	struct liar l;
	struct buf b;
	struct why why;
	help_swarm_start(&s, timed);
	help_liar_join(&l, &s, "liar");
	help_liar_plan(&l);
	struct contribution c = help_liar_says(&l, 0);
	help_liar_seal(&l, &c, 0, 1e-3f, &b);
	/* nobody else is there, so the round stays open and nothing may be taken */
	for (size_t n = 1; n < b.len; n += 1 + n / 3)
		assert_int_not_equal(help_liar_push(&l, b.data, n, &why), ERR_OK);
	for (size_t at = 0; at < b.len; at += 1 + at / 9) {
		b.data[at] ^= 0x21;
		enum err err = help_liar_push(&l, b.data, b.len, &why);
		b.data[at] ^= 0x21;
		if (!err)
			fail_msg("byte %zu of %zu may be anything", at, b.len);
		assert_true(strlen(why.text) > 10);
	}
	uint8_t *huge = calloc(1, 3u << 20);
	assert_non_null(huge);
	assert_int_not_equal(help_liar_push(&l, huge, 3u << 20, &why), ERR_OK);
	memcpy(huge, b.data, b.len);
	assert_int_not_equal(help_liar_push(&l, huge, 3u << 20, &why), ERR_OK);
	free(huge);
	assert_int_equal(help_liar_push(&l, b.data, b.len, &why), ERR_OK);
	buf_release(&b);
	help_liar_leave(&l);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* ---- messages */

static void refusal_comes(struct liar *l, enum err code)
{
	for (int i = 0; i < 1000 && l->refusal.code != code; i++)
		help_liar_listen(l, 10);
	if (l->refusal.code != code)
		fail_msg("no refusal as %s; the last one: %s", err_name(code), l->refusal.text);
	l->refusal.code = ERR_OK;
}

static void false_reports_and_losses_are_refused(void **state)
{
	(void)state;
	struct swarm s;
	struct liar l;
	help_swarm_start(&s, timed);
	help_liar_join(&l, &s, "liar");
	help_liar_plan(&l);
	shoal_header h = {.which_body = MSG_report};
	h.body.report.round = l.plan.round - 1;
	h.body.report.sequence = l.at;
	memset(h.body.report.state, 7, sizeof h.body.report.state);
	help_liar_say(&l, &h);
	refusal_comes(&l, ERR_hash);
	shown(&s, &l, "report", ERR_hash);
	static const double losses[] = {1, -1, 1e300};
	for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
		shoal_header v = {.which_body = MSG_validation};
		v.body.validation.round = UINT64_MAX - i;
		v.body.validation.nats_per_token = losses[i];
		v.body.validation.nats_per_byte = losses[i];
		v.body.validation.tokens = 1;
		help_liar_say(&l, &v);
	}
	help_liar_listen(&l, 300);
	shown(&s, &l, "validation", ERR_refused);
	shown(&s, &l, "validation", ERR_not_finite);
	help_liar_leave(&l);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* Thousands of hellos, heartbeats and reports, connections that come and go, objects that are
 * begun and never sent: the others train on. */
static void a_flood_stops_nobody(void **state)
{
	(void)state;
	struct swarm s;
	struct liar l;
	help_swarm_start(&s, timed);
	help_swarm_peer(&s, "calm");
	help_swarm_peer(&s, "quiet");
	help_swarm_peer(&s, "still");
	help_liar_join(&l, &s, "liar");
	l.mute = true;
	uint64_t from = round_now(&s);
	shoal_header h = {.which_body = MSG_heartbeat}, begin = {.which_body = MSG_begin};
	h.body.heartbeat.state = shoal_state_ready;
	begin.body.begin.kind = 1;
	begin.body.begin.size = 1u << 20;
	begin.body.begin.chunk = 1u << 20;
	for (unsigned i = 0; i < 20000; i++) {
		memcpy(begin.body.begin.name, &i, sizeof i);
		help_liar_say(&l, i % 3 ? &h : &begin);
		if (i % 1000 == 0) {
			link_forget(l.link, l.curve);
			link_connect(
				l.link, l.curve, proc_text("127.0.0.1:%u", s.link_port), &l.hello);
			help_liar_listen(&l, 20);
		}
	}
	help_swarm_round(&s, from + 5, WAIT);
	json_t *overview = help_swarm_get(&s, "/api/v1/overview.json");
	assert_non_null(overview);
	json_decref(overview);
	help_liar_leave(&l);
	assert_int_not_equal(help_swarm_tokens(&s, "calm"), 0);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* ---- work that is taken and never delivered */

static void who_never_delivers_does_not_stop_the_others(void **state)
{
	(void)state;
	struct swarm s;
	struct liar l;
	help_swarm_start(&s, timed);
	for (int i = 0; i < 3; i++)
		help_swarm_peer(&s, proc_text("peer%d", i));
	help_swarm_round(&s, 2, WAIT);
	help_liar_join(&l, &s, "idler");
	uint64_t from = help_liar_plan(&l)->round;
	for (int i = 0; i < 5; i++)
		help_liar_listen(&l, 500);
	help_swarm_round(&s, from + 2, WAIT);
	help_liar_leave(&l);
	assert_int_equal(help_swarm_tokens(&s, "idler"), 0);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(
			who_answers_at_once_is_given_no_more_than_there_is, proc_teardown),
		cmocka_unit_test_teardown(a_huge_vector_is_refused, proc_teardown),
		cmocka_unit_test_teardown(what_was_said_before_does_not_count_again, proc_teardown),
		cmocka_unit_test_teardown(damaged_objects_are_refused, proc_teardown),
		cmocka_unit_test_teardown(false_reports_and_losses_are_refused, proc_teardown),
		cmocka_unit_test_teardown(a_flood_stops_nobody, proc_teardown),
		cmocka_unit_test_teardown(
			who_never_delivers_does_not_stop_the_others, proc_teardown),
		cmocka_unit_test_teardown(lies_in_contributions_are_refused, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
