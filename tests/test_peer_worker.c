/* The compute thread: results come in the order of jobs, training can be given up and stopped at
 * any time, and what is handed over is on disk before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "peer/worker.h"
#include "tests/help_peer.h"

#define WAIT (60 * CLOCK_SECOND)
#define STEPS 3
#define MANY 100000 /* steps that no test waits for */

struct bench {
	struct help_peer p;
	struct mailbox *mail;
	struct worker *w;
};

static struct why why;

static void open_worker(struct bench *b, const char *name)
{
	const char *dir = help_peer_path(name);
	help_peer_fine(file_mkdirs(dir, 0755, &why), &why);
	struct worker_config how = {.spec = b->p.spec,
		.corpus = b->p.data.corpus,
		.key = help_peer_key(1),
		.member = 1,
		.dir = dir,
		.backend = "cpu",
		.threads = 2,
		.share = 1,
		.windows = 3,
		.results = b->mail};
	help_peer_fine(worker_new(&how, &b->w, &why), &why);
}

static void open_bench(struct bench *b)
{
	help_peer_open(&b->p, NULL);
	b->mail = mailbox_new();
	open_worker(b, "a");
}

static void close_bench(struct bench *b)
{
	worker_free(b->w, false);
	mailbox_free(b->mail);
	help_peer_release(&b->p);
}

static struct worker_result *next(struct bench *b)
{
	struct mail *m = mailbox_wait(b->mail, WAIT);
	assert_non_null(m);
	return (struct worker_result *)m;
}

/* The next result but for progress, which must be this one; caller frees. */
static struct worker_result *want(struct bench *b, enum worker_result_kind kind)
{
	struct worker_result *r = next(b);
	while (r->mail.kind == WORKER_progress && kind != WORKER_progress) {
		worker_result_free(r);
		r = next(b);
	}
	if (r->mail.kind == WORKER_failed && kind != WORKER_failed)
		fail_msg("%s", r->why.text);
	assert_int_equal(r->mail.kind, kind);
	return r;
}

static void drop(struct bench *b, enum worker_result_kind kind)
{
	worker_result_free(want(b, kind));
}

static void start(struct bench *b)
{
	struct ledger_head at;
	const char *path = help_peer_snapshot(&b->p, &at);
	worker_start(b->w, path, &at);
	struct worker_result *r = want(b, WORKER_started);
	assert_int_equal(r->job, WORKER_job_start);
	assert_true(hash_equal(&r->head.hash, &at.hash));
	worker_result_free(r);
}

/* What the worker hands over goes through the gate. */
static void give(struct bench *b, const struct plan *plan)
{
	for (uint32_t shard = 0; shard < b->p.n_shards; shard++) {
		struct worker_result *r = want(b, WORKER_contribution);
		assert_int_equal(r->shard, shard);
		assert_int_equal(r->round, plan->round);
		help_peer_fine(help_peer_gate(&b->p, plan, shard, r->bytes, r->len, &why), &why);
		worker_result_free(r);
	}
}

/* The worker owns what it is given: a copy. */
static void apply(struct bench *b, const struct help_peer_records *r)
{
	struct standing_record *records = alloc_must_zero(r->n, sizeof *records);
	for (size_t i = 0; i < r->n; i++) {
		uint8_t *bytes = alloc_must(r->at[i].len);
		memcpy(bytes, r->at[i].bytes, r->at[i].len);
		records[i] = (struct standing_record){bytes, r->at[i].len};
	}
	worker_apply(b->w, records, r->n, &r->head, b->p.roster);
}

static void applied(struct bench *b)
{
	struct worker_result *r = want(b, WORKER_applied);
	struct hash state = replica_hash_all(b->p.replica);
	struct ledger_head at = ledger_at(b->p.ledger);
	assert_true(r->confirmed);
	assert_true(hash_equal(&r->state, &state));
	assert_true(hash_equal(&r->head.hash, &at.hash));
	worker_result_free(r);
}

/* ---- */

static void rounds_come_in_order(void **state)
{
	(void)state;
	struct bench b;
	open_bench(&b);
	char text[200];
	worker_describe(b.w, text, sizeof text);
	assert_true(strlen(text) > 0);
	worker_start(b.w, NULL, NULL);
	struct worker_result *r = want(&b, WORKER_failed);
	assert_int_equal(r->why.code, ERR_missing);
	assert_int_equal(r->job, WORKER_job_start);
	worker_result_free(r);
	start(&b);
	for (uint64_t round = 1; round <= 3; round++) {
		struct plan plan;
		struct help_peer_records records = {.n = 0};
		help_peer_plans(&b.p, STEPS, &plan, 1);
		plan.validate = round == 2;
		worker_train(b.w, &plan);
		if (plan.validate) {
			r = want(&b, WORKER_validated);
			assert_int_equal(r->round, round - 1);
			assert_int_equal(r->validation.tokens, 3 * b.p.spec->train.seq);
			worker_result_free(r);
		}
		give(&b, &plan);
		r = want(&b, WORKER_trained);
		assert_int_equal(r->steps, STEPS);
		assert_true(r->tokens_per_s > 0 && r->loss > 0);
		worker_result_free(r);
		help_peer_close(&b.p, &records);
		apply(&b, &records);
		applied(&b);
		help_peer_drop(&records);
	}
	close_bench(&b);
}

/* The next plan is given before the records are applied: jobs are done one after another. */
static void jobs_wait_for_each_other(void **state)
{
	(void)state;
	struct bench b;
	struct plan plan, following;
	struct help_peer_records records = {.n = 0};
	open_bench(&b);
	start(&b);
	help_peer_plans(&b.p, STEPS, &plan, 1);
	worker_train(b.w, &plan);
	give(&b, &plan);
	help_peer_close(&b.p, &records);
	help_peer_plans(&b.p, STEPS, &following, 1);
	apply(&b, &records);
	worker_train(b.w, &following);
	drop(&b, WORKER_trained);
	applied(&b);
	give(&b, &following);
	drop(&b, WORKER_trained);
	help_peer_drop(&records);
	close_bench(&b);
}

static void a_plan_without_steps_only_validates(void **state)
{
	(void)state;
	struct bench b;
	struct plan plan;
	open_bench(&b);
	start(&b);
	help_peer_plans(&b.p, 0, &plan, 1);
	plan.n_spans = 0;
	plan.validate = true;
	worker_train(b.w, &plan);
	struct worker_result *r = want(&b, WORKER_validated);
	assert_true(r->validation.per_token > 5);
	worker_result_free(r);
	r = want(&b, WORKER_trained);
	assert_int_equal(r->steps, 0);
	worker_result_free(r);
	close_bench(&b);
}

/* Time ends it, after one step at least, however many were promised. */
static void a_timed_plan_ends_by_time_or_data(void **state)
{
	(void)state;
	struct bench b;
	struct plan plan;
	struct help_peer_records records = {.n = 0};
	open_bench(&b);
	start(&b);
	help_peer_plans(&b.p, MANY, &plan, 1);
	plan.steps = 1;
	plan.seconds = 1e-9;
	worker_train(b.w, &plan);
	give(&b, &plan);
	struct worker_result *r = want(&b, WORKER_trained);
	assert_int_equal(r->steps, 1);
	worker_result_free(r);
	help_peer_close(&b.p, &records);
	apply(&b, &records);
	applied(&b);
	help_peer_plans(&b.p, STEPS + 1, &plan, 1);
	plan.steps = 1;
	plan.seconds = 3600;
	worker_train(b.w, &plan);
	give(&b, &plan);
	r = want(&b, WORKER_trained);
	assert_int_equal(r->steps, STEPS + 1); /* all that there is data for */
	worker_result_free(r);
	help_peer_drop(&records);
	close_bench(&b);
}

/* ---- giving up */

static void what_is_abandoned_is_dropped(void **state)
{
	(void)state;
	struct bench b;
	struct plan endless, plan;
	struct help_peer_records records = {.n = 0};
	open_bench(&b);
	start(&b);
	help_peer_plans(&b.p, MANY, &endless, 1);
	worker_train(b.w, &endless);
	drop(&b, WORKER_progress); /* it is at it */
	worker_train(b.w, &endless);
	worker_abandon(b.w); /* both */
	for (int i = 0; i < 2; i++) {
		struct worker_result *r = want(&b, WORKER_trained);
		assert_int_equal(r->steps, 0);
		worker_result_free(r);
	}
	/* what follows is as if nothing had been trained, but for the moments */
	help_peer_plans(&b.p, STEPS, &plan, 1);
	worker_train(b.w, &plan);
	give(&b, &plan);
	drop(&b, WORKER_trained);
	help_peer_close(&b.p, &records);
	apply(&b, &records);
	applied(&b);
	help_peer_drop(&records);
	close_bench(&b);
}

static void records_end_a_training_that_is_late(void **state)
{
	(void)state;
	struct bench b;
	struct plan endless;
	struct help_peer_records records = {.n = 0};
	open_bench(&b);
	start(&b);
	help_peer_plans(&b.p, MANY, &endless, 1);
	worker_train(b.w, &endless);
	drop(&b, WORKER_progress);
	help_peer_close(&b.p, &records); /* nobody's round */
	worker_abandon(b.w);
	apply(&b, &records);
	drop(&b, WORKER_trained);
	applied(&b);
	help_peer_drop(&records);
	close_bench(&b);
}

/* Whatever is at work or waits, and whatever nobody has taken: freeing ends it. */
static void stopping_ends_everything(void **state)
{
	(void)state;
	struct bench b;
	struct plan endless;
	open_bench(&b);
	close_bench(&b);
	open_bench(&b);
	start(&b);
	help_peer_plans(&b.p, MANY, &endless, 1);
	worker_train(b.w, &endless);
	worker_train(b.w, &endless);
	drop(&b, WORKER_progress);
	close_bench(&b);
	open_bench(&b);
	start(&b);
	endless.validate = true;
	for (int i = 0; i < 50; i++)
		worker_train(b.w, &endless);
	drop(&b, WORKER_validated);
	close_bench(&b);
}

/* ---- training that goes on */

/* Follows a plan to its cut, whose contributions go into the round that is closed then. */
static void followed(struct bench *b, struct plan *plan, struct help_peer_records *records)
{
	help_peer_plans(&b->p, MANY, plan, 1);
	plan->seconds = 0.05;
	worker_follow(b->w, plan);
	give(b, plan);
	drop(b, WORKER_cut);
	help_peer_close(&b->p, records);
}

/* While records are applied training goes on; whatever comes meanwhile waits for them. */
static void records_are_applied_beside_training(void **state)
{
	(void)state;
	struct bench b;
	struct plan plan;
	struct help_peer_records records = {.n = 0};
	open_bench(&b);
	start(&b);
	followed(&b, &plan, &records);
	apply(&b, &records);
	applied(&b);
	drop(&b, WORKER_progress); /* nothing but another plan would end it */
	help_peer_drop(&records);
	followed(&b, &plan, &records);
	for (int i = 0; i < 3; i++)
		help_peer_close(&b.p, &records); /* rounds without anybody, in one piece with it */
	apply(&b, &records);
	help_peer_plans(&b.p, MANY, &plan, 1);
	plan.seconds = 0.05;
	worker_follow(b.w, &plan);
	applied(&b);
	give(&b, &plan);
	drop(&b, WORKER_cut);
	help_peer_drop(&records);
	help_peer_close(&b.p, &records);
	apply(&b, &records);
	close_bench(&b); /* nobody waits for it */
	help_peer_drop(&records);
}

/* What does not follow is refused as ever, and what follows is applied afterwards. */
static void bad_records_beside_training_are_refused(void **state)
{
	(void)state;
	struct bench b;
	struct plan plan;
	struct help_peer_records records = {.n = 0};
	open_bench(&b);
	start(&b);
	followed(&b, &plan, &records);
	records.head.hash.b[0] ^= 1;
	apply(&b, &records);
	struct worker_result *r = want(&b, WORKER_failed);
	assert_int_equal(r->job, WORKER_job_apply);
	help_peer_told(&r->why, ERR_fork, "");
	worker_result_free(r);
	records.head.hash.b[0] ^= 1;
	apply(&b, &records);
	applied(&b);
	help_peer_drop(&records);
	close_bench(&b);
}

/* ---- again */

/* A process that ends after it has handed over comes back with the same contribution, to the byte,
 * and does not train for it. */
static void an_answered_plan_is_answered_again(void **state)
{
	(void)state;
	struct bench b;
	struct plan plan;
	struct help_peer_records records = {.n = 0};
	struct worker_result *first[2];
	open_bench(&b);
	start(&b);
	help_peer_plans(&b.p, STEPS, &plan, 1);
	worker_train(b.w, &plan);
	for (uint32_t i = 0; i < 2; i++)
		first[i] = want(&b, WORKER_contribution);
	/* it is on disk by now: a copy of the folder is what a kill would leave */
	worker_free(b.w, false);
	mailbox_free(b.mail);
	b.mail = mailbox_new();
	open_worker(&b, "a");
	worker_start(b.w, NULL, NULL);
	drop(&b, WORKER_started);
	worker_train(b.w, &plan);
	for (uint32_t i = 0; i < 2; i++) {
		struct worker_result *r = want(&b, WORKER_contribution);
		assert_int_equal(r->len, first[i]->len);
		assert_memory_equal(r->bytes, first[i]->bytes, r->len);
		help_peer_fine(help_peer_gate(&b.p, &plan, i, r->bytes, r->len, &why), &why);
		worker_result_free(r);
		worker_result_free(first[i]);
	}
	struct worker_result *r = want(&b, WORKER_trained);
	assert_int_equal(r->steps, 0);
	worker_result_free(r);
	help_peer_close(&b.p, &records);
	apply(&b, &records);
	applied(&b);
	help_peer_drop(&records);
	close_bench(&b);
}

/* The round in whose middle the newest saved state stands, by the ledger's entries before it. */
static uint64_t saved_sequence(struct bench *b)
{
	worker_start(b->w, NULL, NULL);
	struct worker_result *r = want(b, WORKER_started);
	uint64_t sequence = r->head.sequence;
	worker_result_free(r);
	return sequence;
}

/* One state a round, at the cut; the last one is saved when it is asked for. */
static void the_last_state_is_saved_when_asked_for(void **state)
{
	(void)state;
	for (int save = 0; save < 2; save++) {
		struct bench b;
		struct plan plan;
		struct help_peer_records records = {.n = 0};
		open_bench(&b);
		start(&b);
		help_peer_plans(&b.p, STEPS, &plan, 1);
		worker_train(b.w, &plan);
		give(&b, &plan);
		drop(&b, WORKER_trained);
		help_peer_close(&b.p, &records);
		apply(&b, &records);
		applied(&b);
		worker_free(b.w, save != 0);
		open_worker(&b, "a");
		assert_int_equal(saved_sequence(&b), save ? 2 : 0);
		if (!save) { /* the ledger leads there again */
			apply(&b, &records);
			applied(&b);
		}
		help_peer_drop(&records);
		close_bench(&b);
	}
}

static void what_is_refused_is_told_and_it_can_begin_again(void **state)
{
	(void)state;
	struct bench b;
	struct plan plan;
	struct help_peer_records records = {.n = 0};
	open_bench(&b);
	start(&b);
	help_peer_plans(&b.p, STEPS, &plan, 1);
	plan.parent.hash.b[0] ^= 1;
	worker_train(b.w, &plan);
	struct worker_result *r = want(&b, WORKER_failed);
	assert_int_equal(r->job, WORKER_job_train);
	assert_int_equal(r->why.code, ERR_wrong_parent);
	worker_result_free(r);
	plan.parent.hash.b[0] ^= 1;
	worker_train(b.w, &plan);
	give(&b, &plan);
	drop(&b, WORKER_trained);
	help_peer_close(&b.p, &records);
	((uint8_t *)(uintptr_t)records.at[1].bytes)[records.at[1].len - 1] ^= 1;
	apply(&b, &records);
	r = want(&b, WORKER_failed);
	assert_int_equal(r->job, WORKER_job_apply);
	worker_result_free(r);
	((uint8_t *)(uintptr_t)records.at[1].bytes)[records.at[1].len - 1] ^= 1;
	worker_start(b.w, NULL, NULL);
	drop(&b, WORKER_started);
	apply(&b, &records);
	applied(&b);
	help_peer_drop(&records);
	close_bench(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, help_peer_setup, help_peer_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rounds_come_in_order),
		TEST(jobs_wait_for_each_other),
		TEST(a_plan_without_steps_only_validates),
		TEST(a_timed_plan_ends_by_time_or_data),
		TEST(what_is_abandoned_is_dropped),
		TEST(records_end_a_training_that_is_late),
		TEST(stopping_ends_everything),
		TEST(records_are_applied_beside_training),
		TEST(bad_records_beside_training_are_refused),
		TEST(an_answered_plan_is_answered_again),
		TEST(the_last_state_is_saved_when_asked_for),
		TEST(what_is_refused_is_told_and_it_can_begin_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
