/*
 * Where a peer stands, driven through rounds without a network: replicas agree to the bit, a peer
 * alone with plain averaging is the local trainer, whoever is stopped anywhere goes on as if
 * nothing had happened, what is not listed stays in the error feedback, and what is not true is
 * refused.
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

#define STEPS 3

static const char *const sparse[] = {NULL};
static const char *const diloco[] = {"outer.rule=diloco", "outer.lr=0.7", "outer.momentum=0.8",
	"codec.name=int8", "codec.decay=1.0", NULL};
static const char *const plain[] = {"outer.rule=average", "codec.name=raw", NULL};
static const char *const *const kinds[] = {sparse, diloco, plain};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static struct why why;

static void fine(enum err e)
{
	help_peer_fine(e, &why);
}

/* A new object that begins from where the ledger is. */
static struct standing *begin(const struct help_peer *p, uint32_t member, const char *name)
{
	struct standing *s = help_peer_standing(p, member, name);
	struct ledger_head at;
	const char *path = help_peer_snapshot(p, &at);
	fine(standing_begin(s, path, &at, &why));
	return s;
}

/* A new process: only what was saved is left. */
static struct standing *again(
	const struct help_peer *p, struct standing *old, uint32_t member, const char *name)
{
	standing_free(old);
	struct standing *s = help_peer_standing(p, member, name);
	fine(standing_resume(s, &why));
	return s;
}

static void steps(struct standing *s, const struct plan *plan, uint64_t n)
{
	double loss;
	fine(standing_ready(s, plan, &why));
	for (uint64_t i = 0; i < n; i++) {
		fine(standing_step(s, plan, i, &loss, &why));
		assert_true(loss > 0 && loss < 10);
	}
}

static void train(struct standing *s, const struct plan *plan)
{
	steps(s, plan, plan->steps);
	fine(standing_cut(s, plan, plan->steps, &why));
}

/* One round of these members, from plan to state. */
static void play(struct help_peer *p, struct standing **s, uint32_t n)
{
	struct plan plans[HELP_PEER_MEMBERS];
	struct help_peer_records r = {.n = 0};
	help_peer_plans(p, STEPS, plans, n);
	for (uint32_t i = 0; i < n; i++) {
		train(s[i], &plans[i]);
		help_peer_give(p, &plans[i], s[i]);
	}
	help_peer_close(p, &r);
	for (uint32_t i = 0; i < n; i++)
		help_peer_apply(p, s[i], &r);
	help_peer_drop(&r);
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
			s[i] = begin(&p, i + 1, names[i]);
		for (uint32_t round = 0; round < 4; round++)
			play(&p, s, HELP_PEER_MEMBERS);
		/* what was contributed is counted, a member's own */
		assert_int_equal(standing_listed(s[1]), 4 * STEPS * spec_step_tokens(p.spec));
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
	struct standing *s = begin(&p, 1, "a");
	for (uint32_t round = 0; round < 4; round++)
		play(&p, &s, 1);
	struct trainer_config how = {
		.spec = p.spec, .corpus = p.data.corpus, .backend = "cpu", .threads = 1};
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
	help_peer_plans(p, STEPS, &plan, 1);
	train(*a, &plan);
	fine(standing_save(*a, &why));
	if (where == STOP_between)
		*b = again(p, *b, 1, "b");
	if (where == STOP_training) {
		steps(*b, &plan, 2);
		assert_int_equal(standing_save(*b, &why), ERR_state);
		*b = again(p, *b, 1, "b");
	}
	assert_false(standing_answers(*b, &plan));
	train(*b, &plan);
	fine(standing_save(*b, &why));
	if (where == STOP_cut)
		*b = again(p, *b, 1, "b");
	assert_true(standing_answers(*b, &plan));
	for (uint32_t i = 0; i < p->n_shards; i++) {
		size_t n, m;
		const uint8_t *x = standing_sent(*a, i, &n), *y = standing_sent(*b, i, &m);
		assert_int_equal(n, m);
		assert_memory_equal(x, y, n);
	}
	help_peer_give(p, &plan, *b);
	if (where == STOP_given)
		*b = again(p, *b, 1, "b");
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
		struct standing *a = begin(&p, 1, "a"), *b = begin(&p, 1, "b");
		for (uint32_t round = 0; round < 2 * STOPS; round++)
			round_with_a_stop(&p, &a, &b, (enum stop)(round % STOPS));
		if (p.rule.row->momentum) { /* it is there to be lost */
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
	struct standing *s = begin(&p, 1, "a");
	play(&p, &s, 1);
	fine(standing_save(s, &why));
	help_peer_plans(&p, STEPS, &plan, 1);
	train(s, &plan);
	help_peer_give(&p, &plan, s);
	s = again(&p, s, 1, "a"); /* the cut was not saved */
	help_peer_close(&p, &r);
	help_peer_apply(&p, s, &r);
	for (uint32_t i = 0; i < p.n_shards; i++)
		all_zero(s, "a", "error", i);
	help_peer_drop(&r);
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
	struct standing *a = begin(&p, 1, "a"), *b = begin(&p, 2, "b");
	help_peer_plans(&p, STEPS, plans, 2);
	train(a, &plans[0]);
	train(b, &plans[1]);
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
	play(&p, both, 2);
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
	struct standing *s[] = {begin(&p, 1, "a"), begin(&p, 2, "b")};
	play(&p, s, 2);
	float *before[2];
	for (uint32_t i = 0; i < 2; i++)
		before[i] = saved(s[0], "a", "error", i);
	help_peer_plans(&p, STEPS, plans, 2);
	steps(s[0], &plans[0], 2);
	train(s[1], &plans[1]);
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
	play(&p, s, 2);
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
	struct standing *s = begin(&p, 1, "a");
	help_peer_plans(&p, STEPS, &first, 1);
	help_peer_plans(&p, STEPS, &second, 1);
	train(s, &first);
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
	train(s, &second);
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
	struct standing *s = begin(&p, 1, "a");
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
	struct standing *late = begin(&p, 2, "late"), *s = begin(&p, 1, "a");
	for (uint32_t round = 0; round < 3; round++) {
		struct help_peer_records one = {.n = 0};
		help_peer_plans(&p, STEPS, &plan, 1);
		train(s, &plan);
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
	late = again(&p, late, 2, "late");
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

/* ---- what is not true */

struct trouble {
	struct help_peer p;
	struct standing *s;         /* member 1 before the round */
	struct help_peer_records r; /* of members 1 and 2 */
};

static void make_trouble(struct trouble *t)
{
	struct plan plans[2];
	help_peer_open(&t->p, sparse);
	t->r = (struct help_peer_records){.n = 0};
	t->s = begin(&t->p, 1, "a");
	struct standing *b = begin(&t->p, 2, "b");
	help_peer_plans(&t->p, STEPS, plans, 2);
	train(t->s, &plans[0]);
	fine(standing_save(t->s, &why));
	train(b, &plans[1]);
	help_peer_give(&t->p, &plans[0], t->s);
	help_peer_give(&t->p, &plans[1], b);
	help_peer_close(&t->p, &t->r);
	standing_free(b);
}

static void end_trouble(struct trouble *t)
{
	help_peer_drop(&t->r);
	standing_free(t->s);
	help_peer_release(&t->p);
}

/* Refused, and as it was: the truth is still taken. */
static void unchanged(struct trouble *t, enum err e, enum err want, const char *says)
{
	assert_int_equal(e, want);
	help_peer_told(&why, want, says);
	assert_int_equal(standing_head(t->s).sequence, 0);
	assert_true(standing_confirmed(t->s));
	size_t n;
	assert_non_null(standing_sent(t->s, 1, &n));
}

/* Refused in the middle: it says that it stands nowhere, and comes back from what it saved. */
static void undone(struct trouble *t, enum err e)
{
	struct plan plan = {.round = 1};
	double loss;
	assert_int_not_equal(e, ERR_OK);
	assert_int_equal(standing_head(t->s).sequence, 0);
	assert_false(standing_confirmed(t->s));
	assert_false(standing_answers(t->s, &plan));
	assert_int_equal(standing_ready(t->s, &plan, &why), ERR_state);
	assert_int_equal(standing_step(t->s, &plan, 0, &loss, &why), ERR_state);
	assert_int_equal(standing_cut(t->s, &plan, 1, &why), ERR_state);
	assert_int_equal(standing_save(t->s, &why), ERR_state);
	assert_int_equal(
		standing_apply(t->s, t->r.at, t->r.n, &t->r.head, t->p.roster, &why), ERR_state);
	help_peer_told(&why, ERR_state, "stands nowhere");
	fine(standing_resume(t->s, &why));
}

static void entries_that_do_not_lead_to_the_head_are_refused(void **state)
{
	(void)state;
	struct trouble t;
	make_trouble(&t);
	struct help_peer_records *r = &t.r;
	struct ledger_head other = r->head;
	other.hash.b[31] ^= 1;
	unchanged(&t, standing_apply(t.s, r->at, r->n, &other, t.p.roster, &why), ERR_fork, "");
	/* in the wrong order, with one missing, twice */
	struct standing_record swapped[] = {r->at[1], r->at[0]}, twice[] = {r->at[0], r->at[0]};
	unchanged(&t, standing_apply(t.s, swapped, 2, &r->head, t.p.roster, &why), ERR_fork, "");
	unchanged(&t, standing_apply(t.s, twice, 2, &r->head, t.p.roster, &why), ERR_fork, "");
	unchanged(&t, standing_apply(t.s, r->at, 1, &r->head, t.p.roster, &why), ERR_shape,
		"whole rounds");
	/* cut short */
	struct standing_record shorter[] = {r->at[0], {r->at[1].bytes, r->at[1].len - 40}};
	assert_int_not_equal(standing_apply(t.s, shorter, 2, &r->head, t.p.roster, &why), ERR_OK);
	unchanged(&t, why.code, why.code, "");
	help_peer_apply(&t.p, t.s, r);
	/* what was applied is not applied again */
	assert_int_equal(standing_apply(t.s, r->at, r->n, &r->head, t.p.roster, &why), ERR_fork);
	end_trouble(&t);
}

static void another_history_is_refused(void **state)
{
	(void)state;
	struct trouble t;
	make_trouble(&t);
	/* the same two members, but member 2 alone: another round 1 */
	struct help_peer q;
	struct plan plans[2];
	struct help_peer_records fork = {.n = 0};
	help_peer_open(&q, sparse);
	struct standing *b = begin(&q, 2, "fork");
	help_peer_plans(&q, STEPS, plans, 2);
	train(b, &plans[1]);
	help_peer_give(&q, &plans[1], b);
	help_peer_close(&q, &fork);
	unchanged(&t, standing_apply(t.s, fork.at, fork.n, &t.r.head, t.p.roster, &why), ERR_fork,
		"");
	help_peer_apply(&t.p, t.s, &t.r);
	/* on another history the next round does not follow */
	struct help_peer_records next = {.n = 0};
	help_peer_close(&q, &next);
	assert_int_equal(
		standing_apply(t.s, next.at, next.n, &next.head, t.p.roster, &why), ERR_fork);
	assert_true(standing_confirmed(t.s));
	help_peer_drop(&fork);
	help_peer_drop(&next);
	standing_free(b);
	help_peer_release(&q);
	end_trouble(&t);
}

static void a_tampered_contribution_is_refused(void **state)
{
	(void)state;
	struct trouble t;
	make_trouble(&t);
	uint8_t *bytes = (uint8_t *)(uintptr_t)t.r.at[1].bytes;
	const size_t len = t.r.at[1].len, places[] = {len - 1, len - 60, len / 2};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		bytes[places[i]] ^= 0x10;
		undone(&t, standing_apply(t.s, t.r.at, t.r.n, &t.r.head, t.p.roster, &why));
		bytes[places[i]] ^= 0x10;
		assert_int_equal(standing_head(t.s).sequence, 0);
	}
	help_peer_apply(&t.p, t.s, &t.r);
	end_trouble(&t);
}

/* A roster of members 1 and, when with is set, 2, whose key is that of `key`. */
static struct roster *other_roster(const struct help_peer *p, bool with, uint32_t key)
{
	struct roster_member members[2] = {0};
	struct roster *r = NULL;
	for (uint32_t i = 0; i < 2; i++) {
		members[i] = *roster_by_number(p->roster, i + 1);
		if (i == 1)
			members[i].sign = sign_public_of(help_peer_key(key));
	}
	fine(roster_new(&p->spec->id, 2, members, with ? 2 : 1, &r, &why));
	return r;
}

static void a_signature_of_another_key_is_refused(void **state)
{
	(void)state;
	struct trouble t;
	make_trouble(&t);
	struct roster *stranger = other_roster(&t.p, true, HELP_PEER_MEMBERS + 1);
	enum err e = standing_apply(t.s, t.r.at, t.r.n, &t.r.head, stranger, &why);
	assert_int_equal(e, ERR_signature);
	undone(&t, e);
	roster_free(stranger);
	/* a roster that is behind is no reason to begin again */
	struct roster *old = other_roster(&t.p, false, 2);
	unchanged(&t, standing_apply(t.s, t.r.at, t.r.n, &t.r.head, old, &why), ERR_unknown_peer,
		"member 2");
	roster_free(old);
	help_peer_apply(&t.p, t.s, &t.r);
	end_trouble(&t);
}

/* ---- beginning */

static void nothing_saved_is_missing(void **state)
{
	(void)state;
	struct help_peer p;
	help_peer_open(&p, sparse);
	struct standing *s = help_peer_standing(&p, 1, "a");
	assert_int_equal(standing_resume(s, &why), ERR_missing);
	assert_int_equal(standing_head(s).sequence, 0);
	assert_false(standing_confirmed(s));
	standing_free(s);
	help_peer_release(&p);
}

static void a_snapshot_must_be_the_one_that_was_signed(void **state)
{
	(void)state;
	struct help_peer p, q;
	struct ledger_head at, moved, other;
	help_peer_open(&p, sparse);
	help_peer_open(&q, diloco); /* another run */
	struct standing *s = begin(&p, 1, "a");
	const char *first = help_peer_snapshot(&p, &at);
	play(&p, &s, 1);
	moved = ledger_at(p.ledger);
	assert_int_equal(standing_begin(s, first, &moved, &why), ERR_fork);
	assert_false(standing_confirmed(s));
	other = at;
	other.hash.b[3] ^= 1;
	assert_int_equal(standing_begin(s, first, &other, &why), ERR_fork);
	const char *foreign = help_peer_snapshot(&q, &other);
	assert_int_equal(standing_begin(s, foreign, &other, &why), ERR_wrong_run);
	assert_int_not_equal(standing_begin(s, help_peer_path("none"), &at, &why), ERR_OK);
	/* round 0 of this run, but with other weights than its ledger begins with */
	struct ledger_head genesis = {.hash = ledger_genesis(&p.spec->id, NULL, 0)};
	struct replica_snapshot about = {p.spec->id, p.spec->text, genesis};
	const char *wrong = help_peer_path("wrong");
	fine(replica_save(q.replica, &about, wrong, &why));
	assert_int_equal(standing_begin(s, wrong, &genesis, &why), ERR_fork);
	help_peer_told(&why, ERR_fork, "initial weights");
	fine(standing_begin(s, first, &at, &why));
	standing_free(s);
	help_peer_release(&p);
	help_peer_release(&q);
}

/* A state of a higher round that is damaged does not outlive the new beginning. */
static void a_new_beginning_replaces_damaged_states(void **state)
{
	(void)state;
	struct help_peer p;
	struct ledger_head at;
	help_peer_open(&p, sparse);
	struct standing *s = begin(&p, 1, "a");
	const char *first = help_peer_snapshot(&p, &at);
	for (int i = 0; i < 3; i++) {
		play(&p, &s, 1);
		fine(standing_save(s, &why));
	}
	const struct statefile_series series = {.dir = help_peer_path("a"), .prefix = "local"};
	for (uint64_t i = 2; i <= 3; i++) {
		char *path = statefile_path(&series, i);
		FILE *f = fopen(path, "r+");
		assert_non_null(f);
		fseek(f, 5000, SEEK_SET);
		fputs("damage", f);
		fclose(f);
		free(path);
	}
	assert_int_equal(standing_resume(s, &why), ERR_hash);
	assert_false(standing_confirmed(s));
	fine(standing_begin(s, first, &at, &why));
	s = again(&p, s, 1, "a");
	assert_int_equal(standing_head(s).sequence, 0);
	standing_free(s);
	help_peer_release(&p);
}

static void a_joiner_ramps_over_ten_steps(void **state)
{
	(void)state;
	struct help_peer p;
	struct plan plans[2];
	help_peer_open(&p, sparse);
	struct standing *a = begin(&p, 1, "a");
	help_peer_plans(&p, STEPS, plans, 1);
	double full = spec_lr(&p.spec->train, spec_step_tokens(p.spec));
	assert_true(standing_lr(a, &plans[0], 0) == full); /* from round 0 on: no joiner */
	p.cursor = 0;
	play(&p, &a, 1);
	struct standing *s = begin(&p, 2, "late");
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
		s = again(&p, s, 2, "late"); /* and remembers that it is one */
	}
	standing_free(a);
	standing_free(s);
	help_peer_release(&p);
}

/* ---- plans that do not fit */

static void a_plan_must_start_from_the_head_and_have_data(void **state)
{
	(void)state;
	struct help_peer p;
	struct plan plan;
	double loss;
	help_peer_open(&p, sparse);
	struct standing *s = begin(&p, 1, "a");
	help_peer_plans(&p, STEPS, &plan, 1);
	fine(standing_ready(s, &plan, &why));
	assert_int_equal(standing_step(s, &plan, STEPS, &loss, &why), ERR_range);
	plan.parent.hash.b[0] ^= 1;
	assert_int_equal(standing_ready(s, &plan, &why), ERR_wrong_parent);
	assert_true(standing_confirmed(s));
	standing_free(s);
	help_peer_release(&p);
}

static void a_rule_or_codec_that_is_not_known_is_named(void **state)
{
	(void)state;
	static const char *const wrong[] = {"outer.rule=best", "codec.name=zip"};
	struct help_peer p;
	help_peer_open(&p, sparse);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct spec *spec = NULL;
		struct standing *s = NULL;
		fine(spec_load(help_peer_path("spec.json"), &wrong[i], 1, &spec, NULL, &why));
		struct standing_config how = {.spec = spec,
			.corpus = p.data.corpus,
			.key = help_peer_key(1),
			.dir = help_peer_path("a"),
			.backend = "cpu"};
		assert_int_equal(standing_new(&how, &s, &why), ERR_unsupported);
		assert_null(s);
		spec_free(spec);
	}
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
		TEST(what_is_not_listed_stays_in_the_feedback),
		TEST(what_is_not_cut_is_dropped),
		TEST(a_round_that_opens_again_begins_from_g),
		TEST(a_round_of_nobody_changes_nothing_but_the_ledger),
		TEST(pieces_lead_to_the_signed_head),
		TEST(entries_that_do_not_lead_to_the_head_are_refused),
		TEST(another_history_is_refused),
		TEST(a_tampered_contribution_is_refused),
		TEST(a_signature_of_another_key_is_refused),
		TEST(nothing_saved_is_missing),
		TEST(a_snapshot_must_be_the_one_that_was_signed),
		TEST(a_new_beginning_replaces_damaged_states),
		TEST(a_joiner_ramps_over_ten_steps),
		TEST(a_plan_must_start_from_the_head_and_have_data),
		TEST(a_rule_or_codec_that_is_not_known_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
