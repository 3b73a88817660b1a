/* The aggregator's thread: what it takes, what it makes of it, and what it refuses. */
#include "tests/help_aggregate.h"

/* ---- taking and making */

static void check_receipt(
	const struct bed *b, const struct aggregate_result *r, uint32_t member, const struct buf *c)
{
	struct contribution_view v;
	struct why why = {0};
	assert_int_equal(r->from.ref, c->len);
	assert_int_equal(r->from.key[0], 7);
	assert_int_equal(r->round, b->round);
	assert_int_equal(r->shard, 1);
	assert_int_equal(r->size, c->len);
	assert_true(r->len < c->len);
	assert_memory_equal(r->bytes, c->data, r->len);
	help_peer_fine(contribution_parse_statement(r->bytes, r->len, &v, &why), &why);
	assert_int_equal(v.says.peer, member);
	struct sign_public key = sign_public_of(help_peer_key(member));
	help_peer_fine(contribution_verify(&v, key.b, &why), &why);
}

static void check_updates(const char *const *changes, enum update_kind kind)
{
	static const uint32_t order[] = {3, 1, 2};
	struct bed b;
	open_bed(&b, changes, LOTS);
	for (int i = 0; i < 6; i++) { /* and all again: the same receipts */
		struct buf c = contribution(&b, order[i % 3], 1);
		put_bytes(&b, c.data, c.len);
		struct aggregate_result *r = fine(&b, AGGREGATE_taken);
		check_receipt(&b, r, order[i % 3], &c);
		aggregate_result_free(r);
		buf_release(&c);
	}
	const struct aggregate_from from = {.ref = 5, .own = true};
	for (uint32_t last = 3; last >= 2; last--) { /* of all, then of two */
		struct update_made want = make(&b, 1, 1, last, true),
				   all = make(&b, 1, 1, last, false);
		assert_int_equal(want.update.kind, kind);
		gather(&b, 1, 1, last);
		gather(&b, 1, 1, last);
		aggregate_bundle(b.a, &from, ROUND, 1);
		struct aggregate_result *r = fine(&b, AGGREGATE_update);
		struct aggregate_result *again = fine(&b, AGGREGATE_update);
		struct aggregate_result *bundle = fine(&b, AGGREGATE_bundle);
		same(r->shared, &want);
		same(again->shared, &want);
		same(bundle->shared, &all);
		assert_true(bundle->from.own && bundle->from.ref == 5);
		assert_int_equal(bundle->round, ROUND);
		assert_int_equal(bundle->shard, 1);
		aggregate_result_free(r);
		aggregate_result_free(again);
		aggregate_result_free(bundle);
		update_make_release(&want);
		update_make_release(&all);
	}
	close_bed(&b);
}

static void an_update_is_what_a_closing_makes(void **state)
{
	(void)state;
	check_updates(bundling, UPDATE_bundle);
	check_updates(merging, UPDATE_merged);
}

static void of_nobody_there_is_an_empty_bundle(void **state)
{
	(void)state;
	struct bed b;
	open_bed(&b, merging, LOTS);
	aggregate_gather(b.a, ROUND, 0, NULL, 0);
	struct aggregate_result *r = fine(&b, AGGREGATE_update);
	assert_int_equal(shared_len(r->shared), UPDATE_HEAD);
	aggregate_result_free(r);
	close_bed(&b);
}

static void what_is_missing_is_named(void **state)
{
	(void)state;
	struct bed b;
	const struct aggregate_from from = {.own = true};
	open_bed(&b, bundling, LOTS);
	put(&b, 1, 0);
	put(&b, 3, 0);
	struct aggregate_item *items = list(&b, 0, 1, 3);
	items[2].id.b[0] ^= 1; /* another one of the same peer */
	aggregate_bundle(b.a, &from, ROUND, 0);
	refused(&b, AGGREGATE_bundle, ERR_missing, "nothing of it was gathered here");
	aggregate_gather(b.a, ROUND, 0, items, 3);
	refused(&b, AGGREGATE_update, ERR_missing, "not here: 2, 3");
	items = alloc_must_zero(100, sizeof *items);
	for (uint32_t i = 0; i < 100; i++)
		items[i].peer = 4000000000u + i;
	aggregate_gather(b.a, ROUND, 0, items, 100);
	refused(&b, AGGREGATE_update, ERR_missing, "4000000015 and 84 more");
	aggregate_gather(b.a, ROUND, 2, list(&b, 0, 1, 1), 1);
	refused(&b, AGGREGATE_update, ERR_shape, "no shard 2");
	close_bed(&b);
}

/* ---- refusals */

struct bad {
	const char *what, *part;
	enum err code;
	void (*change)(struct contribution *c);
	uint32_t member, signer;
	double size;
};

static void as_it_is(struct contribution *c)
{
	(void)c;
}

static void another_run(struct contribution *c)
{
	c->run.b[0] ^= 1;
}

static void another_parent(struct contribution *c)
{
	c->parent.b[0] ^= 1;
}

static void the_round_before(struct contribution *c)
{
	c->round--;
}

static void the_next_round(struct contribution *c)
{
	c->round++;
}

static void no_such_shard(struct contribution *c)
{
	c->shard = 2;
}

static void another_part(struct contribution *c)
{
	c->part = 1;
}

static void not_taken(struct contribution *c)
{
	c->shard = 1;
}

static void other_tokens(struct contribution *c)
{
	c->tokens++;
}

static void all_tokens_there_are(struct contribution *c)
{
	c->spans[0].last = 1ull << 60; /* times 16 is 0 */
	c->spans[0].first = 0;
	c->tokens = 0;
}

static const struct bad bads[] = {
	{"run", "is for run", ERR_wrong_run, another_run, 1, 1, 1},
	{"parent", "starts from ledger head", ERR_wrong_parent, another_parent, 1, 1, 1},
	{"late", "open is round 3", ERR_wrong_round, the_round_before, 1, 1, 1},
	{"early", "not open at this aggregator yet", ERR_busy, the_next_round, 1, 1, 1},
	{"no shard", "no shard 2", ERR_shape, no_such_shard, 1, 1, 1},
	{"part", "part 1", ERR_shape, another_part, 1, 1, 1},
	{"not taken", "shard 1 of round 3 is not taken here", ERR_refused, not_taken, 1, 1, 1},
	{"stranger", "not on the roster", ERR_unknown_peer, as_it_is, 4, 4, 1},
	{"forged", "not that of peer 1", ERR_signature, as_it_is, 1, 2, 1},
	{"tokens", "its data has", ERR_tokens, other_tokens, 1, 1, 1},
	{"many", "more than any round has", ERR_tokens, all_tokens_there_are, 1, 1, 1},
	{"norm", "the limit is", ERR_norm, as_it_is, 1, 1, 1e9},
};

static void what_does_not_count_is_refused(void **state)
{
	(void)state;
	struct bed b;
	open_bed(&b, bundling, LOTS);
	open_round(&b, ROUND, true, false);
	for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
		const struct bad *bad = &bads[i];
		struct contribution c = says(&b, bad->member, 0);
		bad->change(&c);
		struct buf bytes = seal(&b, &c, bad->signer, bad->size);
		put_bytes(&b, bytes.data, bytes.len);
		refused(&b, AGGREGATE_taken, bad->code, bad->part);
		buf_release(&bytes);
	}
	aggregate_gather(b.a, ROUND, 0, list(&b, 0, 1, 1), 1);
	refused(&b, AGGREGATE_update, ERR_missing, "not here: 1"); /* nothing of it was kept */
	close_bed(&b);
}

static void damaged_bytes_are_refused(void **state)
{
	(void)state;
	struct bed b;
	open_bed(&b, bundling, LOTS);
	struct buf c = contribution(&b, 1, 0);
	put_bytes(&b, "no contribution at all", 22);
	refused(&b, AGGREGATE_taken, ERR_magic, "are no contribution");
	put_bytes(&b, c.data, 100);
	refused(&b, AGGREGATE_taken, ERR_truncated, "ends in its header");
	c.data[c.len - 1] ^= 1;
	put_bytes(&b, c.data, c.len);
	struct aggregate_result *r = next(&b, AGGREGATE_taken);
	assert_int_not_equal(r->why.code, ERR_OK);
	assert_true(r->why.text[0]);
	aggregate_result_free(r);
	c.data[c.len - 1] ^= 1;
	struct buf longer;
	buf_init(&longer, 1 << 20);
	buf_put(&longer, c.data, c.len);
	memset(buf_grow(&longer, 1 << 18), 0, 1 << 18);
	put_bytes(&b, longer.data, longer.len);
	refused(&b, AGGREGATE_taken, ERR_toobig, "has at most");
	buf_release(&longer);

	/* The first one of a peer counts. */
	struct contribution other = says(&b, 1, 0);
	put_bytes(&b, c.data, c.len);
	aggregate_result_free(fine(&b, AGGREGATE_taken));
	struct buf second = seal(&b, &other, 1, 0.5);
	put_bytes(&b, second.data, second.len);
	refused(&b, AGGREGATE_taken, ERR_exists, "peer 1 contributed to round 3 shard 0 already");
	buf_release(&second);
	buf_release(&c);
	close_bed(&b);
}

static void before_anything_is_open_all_have_to_wait(void **state)
{
	(void)state;
	struct bed b;
	open_bed(&b, bundling, LOTS);
	aggregate_free(b.a);
	const struct aggregate_config config = {b.run.spec, b.results, LOTS};
	struct buf c = contribution(&b, 1, 0);
	assert_int_equal(aggregate_new(&config, &b.a, NULL), ERR_OK);
	put_bytes(&b, c.data, c.len);
	refused(&b, AGGREGATE_taken, ERR_busy, "not open at this aggregator yet");
	aggregate_open(b.a, ROUND, &b.parent, NULL);
	put_bytes(&b, c.data, c.len);
	refused(&b, AGGREGATE_taken, ERR_refused, "not taken here");
	open_round(&b, ROUND, true, true);
	put_bytes(&b, c.data, c.len);
	refused(&b, AGGREGATE_taken, ERR_unknown_peer, "not on the roster");
	aggregate_roster(b.a, b.run.roster);
	put_bytes(&b, c.data, c.len);
	aggregate_result_free(fine(&b, AGGREGATE_taken));
	buf_release(&c);
	close_bed(&b);
}

static void who_has_no_turn_is_refused(void **state)
{
	(void)state;
	static const char *const turns[] = {"round.mode=timed", "round.steps=null",
		"round.seconds=5", "round.overlap=true", "round.fragments=2", NULL};
	struct bed b;
	open_bed(&b, turns, LOTS);
	struct buf c = contribution(&b, 1, 1); /* rounds 1, 3, …: shard 0 */
	put_bytes(&b, c.data, c.len);
	refused(&b, AGGREGATE_taken, ERR_shape, "not the turn of shard 1");
	put(&b, 1, 0);
	buf_release(&c);
	close_bed(&b);
}

/* ---- rounds and memory */

static void rounds_are_kept_as_long_as_they_are_needed(void **state)
{
	(void)state;
	struct bed b;
	const struct aggregate_from from = {.own = true};
	open_bed(&b, merging, LOTS);
	struct bed at = b; /* as round 3 has it */
	struct buf late = contribution(&at, 3, 1);
	put(&b, 1, 1);
	put(&b, 2, 1);
	gather(&at, 1, 1, 2);
	aggregate_result_free(fine(&b, AGGREGATE_update));
	open_round(&b, ROUND + 1, false, true);
	put_bytes(&b, late.data, late.len);
	refused(&b, AGGREGATE_taken, ERR_wrong_round, "open is round 4");
	gather(&at, 1, 1, 1); /* also another list, and its bundle */
	aggregate_bundle(b.a, &from, ROUND, 1);
	aggregate_result_free(fine(&b, AGGREGATE_update));
	aggregate_result_free(fine(&b, AGGREGATE_bundle));
	put(&b, 1, 1);
	open_round(&b, ROUND + 2, true, true);
	gather(&at, 1, 1, 2);
	refused(&b, AGGREGATE_update, ERR_wrong_round, "nothing is kept here of round 3");
	aggregate_bundle(b.a, &from, ROUND, 1);
	refused(&b, AGGREGATE_bundle, ERR_wrong_round, "open is round 5");

	/* Of a shard that goes to somebody else nothing stays; what goes on stays. */
	put(&b, 1, 0);
	put(&b, 1, 1);
	open_round(&b, ROUND + 2, true, false);
	open_round(&b, ROUND + 2, true, true);
	gather(&b, 0, 1, 1);
	aggregate_result_free(fine(&b, AGGREGATE_update));
	gather(&b, 1, 1, 1);
	refused(&b, AGGREGATE_update, ERR_missing, "not here: 1");
	/* The same round from another head is another round. */
	struct hash other = hash_of("x", 1);
	const bool takes[2] = {true, true};
	aggregate_open(b.a, ROUND + 2, &other, takes);
	gather(&b, 0, 1, 1);
	refused(&b, AGGREGATE_update, ERR_missing, "not here: 1");
	buf_release(&late);
	close_bed(&b);
}

static void memory_is_bounded(void **state)
{
	(void)state;
	struct bed b;
	open_bed(&b, bundling, LOTS);
	aggregate_free(b.a);
	struct buf first = contribution(&b, 1, 0), second = contribution(&b, 2, 0),
		   third = contribution(&b, 3, 0);
	const struct aggregate_config config = {b.run.spec, b.results, first.len + second.len};
	assert_int_equal(aggregate_new(&config, &b.a, NULL), ERR_OK);
	aggregate_roster(b.a, b.run.roster);
	open_round(&b, ROUND, true, true);
	put(&b, 1, 0);
	put(&b, 2, 0);
	put_bytes(&b, third.data, third.len);
	refused(&b, AGGREGATE_taken, ERR_full, "send it to the coordinator");
	put(&b, 1, 0); /* what is here is here */
	/* The round before makes room, its update stays. */
	struct bed at = b;
	gather(&at, 0, 1, 2);
	aggregate_result_free(fine(&b, AGGREGATE_update));
	open_round(&b, ROUND + 1, true, true);
	put(&b, 3, 0);
	gather(&at, 0, 1, 2);
	aggregate_result_free(fine(&b, AGGREGATE_update));
	gather(&at, 0, 1, 1);
	refused(&b, AGGREGATE_update, ERR_missing, "not here: 1");
	buf_release(&first);
	buf_release(&second);
	buf_release(&third);
	close_bed(&b);
}

static void what_waits_is_bounded_and_dropped_at_the_end(void **state)
{
	(void)state;
	struct bed b;
	open_bed(&b, bundling, LOTS);
	aggregate_free(b.a);
	const struct aggregate_config config = {b.run.spec, b.results, 100};
	struct buf c = contribution(&b, 1, 0);
	assert_int_equal(aggregate_new(&config, &b.a, NULL), ERR_OK);
	put_bytes(&b, c.data, c.len);
	refused(&b, AGGREGATE_taken, ERR_full, "more contributions waiting");
	put_bytes(&b, "but this one fits", 17);
	refused(&b, AGGREGATE_taken, ERR_magic, "are no contribution");
	for (int i = 0; i < 100; i++) {
		put_bytes(&b, c.data, c.len);
		gather(&b, 0, 1, 3);
	}
	buf_release(&c);
	close_bed(&b);
}

static void a_spec_that_cannot_be_exchanged_is_refused(void **state)
{
	(void)state;
	struct bed b;
	struct why why = {0};
	open_bed(&b, bundling, LOTS);
	struct spec other = *b.run.spec;
	struct aggregate *none = NULL;
	const struct aggregate_config config = {&other, b.results, LOTS};
	strcpy(other.outer.rule, "votes");
	assert_int_equal(aggregate_new(&config, &none, &why), ERR_unsupported);
	help_peer_told(&why, ERR_unsupported, "votes");
	assert_null(none);
	aggregate_free(NULL);
	aggregate_result_free(NULL);
	close_bed(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, help_peer_setup, help_peer_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_update_is_what_a_closing_makes),
		TEST(of_nobody_there_is_an_empty_bundle),
		TEST(what_is_missing_is_named),
		TEST(what_does_not_count_is_refused),
		TEST(damaged_bytes_are_refused),
		TEST(before_anything_is_open_all_have_to_wait),
		TEST(who_has_no_turn_is_refused),
		TEST(rounds_are_kept_as_long_as_they_are_needed),
		TEST(memory_is_bounded),
		TEST(what_waits_is_bounded_and_dropped_at_the_end),
		TEST(a_spec_that_cannot_be_exchanged_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
