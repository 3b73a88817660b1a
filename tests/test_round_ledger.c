/* The chain: what follows, what is a fork, where two chains part, and the accounts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "round/ledger.h"
#include "tests/help_round.h"

#define SHARDS 3u

static struct ledger *fresh(void)
{
	struct hash run = help_round_hash(1), states[SHARDS];
	for (uint32_t i = 0; i < SHARDS; i++)
		states[i] = help_round_hash(100 + i);
	return ledger_new(&run, states, SHARDS);
}

/* The entry that may come next, with count peers from 1 on; salt makes it another one, every fifth
 * a merged one. */
static struct ledger_entry next(const struct ledger *l, uint32_t count, uint32_t salt)
{
	struct ledger_head at = ledger_at(l);
	struct ledger_entry e = {.sequence = at.sequence + 1,
		.shard = (uint32_t)(at.sequence % SHARDS),
		.state = help_round_hash(salt + 10000),
		.previous = at.hash,
		.count = count};
	e.round = at.sequence / SHARDS + 1;
	if (count && salt % 5 == 4) {
		e.kind = UPDATE_merged;
		e.merged = help_round_hash(salt + 30000);
	}
	if (count)
		e.accepted = alloc_must_zero(count, sizeof *e.accepted);
	for (uint32_t i = 0; i < count; i++)
		e.accepted[i] = (struct ledger_accepted){
			i + 1, 1000 + i, help_round_hash(salt + 20000 + i)};
	e.update = ledger_update_hash(&e);
	return e;
}

static void grow(struct ledger *l, unsigned entries, uint32_t salt)
{
	struct why why = {0};
	for (unsigned i = 0; i < entries; i++) {
		struct ledger_entry e = next(l, i % 4, salt + i);
		if (ledger_append(l, &e, &why))
			fail_msg("%s", why.text);
		ledger_entry_release(&e);
	}
}

static void entries_are_written_and_read(void **state)
{
	(void)state;
	struct ledger *l = fresh();
	struct buf b;
	buf_init(&b, 1 << 20);
	struct hash hashes[10];
	for (uint32_t i = 0; i < 10; i++) {
		struct ledger_entry e = next(l, i, i);
		assert_int_equal(ledger_entry_encode(&e, &b), ERR_OK);
		assert_int_equal(ledger_append(l, &e, NULL), ERR_OK);
		hashes[i] = ledger_at(l).hash;
		ledger_entry_release(&e);
	}
	/* A second ledger from the bytes alone. */
	struct ledger *again = fresh();
	size_t at = 0, used;
	for (uint32_t i = 0; i < 10; i++) {
		struct ledger_entry e;
		struct why why = {0};
		for (size_t cut = 0; cut < 140 && i == 3; cut++) {
			assert_int_equal(ledger_entry_decode(b.data + at, cut, &used, &e, &why),
				ERR_truncated);
			assert_int_equal(used, 0);
		}
		if (ledger_entry_decode(b.data + at, b.len - at, &used, &e, &why))
			fail_msg("%s", why.text);
		assert_int_equal(e.count, i);
		assert_int_equal(e.kind, i % 5 == 4 ? UPDATE_merged : UPDATE_bundle);
		assert_int_equal(ledger_append(again, &e, NULL), ERR_OK);
		struct hash here = ledger_at(again).hash;
		assert_true(hash_equal(&here, &hashes[i]));
		ledger_entry_release(&e);
		at += used;
	}
	assert_int_equal(at, b.len);
	buf_release(&b);
	ledger_free(l);
	ledger_free(again);
}

static void bytes_that_are_no_entry_are_refused(void **state)
{
	(void)state;
	struct ledger *l = fresh();
	struct ledger_entry e = next(l, 3, 0), out;
	struct buf b;
	struct why why = {0};
	size_t used;
	buf_init(&b, 1000);
	assert_int_equal(ledger_entry_encode(&e, &b), ERR_OK);
	static const struct {
		size_t at;
		uint8_t value;
		enum err code;
		const char *part;
	} cases[] = {
		{3, 1, ERR_toobig, "claims"},
		{1, 0, ERR_syntax, "lists 3 contributions has not their size"}, /* 264 -> 8 */
		{4, 2, ERR_version, "version 2"},
		{6, 1, ERR_syntax, "has not their size"},
		{6, 2, ERR_unsupported, "an update of kind 2: install a newer version"},
		{128, 2, ERR_syntax, "lists 2 contributions"},
		{131, 255, ERR_syntax, "has not their size"},
		{132, 9, ERR_syntax, "out of order"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint8_t old = b.data[cases[i].at];
		b.data[cases[i].at] = cases[i].value;
		if (cases[i].at == 1)
			b.data[0] = 200;
		assert_int_equal(
			ledger_entry_decode(b.data, b.len, &used, &out, &why), cases[i].code);
		help_round_told(&why, cases[i].code, cases[i].part);
		assert_null(out.accepted);
		b.data[cases[i].at] = old;
		if (cases[i].at == 1)
			b.data[0] = 8;
	}
	alloc_fail_at(1);
	assert_int_equal(ledger_entry_decode(b.data, b.len, &used, &out, &why), ERR_nomem);
	alloc_fail_at(0);
	struct buf small;
	buf_init(&small, b.len - 1);
	assert_int_equal(ledger_entry_encode(&e, &small), ERR_toobig);
	buf_release(&small);
	buf_release(&b);
	ledger_entry_release(&e);
	ledger_free(l);
}

static void refuse(struct ledger *l, const struct ledger_entry *e, enum err code, const char *part)
{
	struct why why = {0};
	struct ledger_head before = ledger_at(l);
	uint64_t tokens = ledger_tokens(l);
	assert_int_equal(ledger_append(l, e, &why), code);
	help_round_told(&why, code, part);
	struct ledger_head after = ledger_at(l);
	assert_true(hash_equal(&before.hash, &after.hash));
	assert_int_equal(tokens, ledger_tokens(l));
}

static void what_does_not_follow_is_refused(void **state)
{
	(void)state;
	struct ledger *l = fresh();
	grow(l, 4, 0); /* round 2 is open: shard 0 is closed, 1 and 2 are not */
	struct ledger_entry e = next(l, 3, 7), good = e;
	assert_int_equal(e.shard, 1);
	e.sequence++;
	refuse(l, &e, ERR_fork, "does not follow");
	e = good;
	e.previous = help_round_hash(5);
	refuse(l, &e, ERR_fork, "does not follow");
	e = good;
	e.shard = SHARDS;
	refuse(l, &e, ERR_shape, "for shard 3 of 3");
	e = good;
	e.part = 1;
	refuse(l, &e, ERR_unsupported, "part 1");
	e = good;
	e.round = 3;
	refuse(l, &e, ERR_wrong_round, "closes round 3 of shard 1, which stands at round 1");
	e = good;
	e.shard = 0; /* has its entry for this round */
	refuse(l, &e, ERR_wrong_round, "of shard 0, which stands at round 2 while round 2 is open");
	e.round = 3; /* its next, but the others are not there yet */
	refuse(l, &e, ERR_wrong_round, "while round 2 is open");
	e = good;
	e.update = help_round_hash(5);
	refuse(l, &e, ERR_hash, "is not the list");
	e = good;
	e.kind = UPDATE_merged;
	refuse(l, &e, ERR_hash, "is not the list");
	e.count = 0;
	e.update = ledger_update_hash(&e);
	refuse(l, &e, ERR_syntax, "has merged the contributions of nobody");
	e = good;
	e.accepted[2].tokens = 0;
	refuse(l, &e, ERR_tokens, "peer 3 with 0 tokens");
	e.accepted[2].tokens = LEDGER_TOKENS_MAX;
	refuse(l, &e, ERR_tokens, "peer 3 with");
	e.accepted[2].tokens = 1002;
	e.accepted[2].peer = 2;
	refuse(l, &e, ERR_syntax, "out of order");
	e.accepted[2].peer = 3;
	for (long at = 1; at <= 2; at++) {
		struct why why = {0};
		alloc_fail_at(at);
		enum err err = ledger_append(l, &e, &why);
		alloc_fail_at(0);
		if (!err)
			break;
		assert_int_equal(err, ERR_nomem);
	}
	ledger_entry_release(&good);
	ledger_free(l);
}

static void an_empty_round_is_a_round(void **state)
{
	(void)state;
	struct ledger *l = fresh();
	for (unsigned i = 0; i < 2 * SHARDS; i++) {
		struct ledger_entry e = next(l, 0, i);
		assert_int_equal(ledger_append(l, &e, NULL), ERR_OK);
		assert_int_equal(ledger_closed(l), i % SHARDS == SHARDS - 1);
	}
	assert_int_equal(ledger_at(l).round, 2);
	assert_int_equal(ledger_round(l, 2), 2);
	assert_int_equal(ledger_tokens(l), 0);
	assert_int_equal(ledger_peers(l), 0);
	ledger_free(l);
}

static void the_parent_is_where_the_round_began(void **state)
{
	(void)state;
	struct ledger *l = fresh();
	for (unsigned i = 0; i < 3; i++) {
		struct hash began = ledger_at(l).hash;
		for (unsigned j = 0; j < SHARDS; j++) {
			struct hash parent = ledger_parent(l);
			assert_true(hash_equal(&parent, &began));
			grow(l, 1, 10 * i + j);
		}
		struct hash parent = ledger_parent(l), now = ledger_at(l).hash;
		assert_true(hash_equal(&parent, &now));
	}
	ledger_free(l);
}

static void heads_are_placed(void **state)
{
	(void)state;
	struct ledger *a = fresh(), *b = fresh();
	struct why why = {0};
	grow(a, 5, 0);
	struct ledger_head old = ledger_at(a);
	grow(a, 5, 50);
	grow(b, 5, 0);
	struct ledger_head same = ledger_at(b);
	assert_true(hash_equal(&same.hash, &old.hash));
	assert_int_equal(ledger_check_head(a, &old, &why), ERR_OK);
	assert_int_equal(ledger_check_head(a, &same, &why), ERR_OK);
	struct ledger_head ahead = ledger_at(a);
	assert_int_equal(ledger_check_head(b, &ahead, &why), ERR_missing);
	help_round_told(&why, ERR_missing, "entry 10, known here are those up to 5");
	grow(b, 3, 60); /* another history from entry 6 on */
	struct ledger_head fork = ledger_at(b);
	assert_int_equal(ledger_check_head(a, &fork, &why), ERR_fork);
	help_round_told(&why, ERR_fork, "another ledger entry 8");
	uint64_t common;
	assert_true(ledger_common(a, b, &common));
	assert_int_equal(common, 5);
	assert_true(ledger_common(b, a, &common));
	assert_int_equal(common, 5);

	/* One that began from a snapshot knows nothing of what was before. */
	struct hash states[SHARDS] = {{{0}}};
	struct ledger *late = ledger_new_at(&ahead, states, SHARDS);
	assert_int_equal(ledger_check_head(late, &old, &why), ERR_fork);
	help_round_told(&why, ERR_fork, "before entry 10");
	assert_true(ledger_common(a, late, &common));
	assert_int_equal(common, 10);
	assert_false(ledger_common(b, late, &common));
	struct hash h;
	assert_false(ledger_hash_at(late, 9, &h));
	assert_true(ledger_hash_at(late, 10, &h));
	assert_false(ledger_hash_at(late, 11, &h));

	struct hash run = help_round_hash(2);
	struct ledger *foreign = ledger_new(&run, states, SHARDS);
	assert_false(ledger_common(a, foreign, &common));
	ledger_free(foreign);
	ledger_free(late);
	ledger_free(a);
	ledger_free(b);
}

static void long_chains_part_where_they_part(void **state)
{
	(void)state;
	for (unsigned at = 0; at < 200; at += 13) {
		struct ledger *a = fresh(), *b = fresh();
		uint64_t common = 99;
		grow(a, at, 0);
		grow(b, at, 0);
		assert_true(ledger_common(a, b, &common));
		assert_int_equal(common, at);
		grow(a, 31, 1000);
		assert_true(ledger_common(a, b, &common));
		assert_int_equal(common, at);
		grow(b, 70, 2000);
		assert_true(ledger_common(a, b, &common));
		assert_int_equal(common, at);
		ledger_free(a);
		ledger_free(b);
	}
}

static void accounts_balance(void **state)
{
	(void)state;
	struct ledger *l = fresh();
	/* Peer 7 trains all shards on 500 tokens in each of 4 rounds, peer 2 only shard 1. */
	for (unsigned i = 0; i < 4 * SHARDS; i++) {
		struct ledger_entry e = next(l, 2, i);
		e.accepted[0] = (struct ledger_accepted){2, 300, help_round_hash(i)};
		e.accepted[1] = (struct ledger_accepted){7, 500, help_round_hash(i + 50)};
		if (e.shard != 1) {
			e.accepted[0] = e.accepted[1];
			e.count = 1;
		}
		e.update = ledger_update_hash(&e);
		assert_int_equal(ledger_append(l, &e, NULL), ERR_OK);
		ledger_entry_release(&e);
	}
	assert_int_equal(ledger_peer_tokens(l, 7), 2000);
	assert_int_equal(ledger_peer_tokens(l, 2), 400);
	assert_int_equal(ledger_peer_tokens(l, 3), 0);
	assert_int_equal(ledger_tokens(l), 2400);
	assert_int_equal(ledger_peers(l), 2);
	struct ledger_account a = ledger_account(l, 0);
	assert_int_equal(a.peer, 2);
	assert_int_equal(a.entries, 4);
	assert_int_equal(a.tokens, 400);
	ledger_free(l);
}

static void heads_travel_as_json(void **state)
{
	(void)state;
	struct hash run = help_round_hash(1), other = help_round_hash(2);
	struct ledger_head h = {77, 12, help_round_hash(3)}, back;
	struct why why = {0};
	json_t *body = ledger_head_json(&h, &run);
	assert_int_equal(ledger_head_parse(body, &run, &back, &why), ERR_OK);
	assert_int_equal(back.sequence, 77);
	assert_int_equal(back.round, 12);
	assert_true(hash_equal(&back.hash, &h.hash));
	assert_int_equal(ledger_head_parse(body, &other, &back, &why), ERR_wrong_run);
	json_object_set_new(body, "sequence", json_integer(-1));
	assert_int_equal(ledger_head_parse(body, &run, &back, &why), ERR_syntax);
	help_round_told(&why, ERR_syntax, "sequence");
	json_object_set_new(body, "sequence", json_integer(1));
	json_object_set_new(body, "more", json_integer(1));
	assert_int_equal(ledger_head_parse(body, &run, &back, &why), ERR_syntax);
	json_decref(body);
	body = json_array();
	assert_int_equal(ledger_head_parse(body, &run, &back, &why), ERR_syntax);
	json_decref(body);
}

static void golden_hashes(void **state)
{
	(void)state;
	struct ledger *l = fresh();
	char hex[HASH_HEX];
	struct hash h = ledger_at(l).hash;
	hash_hex(&h, hex);
	assert_string_equal(
		hex, "9867692645e3848649c8b489e1c6ece44ed4883956bb9d68586a743bae65e971");
	grow(l, 7, 0);
	h = ledger_at(l).hash;
	hash_hex(&h, hex);
	assert_string_equal(
		hex, "1e5194b3b5919fd89cb2afa19b698cc10f5f3c0e56174c444a9135f9fc6240dc");
	grow(l, 7, 3); /* a merged one among them */
	h = ledger_at(l).hash;
	hash_hex(&h, hex);
	assert_string_equal(
		hex, "45c9ce0c5ddcb022e2323132fd7cd2f518131c1ad572dae84554edc9a9996861");
	ledger_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_are_written_and_read),
		cmocka_unit_test(bytes_that_are_no_entry_are_refused),
		cmocka_unit_test(what_does_not_follow_is_refused),
		cmocka_unit_test(an_empty_round_is_a_round),
		cmocka_unit_test(the_parent_is_where_the_round_began),
		cmocka_unit_test(heads_are_placed),
		cmocka_unit_test(long_chains_part_where_they_part),
		cmocka_unit_test(accounts_balance),
		cmocka_unit_test(heads_travel_as_json),
		cmocka_unit_test(golden_hashes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
