/* What opens a round and what closes it: spans, plans, records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "round/plan.h"
#include "round/record.h"
#include "tests/help_round.h"

/* ---- spans */

static void a_list_cut_anywhere_is_the_same_list(void **state)
{
	(void)state;
	static const struct span all[3] = {{100, 103}, {7, 8}, {500, 520}};
	const uint64_t n = span_count(all, 3);
	assert_int_equal(n, 24);
	for (uint64_t cut = 0; cut <= n; cut++) {
		struct span head[SPAN_MAX], tail[SPAN_MAX];
		uint32_t n_head = span_head(all, 3, cut, head),
			 n_tail = span_tail(all, 3, cut, tail);
		assert_int_equal(span_count(head, n_head), cut);
		assert_int_equal(span_count(tail, n_tail), n - cut);
		assert_true(span_is_prefix(head, n_head, all, 3));
		assert_int_equal(span_is_prefix(tail, n_tail, all, 3), cut == 0 || cut == n);
		for (uint64_t i = 0; i < n; i++)
			assert_int_equal(
				span_at(all, 3, i), i < cut ? span_at(head, n_head, i)
							    : span_at(tail, n_tail, i - cut));
	}
	assert_true(span_at(all, 3, n) == UINT64_MAX);
}

static void what_is_no_prefix_is_told(void **state)
{
	(void)state;
	static const struct span all[2] = {{10, 20}, {5, 8}};
	static const struct span short_first[2] = {{10, 19}, {5, 8}}, other[1] = {{11, 20}},
				 longer[1] = {{10, 21}}, empty[1] = {{10, 10}},
				 turned[1] = {{10, 9}}, more[3] = {{10, 20}, {5, 8}, {8, 9}};
	assert_true(span_is_prefix(all, 2, all, 2));
	assert_true(span_is_prefix(all, 0, all, 2));
	assert_true(span_is_prefix(all, 1, all, 2));
	assert_false(span_is_prefix(short_first, 2, all, 2));
	assert_false(span_is_prefix(other, 1, all, 2));
	assert_false(span_is_prefix(longer, 1, all, 2));
	assert_false(span_is_prefix(empty, 1, all, 2));
	assert_false(span_is_prefix(turned, 1, all, 2));
	assert_false(span_is_prefix(more, 3, all, 2));
}

/* ---- plans */

static struct plan some_plan(void)
{
	return (struct plan){.run = help_round_hash(1),
		.round = 9,
		.parent = {16, 8, help_round_hash(2)},
		.member = 3,
		.steps = 20,
		.seconds = 1.5,
		.spans = {{100, 110}, {4, 9}},
		.n_spans = 2,
		.listed = {0, 15, 3},
		.ledger_tokens = 123456789,
		.planned_tokens = 15360,
		.validate = true,
		.aggregators = {{7, "peer.example:7440"}, {2, "[::1]:9"}},
		.n_aggregators = 2,
		.aggregator = {0, 0, 1, PLAN_COORDINATOR, 0, PLAN_COORDINATOR},
		.sources = {{2, "[::1]:9"}},
		.n_sources = 1};
}

static void a_plan_comes_back(void **state)
{
	(void)state;
	struct plan p = some_plan(), q;
	struct why why = {0};
	json_t *body = plan_json(&p);
	if (plan_parse(body, &p.run, &q, &why))
		fail_msg("%s", why.text);
	json_t *again = plan_json(&q);
	assert_true(json_equal(body, again));
	assert_int_equal(q.n_spans, 2);
	assert_int_equal(q.spans[1].last, 9);
	assert_memory_equal(q.listed, p.listed, sizeof p.listed);
	assert_int_equal(plan_aggregator(&q, 1)->member, 7);
	assert_string_equal(plan_aggregator(&q, 2)->address, "[::1]:9");
	assert_null(plan_aggregator(&q, 3));
	assert_null(plan_aggregator(&q, GRAPH_SHARDS_MAX));
	plan_star(&q);
	assert_null(plan_aggregator(&q, 1));
	struct hash other = help_round_hash(7);
	assert_int_equal(plan_parse(body, &other, &q, &why), ERR_wrong_run);
	json_decref(again);
	json_decref(body);
}

static void a_plan_that_is_wrong_is_told(void **state)
{
	(void)state;
	static const struct {
		const char *member, *value;
	} cases[] = {
		{"round", "0"},
		{"round", "1.5"},
		{"member", "-1"},
		{"seconds", "1e9"},
		{"steps", "\"many\""},
		{"spans", "[[1, 1]]"},
		{"spans", "[[2, 1]]"},
		{"spans", "[[-1, 1]]"},
		{"spans", "[[1, 2, 3]]"},
		{"spans", "[7]"},
		{"spans", "[[1,2],[2,3],[3,4],[4,5],[5,6]]"},
		{"spans", "[[0, 2000000000000000000]]"},
		{"listed", "[16]"},
		{"listed", "[-1]"},
		{"listed", "[\"1\"]"},
		{"listed", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"},
		{"parent", "{}"},
		{"parent", "7"},
		{"aggregators", "[7]"},
		{"aggregators", "[{\"member\": 1, \"address\": \"a:1\"}]"},
		{"aggregators", "[{\"member\": 1, \"address\": \"a b\", \"shards\": []}]"},
		{"aggregators", "[{\"member\": 1, \"address\": \"a:1\", \"shards\": [[0, 1025]]}]"},
		{"aggregators", "[{\"member\": 1, \"address\": \"a:1\", \"shards\": [[2, 2]]}]"},
		{"sources", "[{\"member\": -1, \"address\": \"a:1\"}]"},
		{"sources", "[{\"member\": 1, \"address\": \"a:1\", \"more\": 1}]"},
		{"sources", "{}"},
		{"more", "1"},
		{"validate", "null"},
	};
	struct plan p = some_plan(), q;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct why why = {0};
		json_t *body = plan_json(&p);
		json_object_set_new(
			body, cases[i].member, json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
		assert_int_equal(plan_parse(body, &p.run, &q, &why), ERR_syntax);
		assert_non_null(strstr(why.text, cases[i].member));
		json_decref(body);
	}
}

/* ---- records */

struct chain {
	struct buf bytes[3];
	struct record record[3];
	struct help_round_bundle bundle[3];
	struct ledger_head from, to;
};

static void chain_init(struct chain *c)
{
	c->from = c->to = (struct ledger_head){4, 2, help_round_hash(3)};
	for (uint32_t i = 0; i < 3; i++) {
		struct help_round_want want = {.parent = help_round_hash(2),
			.round = 3,
			.shard = i,
			.count = i,
			.codec = {SELECT_topk, VALUES_two, false, 64, 4, 0, 0},
			.n = 100,
			.seed = i};
		help_round_make(&want, &c->bundle[i]);
		struct ledger_entry e = {.sequence = c->to.sequence + 1,
			.round = 3,
			.shard = i,
			.previous = c->to.hash};
		assert_int_equal(update_list(&c->bundle[i].update, &e), ERR_OK);
		buf_init(&c->bytes[i], 1 << 20);
		assert_int_equal(record_encode(&e, c->bundle[i].bytes.data, c->bundle[i].bytes.len,
					 &c->bytes[i]),
			ERR_OK);
		c->to = (struct ledger_head){e.sequence, e.round, {{0}}};
		assert_int_equal(ledger_entry_hash(&e, &c->to.hash), ERR_OK);
		free(e.accepted);
		assert_int_equal(
			record_open(c->bytes[i].data, c->bytes[i].len, &c->record[i], NULL),
			ERR_OK);
	}
}

static void chain_release(struct chain *c)
{
	for (size_t i = 0; i < 3; i++) {
		record_release(&c->record[i]);
		help_round_drop(&c->bundle[i]);
		buf_release(&c->bytes[i]);
	}
}

static void records_lead_from_head_to_head(void **state)
{
	(void)state;
	struct chain c;
	struct why why = {0};
	chain_init(&c);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(
			update_matches(&c.record[i].update, &c.record[i].entry, &why), ERR_OK);
	assert_int_equal(record_chain(c.record, 3, &c.from, &c.to, &why), ERR_OK);
	assert_int_equal(record_chain(c.record, 0, &c.from, &c.from, &why), ERR_OK);
	assert_int_equal(record_chain(c.record, 2, &c.from, &c.to, &why), ERR_fork);
	assert_int_equal(record_chain(c.record + 1, 2, &c.from, &c.to, &why), ERR_fork);
	help_round_told(&why, ERR_fork, "entry 6 does not follow entry 4");
	struct ledger_head other = c.from;
	other.hash = help_round_hash(8);
	assert_int_equal(record_chain(c.record, 3, &other, &c.to, &why), ERR_fork);
	other = c.to;
	other.hash = help_round_hash(8);
	assert_int_equal(record_chain(c.record, 3, &c.from, &other, &why), ERR_fork);
	chain_release(&c);
}

static void a_record_cut_short_is_refused(void **state)
{
	(void)state;
	struct chain c;
	struct record r;
	struct why why = {0};
	chain_init(&c);
	for (size_t len = 0; len < c.bytes[2].len; len++) {
		assert_int_not_equal(record_open(c.bytes[2].data, len, &r, &why), ERR_OK);
		assert_null(r.entry.accepted);
		assert_null(r.update.views);
	}
	struct buf small;
	buf_init(&small, c.bytes[2].len - 1);
	assert_int_equal(record_encode(&c.record[2].entry, c.bundle[2].bytes.data,
				 c.bundle[2].bytes.len, &small),
		ERR_toobig);
	buf_release(&small);
	chain_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_cut_anywhere_is_the_same_list),
		cmocka_unit_test(what_is_no_prefix_is_told),
		cmocka_unit_test(a_plan_comes_back),
		cmocka_unit_test(a_plan_that_is_wrong_is_told),
		cmocka_unit_test(records_lead_from_head_to_head),
		cmocka_unit_test(a_record_cut_short_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
