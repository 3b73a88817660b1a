/* A statement alone, as an aggregator passes it on: what it says is checked as the whole is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "round/gate.h"
#include "tests/help_round.h"

#define N 500u

static const struct codec_params codec = {SELECT_topk, VALUES_two, false, 100, 10, 0, 0};
static const struct span assigned[] = {{300, 310}, {900, 905}};

static struct gate_expect expectation(void)
{
	struct gate_expect e = {.run = help_round_hash(1),
		.parent = help_round_hash(2),
		.round = 5,
		.shard = 1,
		.n = N,
		.codec = codec,
		.peer = 3,
		.assigned = assigned,
		.n_assigned = 2,
		.sequence_tokens = 10,
		.norm_limit = 1e-9}; /* of a vector that is not there */
	assert_true(help_round_lookup(NULL, 3, e.key));
	return e;
}

/* The whole contribution of peer 3, and how many of its bytes are the statement. */
static size_t sealed(struct contribution c, struct buf *out)
{
	struct contribution_view v;
	float *values = help_round_vector(1, N);
	buf_init(out, contribution_bound(&codec, N));
	help_round_seal(&c, &codec, values, N, out);
	free(values);
	assert_int_equal(contribution_parse(out->data, out->len, &v, NULL), ERR_OK);
	return v.signed_len + SIGN_BYTES;
}

static void what_is_right_passes(void **state)
{
	(void)state;
	struct buf b;
	struct gate_passed passed;
	struct contribution_view whole;
	struct why why = {0};
	const struct gate_expect e = expectation();
	size_t n = sealed(help_round_says(3, 5, 1), &b);
	if (gate_statement(&e, b.data, n, &passed, &why))
		fail_msg("%s", why.text);
	assert_int_equal(contribution_parse(b.data, b.len, &whole, &why), ERR_OK);
	struct hash id = contribution_id(&whole);
	assert_true(hash_equal(&passed.id, &id));
	assert_int_equal(passed.says.tokens, 100);
	assert_true(hash_equal(&passed.says.planes, &whole.says.planes));
	assert_null(passed.vector.planes.data);
	buf_release(&b);
}

static void refused(
	const struct gate_expect *e, const struct buf *b, size_t n, enum err code, const char *part)
{
	struct gate_passed passed;
	struct why why = {0};
	assert_int_equal(gate_statement(e, b->data, n, &passed, &why), code);
	help_round_told(&why, code, part);
}

static void what_is_wrong_is_refused(void **state)
{
	(void)state;
	struct buf b;
	struct gate_expect e = expectation();
	size_t n = sealed(help_round_says(3, 5, 1), &b);
	refused(&e, &b, n - 1, ERR_truncated, "before its payload");
	refused(&e, &b, n + 1, ERR_syntax, "1 bytes more");
	b.data[80] ^= 1; /* of the round */
	refused(&e, &b, n, ERR_wrong_round, "open is round 5");
	b.data[80] ^= 1;
	b.data[n - 1] ^= 1;
	refused(&e, &b, n, ERR_signature, "not that of peer 3");
	b.data[n - 1] ^= 1;
	e.shard = 0;
	refused(&e, &b, n, ERR_shape, "expected is shard 0");
	e = expectation();
	e.peer = 4;
	refused(&e, &b, n, ERR_unknown_peer, "signed as peer 3");
	e = expectation();
	e.n_assigned = 0;
	refused(&e, &b, n, ERR_tokens, "was not given in round 5");
	e = expectation();
	e.sequence_tokens = 11;
	refused(&e, &b, n, ERR_tokens, "its data has 110");
	e = expectation();
	e.codec.values = VALUES_int8;
	refused(&e, &b, n, ERR_unsupported, "a contribution uses codec number");
	e = expectation();
	e.n = 10;
	refused(&e, &b, n, ERR_toobig, "has planes of");
	buf_release(&b);
}

static void the_first_one_counts(void **state)
{
	(void)state;
	struct buf b, other;
	struct gate_passed passed;
	struct gate_expect e = expectation();
	struct contribution says = help_round_says(3, 5, 1);
	size_t n = sealed(says, &b);
	assert_int_equal(gate_statement(&e, b.data, n, &passed, NULL), ERR_OK);
	e.have = true;
	e.have_id = passed.id;
	refused(&e, &b, n, ERR_duplicate, "received already");
	says.spans[0].last = 305;
	says.tokens = 50;
	n = sealed(says, &other);
	refused(&e, &other, n, ERR_exists, "the first one counts");
	buf_release(&other);
	buf_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_right_passes),
		cmocka_unit_test(what_is_wrong_is_refused),
		cmocka_unit_test(the_first_one_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
