/*
 * Where a peer stands, driven through rounds without a network: replicas agree to the bit, a peer
 * alone with plain averaging is the local trainer, whoever is stopped anywhere goes on as if
 * nothing had happened, and what is not listed stays in the error feedback.  What it refuses is in
 * test_peer_refusals.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "tests/help_peer.h"

static const char *const sparse[] = {NULL};
static const char *const diloco[] = {"outer.rule=diloco", "outer.lr=0.7", "outer.momentum=0.8",
	"codec.select=all", "codec.values=int8", "codec.k=null", "codec.decay=1.0", NULL};
static const char *const plain[] = {
	"outer.rule=average", "codec.select=all", "codec.values=f32", "codec.k=null", NULL};
static const char *const *const kinds[] = {sparse, diloco, plain};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static struct why why;

static void fine(enum err e)
{
	help_peer_fine(e, &why);
}

/* A section of the state that s saves now; caller frees. */
static float *saved(struct standing *s, const char *dir, const char *section, uint32_t shard)
{
	const size_t n = trainer_count(standing_trainer(s), shard);
	const struct statefile_series series = {
		.dir = help_peer_path(dir), .prefix = "local", .kind = "local"};
	struct statefile *file;
	struct buf passed;
	uint64_t number;
	const uint8_t *bytes;
	char name[STATEFILE_NAME_MAX];
	buf_init(&passed, 4096);
	fine(standing_save(s, &why));
	fine(statefile_open_newest(&series, &file, &number, &passed, &why));
	snprintf(name, sizeof name, "%s.%u", section, shard);
	fine(statefile_find(file, name, n * sizeof(float), &bytes, &why));
	float *v = alloc_must_zero(n, sizeof *v);
	memcpy(v, bytes, n * sizeof *v);
	statefile_close(file);
	buf_release(&passed);
	return v;
}

static void all_zero(struct standing *s, const char *dir, const char *section, uint32_t shard)
{
	float *v = saved(s, dir, section, shard);
	for (size_t i = 0; i < trainer_count(standing_trainer(s), shard); i++)
		assert_true(v[i] == 0);
	free(v);
}

/* ---- what must agree */

static void replicas_are_equal_to_the_bit(void **state)
{
	(void)state;
	static const char *const names[] = {"a", "b", "c"};
	for (size_t k = 0; k < N_KINDS; k++) {
		struct help_peer p;
		struct standing *s[HELP_PEER_MEMBERS];
		help_peer_open(&p, kinds[k]);
		for (uint32_t i = 0; i < HELP_PEER_MEMBERS; i++)
			s[i] = help_peer_begin(&p, i + 1, names[i]);
		for (uint32_t round = 0; round < 4; round++)
			help_peer_play(&p, s, HELP_PEER_MEMBERS);
		/* what was contributed is counted, a member's own */
		assert_int_equal(
			standing_listed(s[1]), 4 * HELP_PEER_STEPS * spec_step_tokens(p.spec));
		assert_int_equal(ledger_tokens(p.ledger), 3 * standing_listed(s[1]));
		for (uint32_t i = 0; i < HELP_PEER_MEMBERS; i++)
			standing_free(s[i]);
		help_peer_release(&p);
	}
}

static void alone_with_plain_averaging_it_is_the_trainer(void **state)
{
	(void)state;
	struct help_peer p;
	help_peer_open(&p, plain);
	struct standing *s = help_peer_begin(&p, 1, "a");
	for (uint32_t round = 0; round < 4; round++)
		help_peer_play(&p, &s, 1);
	struct trainer_config how = {.spec = p.spec,
		.corpus = p.data.corpus,
		.training = true,
		.backend = "cpu",
		.threads = 1};
	struct trainer *t = NULL;
	fine(trainer_new(&how, &t, &why));
	for (uint64_t at = 0; at < p.cursor; at += p.spec->train.batch) {
		uint64_t sequences[] = {at, at + 1, at + 2, at + 3};
		uint64_t tokens = (at + p.spec->train.batch) * p.spec->train.seq;
		double loss;
		assert_int_equal(p.spec->train.batch, 4);
		fine(trainer_step(t, sequences, spec_lr(&p.spec->train, tokens), &loss, &why));
	}
	assert_int_equal(trainer_steps(t), trainer_steps(standing_trainer(s)));
	for (uint32_t i = 0; i < p.n_shards; i++) {
		static const enum params_part parts[] = {PARAMS_value, PARAMS_m, PARAMS_v};
		for (size_t k = 0; k < 3; k++) {
			float *v = help_peer_part(s, i, parts[k]);
			float *w = alloc_must_zero(trainer_count(t, i), sizeof *w);
			trainer_read(t, i, parts[k], w);
			assert_memory_equal(v, w, trainer_count(t, i) * sizeof *v);
			free(v);
			free(w);
		}
	}
	trainer_free(t);
	standing_free(s);
	help_peer_release(&p);
}

/* ---- stopped and started again */

enum stop { STOP_between, STOP_training, STOP_cut, STOP_given, STOPS };

/* a is left alone, b is stopped once in every round, each time elsewhere; both are member 1, and
 * what they send must be the same bytes. */
static void round_with_a_stop(
	struct help_peer *p, struct standing **a, struct standing **b, enum stop where)
{
	struct plan plan;
	struct help_peer_records r = {.n = 0};
	help_peer_plans(p, HELP_PEER_STEPS, &plan, 1);
	help_peer_train(*a, &plan);
	fine(standing_save(*a, &why));
	if (where == STOP_between)
		*b = help_peer_again(p, *b, 1, "b");
	if (where == STOP_training) {
		help_peer_steps(*b, &plan, 2);
		assert_int_equal(standing_save(*b, &why), ERR_state);
		*b = help_peer_again(p, *b, 1, "b");
	}
	assert_false(standing_answers(*b, &plan));
	help_peer_train(*b, &plan);
	fine(standing_save(*b, &why));
	if (where == STOP_cut)
		*b = help_peer_again(p, *b, 1, "b");
	assert_true(standing_answers(*b, &plan));
	for (uint32_t i = 0; i < p->n_shards; i++) {
		size_t n, m;
		const uint8_t *x = standing_sent(*a, i, &n), *y = standing_sent(*b, i, &m);
		assert_int_equal(n, m);
		assert_memory_equal(x, y, n);
	}
	help_peer_give(p, &plan, *b);
	if (where == STOP_given)
		*b = help_peer_again(p, *b, 1, "b");
	help_peer_close(p, &r);
	help_peer_apply(p, *a, &r);
	help_peer_apply(p, *b, &r);
	help_peer_equal(*a, "a", *b, "b");
	help_peer_drop(&r);
}

static void a_stop_anywhere_changes_nothing(void **state)
{
	(void)state;
	for (size_t k = 0; k < N_KINDS; k++) {
		struct help_peer p;
		help_peer_open(&p, kinds[k]);
		struct standing *a = help_peer_begin(&p, 1, "a"), *b = help_peer_begin(&p, 1, "b");
		for (uint32_t round = 0; round < 2 * STOPS; round++)
			round_with_a_stop(&p, &a, &b, (enum stop)(round % STOPS));
		if (p.exchange.rule.row->momentum) { /* it is there to be lost */
			float *m = saved(a, "a", "momentum", 0);
			double sum = 0;
			for (size_t i = 0; i < trainer_count(standing_trainer(a), 0); i++)
				sum += (double)m[i] * (double)m[i];
			assert_true(sum > 0);
			free(m);
		}
		standing_free(a);
		standing_free(b);
		help_peer_release(&p);
	}
}

/* A state that was damaged is passed over for the one before, from where the ledger leads back to
 * the same; what was in flight then is not known any more, so that its rest is dropped. */
static void a_lost_cut_is_not_sent_twice(void **state)
{
	(void)state;
	struct help_peer p;
	struct plan plan;
	struct help_peer_records r = {.n = 0};
	help_peer_open(&p, sparse);
	struct standing *s = help_peer_begin(&p, 1, "a");
	help_peer_play(&p, &s, 1);
	fine(standing_save(s, &why));
	help_peer_plans(&p, HELP_PEER_STEPS, &plan, 1);
	help_peer_train(s, &plan);
	help_peer_give(&p, &plan, s);
	s = help_peer_again(&p, s, 1, "a"); /* the cut was not saved */
	help_peer_close(&p, &r);
	help_peer_apply(&p, s, &r);
	for (uint32_t i = 0; i < p.n_shards; i++)
		all_zero(s, "a", "error", i);
	help_peer_drop(&r);
	standing_free(s);
	help_peer_release(&p);
}

/* ---- the error feedback */

/* The vector of a sealed contribution to a shard, 0 where it has nothing; caller frees. */
static float *sent_vector(const struct help_peer *p, const struct standing *s, uint32_t shard)
{
	const size_t n = replica_count(p->replica, shard);
	struct contribution_view view;
	struct codec_vector d;
	size_t len;
	const uint8_t *sent = standing_sent(s, shard, &len);
	fine(contribution_parse(sent, len, &view, &why));
	fine(contribution_decode(&view, &p->exchange.codec, n, &d, &why));
	float *v = alloc_must_zero(n, sizeof *v);
	fine(codec_expand(&d, v));
	codec_release(&d);
	return v;
}

/* e <- v - C, with v = beta e + (base - c), exactly as it is written. */
static void what_is_listed_leaves_the_feedback(void **state)
{
	(void)state;
	struct help_peer p;
	help_peer_open(&p, sparse);
	struct standing *s = help_peer_begin(&p, 1, "a");
	for (int round = 0; round < 3; round++) {
		struct plan plan;
		struct help_peer_records r = {.n = 0};
		help_peer_plans(&p, HELP_PEER_STEPS, &plan, 1);
		float *e = saved(s, "a", "error", 1), *base = saved(s, "a", "base", 1);
		help_peer_train(s, &plan);
		float *cut = help_peer_part(s, 1, PARAMS_value), *sent = sent_vector(&p, s, 1);
		help_peer_give(&p, &plan, s);
		help_peer_close(&p, &r);
		help_peer_apply(&p, s, &r);
		float *after = saved(s, "a", "error", 1);
		for (size_t i = 0; i < replica_count(p.replica, 1); i++) {
			float v = (float)(p.spec->codec.decay * (double)e[i] +
					  ((double)base[i] - (double)cut[i]));
			assert_true(after[i] == v - sent[i]);
		}
		free(e);
		free(base);
		free(cut);
		free(sent);
		free(after);
		help_peer_drop(&r);
	}
	standing_free(s);
	help_peer_release(&p);
}

/* ---- rounds that go on without */

static void what_is_not_listed_stays_in_the_feedback(void **state)
{
	(void)state;
	struct help_peer p;
	struct plan plans[2];
	struct help_peer_records r = {.n = 0};
	help_peer_open(&p, sparse);
	struct standing *a = help_peer_begin(&p, 1, "a"), *b = help_peer_begin(&p, 2, "b");
	help_peer_plans(&p, HELP_PEER_STEPS, plans, 2);
	help_peer_train(a, &plans[0]);
	help_peer_train(b, &plans[1]);
	float *base[2], *cut[2];
	for (uint32_t i = 0; i < 2; i++) {
		base[i] = saved(a, "a", "base", i);
		cut[i] = help_peer_part(a, i, PARAMS_value);
	}
	help_peer_give(&p, &plans[1], b);
	help_peer_close(&p, &r);
	help_peer_apply(&p, a, &r); /* W is G, says this */
	assert_int_equal(standing_listed(a), 0);
	for (uint32_t i = 0; i < 2; i++) {
		float *e = saved(a, "a", "error", i);
		for (size_t k = 0; k < trainer_count(standing_trainer(a), i); k++)
			assert_true(e[k] == (float)((double)base[i][k] - (double)cut[i][k]));
		free(e);
		free(base[i]);
		free(cut[i]);
	}
	help_peer_apply(&p, b, &r);
	struct standing *both[] = {a, b};
	help_peer_play(&p, both, 2);
	help_peer_drop(&r);
	standing_free(a);
	standing_free(b);
	help_peer_release(&p);
}

static void what_is_not_cut_is_dropped(void **state)
{
	(void)state;
	struct help_peer p;
	struct plan plans[2];
	struct help_peer_records r = {.n = 0};
	help_peer_open(&p, diloco);
	struct standing *s[] = {help_peer_begin(&p, 1, "a"), help_peer_begin(&p, 2, "b")};
	help_peer_play(&p, s, 2);
	float *before[2];
	for (uint32_t i = 0; i < 2; i++)
		before[i] = saved(s[0], "a", "error", i);
	help_peer_plans(&p, HELP_PEER_STEPS, plans, 2);
	help_peer_steps(s[0], &plans[0], 2);
	help_peer_train(s[1], &plans[1]);
	help_peer_give(&p, &plans[1], s[1]);
	help_peer_close(&p, &r);
	help_peer_apply(&p, s[0], &r);
	help_peer_apply(&p, s[1], &r);
	for (uint32_t i = 0; i < 2; i++) {
		float *after = saved(s[0], "a", "error", i);
		assert_memory_equal(
			after, before[i], trainer_count(standing_trainer(s[0]), i) * sizeof *after);
		free(after);
		free(before[i]);
	}
	help_peer_play(&p, s, 2);
	help_peer_drop(&r);
	standing_free(s[0]);
	standing_free(s[1]);
	help_peer_release(&p);
}

/* Nobody was left in the round, and it is opened again with other data: what was cut for the first
 * plan travels with the second contribution. */
static void a_round_that_opens_again_begins_from_g(void **state)
{
	(void)state;
	struct help_peer p;
	struct plan first, second;
	struct help_peer_records r = {.n = 0};
	help_peer_open(&p, sparse);
	struct standing *s = help_peer_begin(&p, 1, "a");
	help_peer_plans(&p, HELP_PEER_STEPS, &first, 1);
	help_peer_plans(&p, HELP_PEER_STEPS, &second, 1);
	help_peer_train(s, &first);
	assert_true(standing_answers(s, &first));
	assert_false(standing_answers(s, &second));
	fine(standing_ready(s, &second, &why));
	size_t n;
	assert_null(standing_sent(s, 0, &n));
	for (uint32_t i = 0; i < p.n_shards; i++) {
		float *w = help_peer_part(s, i, PARAMS_value), *g = saved(s, "a", "base", i);
		assert_memory_equal(w, g, trainer_count(standing_trainer(s), i) * sizeof *w);
		free(w);
		free(g);
	}
	help_peer_train(s, &second);
	help_peer_give(&p, &second, s);
	help_peer_close(&p, &r);
	help_peer_apply(&p, s, &r);
	help_peer_drop(&r);
	standing_free(s);
	help_peer_release(&p);
}

static void a_round_of_nobody_changes_nothing_but_the_ledger(void **state)
{
	(void)state;
	struct help_peer p;
	struct help_peer_records r = {.n = 0};
	help_peer_open(&p, sparse);
	struct standing *s = help_peer_begin(&p, 1, "a");
	float *before = help_peer_part(s, 0, PARAMS_value);
	help_peer_close(&p, &r);
	help_peer_apply(&p, s, &r);
	float *after = help_peer_part(s, 0, PARAMS_value);
	assert_memory_equal(before, after, trainer_count(standing_trainer(s), 0) * sizeof *before);
	free(before);
	free(after);
	help_peer_drop(&r);
	standing_free(s);
	help_peer_release(&p);
}

/* ---- catching up in pieces */

static void pieces_lead_to_the_signed_head(void **state)
{
	(void)state;
	struct help_peer p;
	struct plan plan;
	struct help_peer_records r = {.n = 0};
	help_peer_open(&p, diloco);
	struct standing *late = help_peer_begin(&p, 2, "late"), *s = help_peer_begin(&p, 1, "a");
	for (uint32_t round = 0; round < 3; round++) {
		struct help_peer_records one = {.n = 0};
		help_peer_plans(&p, HELP_PEER_STEPS, &plan, 1);
		help_peer_train(s, &plan);
		help_peer_give(&p, &plan, s);
		help_peer_close(&p, &one);
		help_peer_apply(&p, s, &one);
		memcpy(r.at + r.n, one.at, one.n * sizeof *one.at);
		r.n += one.n;
		r.head = one.head;
	}
	fine(standing_apply(late, r.at, 4, &r.head, p.roster, &why));
	assert_int_equal(standing_head(late).sequence, 4);
	assert_false(standing_confirmed(late));
	plan.parent = standing_head(late);
	assert_int_equal(standing_ready(late, &plan, &why), ERR_state);
	assert_int_equal(standing_save(late, &why), ERR_state);
	help_peer_told(&why, ERR_state, "signed head");
	/* the piece was of another chain than the head: nothing of it stays */
	struct ledger_head other = r.head;
	other.hash.b[0] ^= 1;
	assert_int_equal(standing_apply(late, r.at + 4, 2, &other, p.roster, &why), ERR_fork);
	assert_false(standing_confirmed(late));
	late = help_peer_again(&p, late, 2, "late");
	assert_int_equal(standing_head(late).sequence, 0);
	fine(standing_apply(late, r.at, 2, &r.head, p.roster, &why));
	struct help_peer_records rest = {.n = 4, .head = r.head};
	memcpy(rest.at, r.at + 2, 4 * sizeof *rest.at);
	help_peer_apply(&p, late, &rest);
	help_peer_drop(&r);
	standing_free(s);
	standing_free(late);
	help_peer_release(&p);
}

static void a_joiner_ramps_over_ten_steps(void **state)
{
	(void)state;
	struct help_peer p;
	struct plan plans[2];
	help_peer_open(&p, sparse);
	struct standing *a = help_peer_begin(&p, 1, "a");
	help_peer_plans(&p, HELP_PEER_STEPS, plans, 1);
	double full = spec_lr(&p.spec->train, spec_step_tokens(p.spec));
	assert_true(standing_lr(a, &plans[0], 0) == full); /* from round 0 on: no joiner */
	p.cursor = 0;
	help_peer_play(&p, &a, 1);
	struct standing *s = help_peer_begin(&p, 2, "late");
	for (uint64_t taken = 0; taken < 12;) {
		help_peer_plans(&p, 4, plans, 2);
		struct help_peer_records r = {.n = 0};
		fine(standing_ready(s, &plans[1], &why));
		for (uint64_t i = 0; i < 4; i++, taken++) {
			uint64_t tokens = plans[1].ledger_tokens +
					  plans[1].planned_tokens * (i + 1) / plans[1].steps;
			double lr = spec_lr(&p.spec->train, tokens), loss;
			if (taken + 1 < 10)
				lr *= (double)(taken + 1) / 10;
			assert_true(standing_lr(s, &plans[1], i) == lr);
			fine(standing_step(s, &plans[1], i, &loss, &why));
		}
		fine(standing_cut(s, &plans[1], 4, &why));
		help_peer_give(&p, &plans[1], s);
		help_peer_close(&p, &r);
		help_peer_apply(&p, s, &r);
		help_peer_drop(&r);
		fine(standing_save(s, &why));
		s = help_peer_again(&p, s, 2, "late"); /* and remembers that it is one */
	}
	standing_free(a);
	standing_free(s);
	help_peer_release(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, help_peer_setup, help_peer_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(replicas_are_equal_to_the_bit),
		TEST(alone_with_plain_averaging_it_is_the_trainer),
		TEST(a_stop_anywhere_changes_nothing),
		TEST(a_lost_cut_is_not_sent_twice),
		TEST(what_is_listed_leaves_the_feedback),
		TEST(what_is_not_listed_stays_in_the_feedback),
		TEST(what_is_not_cut_is_dropped),
		TEST(a_round_that_opens_again_begins_from_g),
		TEST(a_round_of_nobody_changes_nothing_but_the_ledger),
		TEST(pieces_lead_to_the_signed_head),
		TEST(a_joiner_ramps_over_ten_steps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
