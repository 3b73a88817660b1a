/* What an aggregator checks that others made: a witness' bundle, a record's halves, a list. */
#include "round/record.h"
#include "tests/help_aggregate.h"

/* ---- a witness */

/* Takes items. */
static void witness(struct bed *b, uint32_t shard, struct aggregate_item *items, size_t n,
	const struct buf *bundle)
{
	aggregate_witness(b->a, b->round, shard, items, n, copy_of(bundle), bundle->len);
}

static void a_witness_comes_to_the_same(void **state)
{
	(void)state;
	struct bed b;
	open_bed(&b, merging, LOTS);
	struct update_made bundle = make(&b, 1, 1, 3, false), want = make(&b, 1, 1, 3, true);
	witness(&b, 1, list(&b, 1, 1, 3), 3, &bundle.bytes);
	struct aggregate_result *r = fine(&b, AGGREGATE_verdict);
	assert_int_equal(r->round, ROUND);
	assert_int_equal(r->shard, 1);
	assert_true(hash_equal(&r->merged, &want.update.merged));
	aggregate_result_free(r);

	/* Another list, one that is shorter, the wrong shard or round, not a bundle. */
	struct aggregate_item *items = list(&b, 1, 1, 3);
	items[1].id.b[5] ^= 1;
	witness(&b, 1, items, 3, &bundle.bytes);
	refused(&b, AGGREGATE_verdict, ERR_hash, "contribution 2 of a bundle, of peer 2");
	witness(&b, 1, list(&b, 1, 1, 2), 2, &bundle.bytes);
	refused(&b, AGGREGATE_verdict, ERR_hash, "has 3 contributions, listed are 2");
	witness(&b, 0, list(&b, 1, 1, 3), 3, &bundle.bytes);
	refused(&b, AGGREGATE_verdict, ERR_shape, "expected is round 3 shard 0");
	witness(&b, 1, list(&b, 1, 1, 3), 3, &want.bytes);
	refused(&b, AGGREGATE_verdict, ERR_shape, "takes a bundle");
	b.round = ROUND + 1;
	witness(&b, 1, NULL, 0, &bundle.bytes);
	refused(&b, AGGREGATE_verdict, ERR_wrong_round, "nothing is kept here of round 4");
	b.round = ROUND;
	/* A forged one; bytes that are none. */
	bundle.bytes.data[bundle.bytes.len - 1] ^= 1;
	witness(&b, 1, list(&b, 1, 1, 3), 3, &bundle.bytes);
	r = next(&b, AGGREGATE_verdict);
	assert_int_not_equal(r->why.code, ERR_OK);
	aggregate_result_free(r);
	bundle.bytes.len = 40;
	witness(&b, 1, list(&b, 1, 1, 3), 3, &bundle.bytes);
	refused(&b, AGGREGATE_verdict, ERR_truncated, "ends inside its header");
	update_make_release(&bundle);
	update_make_release(&want);
	close_bed(&b);
}

/* A bundle of two: what peer 2 has in it is what the aggregator should have refused. */
static void check_bad_bundle(
	struct bed *b, struct contribution *c, double size, enum err code, const char *part)
{
	struct buf sealed[2] = {contribution(b, 1, 0), seal(b, c, 2, size)};
	const struct update_part parts[2] = {
		{sealed[0].data, sealed[0].len}, {sealed[1].data, sealed[1].len}};
	const struct update_head head = {b->run.spec->id, b->parent, b->round, 0, 0};
	struct aggregate_item *items = alloc_must_zero(2, sizeof *items);
	struct contribution_view v;
	struct buf bundle;
	buf_init(&bundle, 1 << 22);
	assert_int_equal(update_encode(&head, parts, 2, &bundle, NULL), ERR_OK);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(
			contribution_parse(sealed[i].data, sealed[i].len, &v, NULL), ERR_OK);
		items[i] = (struct aggregate_item){i + 1, contribution_id(&v)};
	}
	witness(b, 0, items, 2, &bundle);
	refused(b, AGGREGATE_verdict, code, part);
	buf_release(&bundle);
	buf_release(&sealed[0]);
	buf_release(&sealed[1]);
}

static void a_witness_lets_nothing_pass_the_gate(void **state)
{
	(void)state;
	struct bed b;
	open_bed(&b, merging, LOTS);
	struct contribution tokens = says(&b, 2, 0), norm = tokens;
	tokens.tokens = 1;
	check_bad_bundle(&b, &tokens, 1, ERR_tokens, "claims 1 tokens");
	check_bad_bundle(&b, &norm, 1e9, ERR_norm, "the limit is");
	close_bed(&b);
}

static void what_is_smaller_as_a_bundle_has_no_witness(void **state)
{
	(void)state;
	struct bed b;
	open_bed(&b, bundling, LOTS);
	struct update_made bundle = make(&b, 0, 1, 2, true);
	assert_int_equal(bundle.update.kind, UPDATE_bundle);
	witness(&b, 0, list(&b, 0, 1, 2), 2, &bundle.bytes);
	refused(&b, AGGREGATE_verdict, ERR_shape, "is smaller as a bundle");
	update_make_release(&bundle);
	close_bed(&b);
}

/* ---- a record */

static struct ledger_entry entry_of(const struct bed *b, const struct update_made *made)
{
	struct ledger_entry e = {.sequence = 6,
		.round = b->round,
		.shard = made->update.head.shard,
		.state = hash_of("state", 5),
		.previous = hash_of("previous", 8)};
	assert_int_equal(update_list(&made->update, &e), ERR_OK);
	return e;
}

static void compose(struct bed *b, const struct ledger_entry *e, const struct buf *update)
{
	struct buf entry;
	buf_init(&entry, LEDGER_ENTRY_MAX);
	assert_int_equal(ledger_entry_encode(e, &entry), ERR_OK);
	aggregate_compose(b->a, copy_of(&entry), entry.len, copy_of(update), update->len);
	buf_release(&entry);
}

static void check_record(struct bed *b, const struct ledger_entry *e, const struct buf *update)
{
	struct buf want;
	compose(b, e, update);
	struct aggregate_result *r = fine(b, AGGREGATE_record);
	assert_int_equal(r->round, e->round);
	assert_int_equal(r->shard, e->shard);
	assert_int_equal(r->sequence, e->sequence);
	buf_init(&want, RECORD_MAX);
	assert_int_equal(record_encode(e, update->data, update->len, &want), ERR_OK);
	assert_int_equal(r->len, want.len);
	assert_memory_equal(r->bytes, want.data, want.len);
	buf_release(&want);
	aggregate_result_free(r);
}

static void check_records(const char *const *changes)
{
	struct bed b;
	open_bed(&b, changes, LOTS);
	struct update_made made = make(&b, 1, 1, 3, true), other = make(&b, 1, 1, 2, true);
	struct ledger_entry e = entry_of(&b, &made);
	check_record(&b, &e, &made.bytes);
	compose(&b, &e, &other.bytes);
	refused(&b, AGGREGATE_record, ERR_hash, "is not the update of ledger entry 6");
	e.accepted[1].tokens++;
	compose(&b, &e, &made.bytes);
	refused(&b, AGGREGATE_record, ERR_hash, "is not the one that ledger entry 6 lists");
	e.accepted[1].tokens--;
	e.update.b[0] ^= 1;
	compose(&b, &e, &made.bytes);
	refused(&b, AGGREGATE_record, ERR_hash, "is not the list it carries");
	e.update.b[0] ^= 1;
	e.shard = 0;
	compose(&b, &e, &made.bytes);
	refused(&b, AGGREGATE_record, ERR_shape, "expected is round 3 shard 0");
	e.shard = 2;
	compose(&b, &e, &made.bytes);
	refused(&b, AGGREGATE_record, ERR_shape, "no shard 2");
	e.shard = 1;
	e.round = ROUND + 1;
	compose(&b, &e, &made.bytes);
	refused(&b, AGGREGATE_record, ERR_wrong_round, "nothing is kept here of round 4");
	e.round = ROUND;
	/* It comes when the next round is open already. */
	struct bed at = b;
	open_round(&b, ROUND + 1, false, false);
	check_record(&at, &e, &made.bytes);
	update_make_release(&made);
	update_make_release(&other);
	ledger_entry_release(&e);
	close_bed(&b);
}

static void an_entry_and_its_update_are_a_record(void **state)
{
	(void)state;
	check_records(bundling);
	check_records(merging);
}

static void what_is_no_entry_or_no_update_is_refused(void **state)
{
	(void)state;
	struct bed b;
	struct buf entry, update;
	open_bed(&b, bundling, LOTS);
	struct update_made made = make(&b, 0, 1, 3, true);
	struct ledger_entry e = entry_of(&b, &made);
	buf_init(&entry, LEDGER_ENTRY_MAX);
	assert_int_equal(ledger_entry_encode(&e, &entry), ERR_OK);
	aggregate_compose(b.a, copy_of(&entry), 50, copy_of(&made.bytes), made.bytes.len);
	refused(&b, AGGREGATE_record, ERR_truncated, "");
	buf_put_u8(&entry, 0);
	aggregate_compose(b.a, copy_of(&entry), entry.len, copy_of(&made.bytes), made.bytes.len);
	refused(&b, AGGREGATE_record, ERR_syntax, "1 bytes follow a ledger entry");
	compose(&b, &e, &entry);
	refused(&b, AGGREGATE_record, ERR_magic, "are no update");
	/* A forged signature; one that nobody on the roster made. */
	update = (struct buf){.data = copy_of(&made.bytes), .len = made.bytes.len};
	update.data[UPDATE_HEAD + 8 + 152 + 16] ^= 1;
	compose(&b, &e, &update);
	refused(&b, AGGREGATE_record, ERR_signature, "not that of peer 1");
	free(update.data);
	b.parent.b[0] ^= 1;
	struct update_made elsewhere = make(&b, 0, 1, 3, true);
	compose(&b, &e, &elsewhere.bytes);
	refused(&b, AGGREGATE_record, ERR_wrong_parent, "starts from another ledger head");
	update_make_release(&elsewhere);
	update_make_release(&made);
	buf_release(&entry);
	ledger_entry_release(&e);
	close_bed(&b);
}

/* ---- the list as it travels */

static enum err read_list(
	const struct buf *b, struct aggregate_item **items, size_t *n, struct why *why)
{
	return aggregate_list(b->data, b->len, items, n, why);
}

static void a_list_is_read_within_its_bounds(void **state)
{
	(void)state;
	struct buf b;
	struct aggregate_item *items;
	struct why why = {0};
	size_t n;
	buf_init(&b, 1 << 20);
	assert_int_equal(read_list(&b, &items, &n, &why), ERR_OK);
	assert_null(items);
	assert_int_equal(n, 0);
	for (uint32_t i = 0; i <= RULE_PEERS_MAX; i++) {
		struct hash id = hash_of(&i, sizeof i);
		buf_put_u32(&b, 3 * i);
		buf_put(&b, id.b, sizeof id.b);
		if (i != 2)
			continue;
		assert_int_equal(read_list(&b, &items, &n, &why), ERR_OK);
		assert_int_equal(n, 3);
		assert_int_equal(items[2].peer, 6);
		assert_true(hash_equal(&items[2].id, &id));
		free(items);
		b.len--;
		assert_int_equal(read_list(&b, &items, &n, &why), ERR_syntax);
		help_peer_told(&why, ERR_syntax, "no multiple of 36");
		b.len++;
		b.data[36] = 0; /* the second has the number of the first */
		assert_int_equal(read_list(&b, &items, &n, &why), ERR_syntax);
		help_peer_told(&why, ERR_syntax, "peer 0 after peer 0");
		assert_null(items);
		b.data[36] = 3;
	}
	assert_int_equal(read_list(&b, &items, &n, &why), ERR_toobig);
	help_peer_told(&why, ERR_toobig, "longer than 16384");
	b.len -= 36;
	alloc_fail_at(1);
	assert_int_equal(read_list(&b, &items, &n, &why), ERR_nomem);
	alloc_fail_at(0);
	assert_int_equal(read_list(&b, &items, &n, &why), ERR_OK);
	assert_int_equal(n, RULE_PEERS_MAX);
	free(items);
	buf_release(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, help_peer_setup, help_peer_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_witness_comes_to_the_same),
		TEST(a_witness_lets_nothing_pass_the_gate),
		TEST(what_is_smaller_as_a_bundle_has_no_witness),
		TEST(an_entry_and_its_update_are_a_record),
		TEST(what_is_no_entry_or_no_update_is_refused),
		TEST(a_list_is_read_within_its_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
