/* What a chaos run counts: no sequence may be listed twice, whatever kind of update lists it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "round/blob.h"
#include "round/record.h"
#include "tests/chaos/listed.h"
#include "tests/help_round.h"

#define N 2048u
#define PEERS 8u
#define EACH 10u /* sequences of a contribution of help_round_says */

static const struct codec_params codec = {SELECT_topk, VALUES_two, false, 512, 16, 0, 0};

static struct hash put(const char *folder, const struct buf *b)
{
	struct blob_store *s;
	struct hash name;
	struct why why = {0};
	if (blob_open(help_round_path(folder), 0, &s, &why) ||
		blob_put(s, b->data, b->len, &name, &why))
		fail_msg("%s", why.text);
	blob_close(s);
	return name;
}

static struct hash put_record(const char *folder, const struct buf *update, const struct update *u)
{
	struct ledger_entry e = {.sequence = 1, .round = u->head.round, .shard = u->head.shard};
	struct buf record;
	buf_init(&record, 1 << 24);
	assert_int_equal(update_list(u, &e), ERR_OK);
	assert_int_equal(record_encode(&e, update->data, update->len, &record), ERR_OK);
	struct hash name = put(folder, &record);
	ledger_entry_release(&e);
	buf_release(&record);
	return name;
}

/* The data of each peer is the same in every round and shard (help_round_says). */
static struct help_round_bundle bundle(uint64_t round, uint32_t shard)
{
	struct help_round_bundle b;
	const struct help_round_want w = {.parent = help_round_hash(2),
		.round = round,
		.shard = shard,
		.count = PEERS,
		.codec = codec,
		.n = N,
		.seed = round,
		.alike = 4};
	help_round_make(&w, &b);
	return b;
}

static struct hash put_bundle(const char *folder, uint64_t round, uint32_t shard)
{
	struct help_round_bundle b = bundle(round, shard);
	struct hash name = put_record(folder, &b.bytes, &b.update);
	help_round_drop(&b);
	return name;
}

static void add(struct listed *l, uint64_t entry, const struct hash *record)
{
	struct why why = {0};
	if (listed_add(l, entry, record, &why))
		fail_msg("%s", why.text);
}

static void shards_are_counted_apart_and_repeats_named(void **state)
{
	(void)state;
	struct listed l = {0};
	struct why why = {0};
	uint64_t count;
	struct hash one = put_bundle("plain", 1, 0), two = put_bundle("plain", 1, 1),
		    again = put_bundle("plain", 2, 1);
	listed_look(&l, help_round_path("plain"));
	add(&l, 1, &one);
	add(&l, 2, &two);
	assert_int_equal(listed_once(&l, &count, &why), ERR_OK);
	assert_int_equal(count, 2 * PEERS * EACH);
	add(&l, 4, &again);
	assert_int_equal(listed_once(&l, &count, &why), ERR_duplicate);
	help_round_told(&why, ERR_duplicate, "sequence 100 of shard 1 is listed twice");
	listed_release(&l);
}

static void what_is_merged_is_known_by_its_inputs(void **state)
{
	(void)state;
	struct listed l = {0};
	struct why why = {0};
	struct help_round_bundle b = bundle(1, 0);
	struct rule_params rule;
	struct update_expect e = {.run = help_round_hash(1),
		.parent = help_round_hash(2),
		.codec = codec,
		.merged = VALUES_int8,
		.n = N,
		.key = help_round_lookup};
	struct update u;
	struct buf merged;
	uint64_t count;
	assert_int_equal(rule_find("sparseloco", 0.7, 0.9, &rule, NULL), ERR_OK);
	buf_init(&merged, update_merge_bound(&codec, VALUES_int8, N, PEERS));
	assert_int_equal(update_merge(&b.update, &rule, VALUES_int8, &merged, &why), ERR_OK);
	assert_int_not_equal(merged.len, 0);
	assert_int_equal(update_open(merged.data, merged.len, &u, &why), ERR_OK);
	assert_int_equal(update_verify(&u, &e, &why), ERR_OK);
	struct hash record = put_record("merged", &merged, &u);
	listed_look(&l, help_round_path("merged"));
	assert_int_equal(listed_add(&l, 1, &record, &why), ERR_missing);
	help_round_told(&why, ERR_missing, "a contribution that ledger entry 1 merged");
	for (uint32_t i = 0; i < PEERS; i++) {
		struct buf one;
		buf_init(&one, b.update.views[i].len);
		buf_put(&one, b.update.views[i].bytes, b.update.views[i].len);
		put("merged", &one);
		buf_release(&one);
	}
	listed_look(&l, help_round_path("merged"));
	add(&l, 1, &record);
	assert_int_equal(listed_once(&l, &count, &why), ERR_OK);
	assert_int_equal(count, PEERS * EACH);
	listed_release(&l);
	update_release(&u);
	buf_release(&merged);
	help_round_drop(&b);
}

static void what_was_dropped_is_remembered_and_what_was_never_seen_missed(void **state)
{
	(void)state;
	struct listed l = {0};
	struct why why = {0};
	struct blob_store *s;
	struct hash one = put_bundle("dropped", 1, 0);
	listed_look(&l, help_round_path("dropped"));
	assert_int_equal(blob_open(help_round_path("dropped"), 0, &s, &why), ERR_OK);
	assert_int_equal(blob_remove(s, &one, &why), ERR_OK);
	blob_close(s);
	listed_look(&l, help_round_path("dropped"));
	add(&l, 1, &one);
	struct hash other = help_round_hash(9);
	assert_int_equal(listed_add(&l, 2, &other, &why), ERR_missing);
	help_round_told(&why, ERR_missing, "the record of ledger entry 2 was never seen");
	listed_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shards_are_counted_apart_and_repeats_named),
		cmocka_unit_test(what_is_merged_is_known_by_its_inputs),
		cmocka_unit_test(what_was_dropped_is_remembered_and_what_was_never_seen_missed),
	};
	return cmocka_run_group_tests(tests, help_round_setup, help_round_teardown);
}
