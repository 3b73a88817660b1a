/* Receipts of aggregators: what they say counts as the contribution itself, and who is to blame for
 * what is wrong. */
#include "tests/help_gather.h"
#include "base/log.h"
#include "round/contribution.h"

static bool has(struct hub *h, uint32_t i, uint32_t shard)
{
	return hub_member(h, number_of(i))->arrived[shard].have;
}

static void a_receipt_counts_as_the_contribution(void **state)
{
	(void)state;
	struct spec *spec = help_coordinator_spec();
	struct hub h;
	open_hub(&h, spec);
	struct buf c = seal(&h, 1, 0);
	receipt(&h, 1, 0);
	assert_true(has(&h, 1, 0));
	assert_int_equal(hub_member(&h, number_of(1))->arrived[0].via, number_of(AGGREGATOR));
	assert_int_equal(h.contributed, c.len);
	assert_int_equal(h.bytes_up, 0);
	receipt(&h, 1, 0); /* once more: nothing new, nobody's fault */
	assert_int_equal(h.contributed, c.len);
	assert_int_equal(h.refusals, 0);
	/* then it comes itself, twice */
	for (int n = 0; n < 2; n++) {
		help_coordinator_object(&h, 1, c.data, c.len);
		struct mail *m = mailbox_wait(h.mail, 30 * CLOCK_SECOND);
		assert_non_null(m);
		hub_take(&h, m, clock_now_ns());
		assert_int_equal(hub_member(&h, number_of(1))->arrived[0].via, MEMBERS_NONE);
	}
	assert_int_equal(h.contributed, c.len);
	assert_int_equal(h.bytes_up, 2 * c.len);
	assert_int_equal(rounds_ask_member(h.rounds, number_of(1))->shards_in, 1);
	receipt(&h, 1, 0); /* the bytes stay here */
	assert_int_equal(hub_member(&h, number_of(1))->arrived[0].via, MEMBERS_NONE);
	assert_int_equal(h.refusals, 0);
	buf_release(&c);
	hub_close(&h);
	spec_free(spec);
}

static void the_aggregator_is_to_blame(void **state)
{
	(void)state;
	struct spec *spec = help_coordinator_spec();
	struct hub h;
	open_hub(&h, spec);
	struct buf c = seal(&h, 1, 0);
	const shoal_receipt good = {.round = 1, .shard = 0, .bytes = c.len};
	struct {
		uint32_t by;
		shoal_receipt says;
	} rows[] = {{AGGREGATOR, good}, {AGGREGATOR, good}, {AGGREGATOR, good}, {AGGREGATOR, good},
		{AGGREGATOR, good}, {2, good}};
	rows[0].says.round = 2;
	rows[1].says.shard = 99;
	rows[2].says.shard = 1; /* the statement says another */
	rows[3].says.bytes = 10;
	rows[4].says.bytes = UINT64_MAX;
	for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint64_t before = refusals_of(&h, rows[i].by);
		say_receipt(&h, rows[i].by, &c, &rows[i].says);
		assert_int_equal(refusals_of(&h, rows[i].by), before + 1);
	}
	c.data[150] ^= 1; /* what was signed */
	say_receipt(&h, AGGREGATOR, &c, &good);
	assert_int_equal(refusals_of(&h, AGGREGATOR), 6);
	c.data[150] ^= 1;
	c.data[12] = 77; /* nobody's number */
	say_receipt(&h, AGGREGATOR, &c, &good);
	assert_int_equal(refusals_of(&h, AGGREGATOR), 7);
	assert_int_equal(refusals_of(&h, 1), 0);
	assert_false(has(&h, 1, 0));
	buf_release(&c);
	hub_close(&h);
	spec_free(spec);
}

/* Signed by its owner, so it is its owner's fault. */
static void the_contributor_is_to_blame(void **state)
{
	(void)state;
	struct spec *spec = help_coordinator_spec();
	struct hub h;
	struct contribution_view v;
	open_hub(&h, spec);
	struct buf c = seal(&h, 1, 0), other;
	assert_int_equal(contribution_parse(c.data, c.len, &v, NULL), ERR_OK);
	struct contribution says = v.says;
	struct planes planes;
	planes_init(&planes, codec_bound(&h.run.exchange.codec, h.run.files.n[0]));
	float *values = alloc_must_zero(h.run.files.n[0], sizeof *values);
	values[0] = 1;
	assert_int_equal(
		codec_encode(&h.run.exchange.codec, values, h.run.files.n[0], NULL, &planes, NULL),
		ERR_OK);
	says.spans[0].last += 4; /* more than it was given */
	says.tokens += 4 * spec->train.seq;
	buf_init(&other, 1 << 20);
	assert_int_equal(contribution_seal(&says, &h.run.exchange.codec, &planes,
				 help_coordinator_key(1), &other),
		ERR_OK);
	const shoal_receipt receipt = {.round = 1, .shard = 0, .bytes = other.len};
	say_receipt(&h, AGGREGATOR, &other, &receipt);
	assert_int_equal(refusals_of(&h, 1), 1);
	assert_false(has(&h, 1, 0));
	/* a second one, which says something else than the first */
	const shoal_receipt first = {.round = 1, .shard = 0, .bytes = c.len};
	say_receipt(&h, AGGREGATOR, &c, &first);
	assert_true(has(&h, 1, 0));
	other.len = 0;
	says = v.says;
	assert_int_equal(contribution_seal(&says, &h.run.exchange.codec, &planes,
				 help_coordinator_key(1), &other),
		ERR_OK);
	say_receipt(&h, AGGREGATOR, &other, &receipt);
	assert_int_equal(refusals_of(&h, 1), 2);
	assert_int_equal(refusals_of(&h, AGGREGATOR), 0);
	free(values);
	planes_release(&planes);
	buf_release(&other);
	buf_release(&c);
	hub_close(&h);
	spec_free(spec);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, help_coordinator_setup, help_coordinator_teardown)

int main(void)
{
	struct why why;
	if (log_select("0", &why))
		return 1;
	const struct CMUnitTest tests[] = {
		TEST(a_receipt_counts_as_the_contribution),
		TEST(the_aggregator_is_to_blame),
		TEST(the_contributor_is_to_blame),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
