/* What a peer signs, and what the gate lets in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include "base/alloc.h"
#include "compress/frame.h"
#include "round/contribution.h"
#include "round/gate.h"
#include "tests/help_round.h"

#define N 500u
static const struct codec_params codec = {SELECT_topk, VALUES_two, false, 100, 10, 0, 0};
static const struct codec_params raw = {SELECT_all, VALUES_f32, false, 100, 100, 0, 0};

/* A sealed contribution of peer 3 to round 5, shard 1. */
static void sealed(struct contribution *c, struct buf *out)
{
	float *v = help_round_vector(1, N);
	*c = help_round_says(3, 5, 1);
	buf_init(out, contribution_bound(&codec, N));
	help_round_seal(c, &codec, v, N, out);
	free(v);
}

static void key_of(uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	assert_true(help_round_lookup(NULL, peer, out));
}

static void what_is_sealed_is_read(void **state)
{
	(void)state;
	struct contribution c;
	struct contribution_view v;
	struct buf b;
	struct codec_vector d;
	struct why why = {0};
	uint8_t key[SIGN_PUBLIC], other[SIGN_PUBLIC];
	key_of(3, key);
	key_of(4, other);
	sealed(&c, &b);
	assert_int_equal(contribution_parse(b.data, b.len, &v, &why), ERR_OK);
	assert_int_equal(v.says.peer, 3);
	assert_int_equal(v.says.round, 5);
	assert_int_equal(v.says.shard, 1);
	assert_int_equal(v.says.tokens, 100);
	assert_int_equal(v.says.codec, codec_number(&codec));
	assert_int_equal(v.says.n_spans, 1);
	assert_int_equal(v.says.spans[0].last, 310);
	assert_true(hash_equal(&v.says.planes, &c.planes));
	assert_int_equal(contribution_verify(&v, key, &why), ERR_OK);
	assert_int_equal(contribution_verify(&v, other, &why), ERR_signature);
	help_round_told(&why, ERR_signature, "not that of peer 3");
	assert_int_equal(contribution_decode(&v, &codec, N, &d, &why), ERR_OK);
	assert_int_equal(d.count, 50);
	codec_release(&d);
	assert_int_equal(contribution_decode(&v, &codec, N + 1, &d, &why), ERR_shape);
	assert_int_equal(contribution_decode(&v, &raw, N, &d, &why), ERR_unsupported);
	buf_release(&b);
}

static void every_signed_bit_counts(void **state)
{
	(void)state;
	struct contribution c;
	struct contribution_view v;
	struct buf b;
	struct codec_vector d;
	struct why why;
	uint8_t key[SIGN_PUBLIC];
	key_of(3, key);
	sealed(&c, &b);
	for (size_t bit = 0; bit < b.len * 8; bit++) {
		b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		enum err err = contribution_parse(b.data, b.len, &v, &why);
		if (!err)
			err = contribution_verify(&v, key, &why);
		if (!err)
			err = contribution_decode(&v, &codec, N, &d, &why);
		/* The frame may be written otherwise, the signed part and the planes may not. */
		if (!err) {
			assert_true(bit / 8 >= (size_t)(v.frame - b.data));
			codec_release(&d);
		}
		b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t len = 0; len < b.len; len++) {
		enum err err = contribution_parse(b.data, len, &v, &why);
		if (!err)
			err = contribution_decode(&v, &codec, N, &d, &why);
		assert_int_not_equal(err, ERR_OK);
	}
	buf_release(&b);
}

static void another_frame_is_the_same_contribution(void **state)
{
	(void)state;
	struct contribution c;
	struct contribution_view v, w;
	struct buf b, planes, again;
	struct codec_vector d;
	uint8_t key[SIGN_PUBLIC];
	key_of(3, key);
	sealed(&c, &b);
	assert_int_equal(contribution_parse(b.data, b.len, &v, NULL), ERR_OK);
	buf_init(&planes, codec_bound(&codec, N));
	assert_int_equal(frame_unpack(v.frame, v.frame_len, &planes, NULL), ERR_OK);
	buf_init(&again, 1 << 16);
	buf_put(&again, b.data, (size_t)(v.frame - b.data));
	uint8_t *at = buf_grow(&again, 4096);
	size_t n = ZSTD_compress(at, 4096, planes.data, planes.len, 19);
	again.len -= 4096 - n;
	assert_int_equal(contribution_parse(again.data, again.len, &w, NULL), ERR_OK);
	assert_int_equal(contribution_verify(&w, key, NULL), ERR_OK);
	assert_int_equal(contribution_decode(&w, &codec, N, &d, NULL), ERR_OK);
	struct hash one = contribution_id(&v), two = contribution_id(&w);
	assert_true(hash_equal(&one, &two));
	codec_release(&d);
	buf_release(&again);
	buf_release(&planes);
	buf_release(&b);
}

static void a_form_that_is_wrong_is_told(void **state)
{
	(void)state;
	struct contribution c;
	struct contribution_view v;
	struct buf b;
	struct why why = {0};
	static const struct {
		size_t at;
		uint8_t value;
		enum err code;
		const char *part;
	} cases[] = {
		{0, 'x', ERR_magic, "are no contribution"}, {8, 9, ERR_version, "of version 9"},
		{10, 0, ERR_syntax, "names 0 intervals"},
		{10, SPAN_MAX + 1, ERR_syntax, "names 5 intervals"},
		{108, 1, ERR_truncated, "ends in its header"},
		{160, 0, ERR_syntax, "which is none"}, /* last of the span: 300 + … */
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		sealed(&c, &b);
		b.data[cases[i].at] = cases[i].value;
		if (cases[i].at == 160)
			b.data[161] = 0;
		assert_int_equal(contribution_parse(b.data, b.len, &v, &why), cases[i].code);
		help_round_told(&why, cases[i].code, cases[i].part);
		buf_release(&b);
	}
	/* Two intervals that share data. */
	struct planes planes;
	planes_init(&planes, 1000);
	float one = 1;
	assert_int_equal(codec_encode(&codec, &one, 1, NULL, &planes, NULL), ERR_OK);
	c.n_spans = 2;
	c.spans[1] = (struct span){309, 400};
	buf_init(&b, 4096);
	assert_int_equal(contribution_seal(&c, &codec, &planes, help_round_key(3), &b), ERR_OK);
	assert_int_equal(contribution_parse(b.data, b.len, &v, &why), ERR_syntax);
	help_round_told(&why, ERR_syntax, "sequence 309 twice");
	buf_release(&b);
	for (size_t max = 0; max < 300; max += 20) {
		buf_init(&b, max);
		assert_int_not_equal(
			contribution_seal(&c, &codec, &planes, help_round_key(3), &b), ERR_OK);
		assert_int_equal(b.len, 0);
		buf_release(&b);
	}
	planes_release(&planes);
}

static void golden_bytes(void **state)
{
	(void)state;
	struct contribution c;
	struct contribution_view v;
	struct buf b;
	sealed(&c, &b);
	assert_int_equal(contribution_parse(b.data, b.len, &v, NULL), ERR_OK);
	struct hash id = contribution_id(&v), sig = hash_of(v.signature, SIGN_BYTES);
	char hex[HASH_HEX];
	hash_hex(&id, hex);
	assert_string_equal(
		hex, "93bccde63edd04cd6748aa5337a0a69f72b320362fdb1f1faffcfd991a6ffb00");
	hash_hex(&sig, hex);
	assert_string_equal(
		hex, "036cad99d419f16fbb93584c7180e3362411868554dbf616af1527a922fb079f");
	buf_release(&b);
}

/* ---- the gate */

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
		.sequence_tokens = 10};
	key_of(3, e.key);
	return e;
}

static void what_is_right_passes(void **state)
{
	(void)state;
	struct contribution c;
	struct buf b;
	struct gate_passed passed;
	struct why why = {0};
	struct gate_expect e = expectation();
	sealed(&c, &b);
	if (gate_check(&e, b.data, b.len, &passed, &why))
		fail_msg("%s", why.text);
	assert_int_equal(passed.says.tokens, 100);
	assert_int_equal(passed.vector.count, 50);
	double norm = sqrt(passed.vector.norm_squared);
	assert_true(passed.norm == norm && norm > 1);
	codec_release(&passed.vector);
	e.norm_limit = norm;
	assert_int_equal(gate_check(&e, b.data, b.len, &passed, &why), ERR_OK);
	codec_release(&passed.vector);
	buf_release(&b);
}

static void refused(
	const struct gate_expect *e, const struct buf *b, enum err code, const char *part)
{
	struct gate_passed passed;
	struct why why = {0};
	enum err err = gate_check(e, b->data, b->len, &passed, &why);
	help_round_told(&why, code, part);
	assert_int_equal(err, code);
	assert_null(passed.vector.planes.data);
}

static void each_wrong_place_is_refused(void **state)
{
	(void)state;
	struct contribution c;
	struct buf b;
	sealed(&c, &b);
	struct gate_expect e = expectation();
	e.run = help_round_hash(9);
	refused(&e, &b, ERR_wrong_run, "join with this run's link");
	e = expectation();
	e.round = 6;
	refused(&e, &b, ERR_wrong_round, "for round 5, open is round 6");
	e = expectation();
	e.parent = help_round_hash(9);
	refused(&e, &b, ERR_wrong_parent, "starts from ledger head");
	e = expectation();
	e.shard = 0;
	refused(&e, &b, ERR_shape, "for shard 1 part 0, expected is shard 0");
	e = expectation();
	e.part = 1;
	refused(&e, &b, ERR_shape, "part 1");
	e = expectation();
	e.n = N + 1;
	refused(&e, &b, ERR_shape, "wanted are 501");
	e = expectation();
	e.codec.k = 9;
	refused(&e, &b, ERR_shape, "k 10 of 100");
	e = expectation();
	e.codec = (struct codec_params){SELECT_all, VALUES_int8, false, 100, 100, 0, 0};
	refused(&e, &b, ERR_unsupported, "the run uses 769, all/100 int8");
	e = expectation();
	struct buf long_one;
	buf_init(&long_one, 1 << 20);
	buf_put(&long_one, b.data, b.len);
	assert_non_null(buf_grow(&long_one, contribution_bound(&codec, N) + 1 - b.len));
	refused(&e, &long_one, ERR_toobig, "has at most");
	buf_release(&long_one);
	buf_release(&b);
}

static void each_wrong_sender_is_refused(void **state)
{
	(void)state;
	struct contribution c;
	struct buf b;
	sealed(&c, &b);
	struct contribution_view v;
	assert_int_equal(contribution_parse(b.data, b.len, &v, NULL), ERR_OK);
	struct gate_expect e = expectation();
	e.peer = 4;
	refused(&e, &b, ERR_unknown_peer, "signed as peer 3, it came from peer 4");
	e = expectation();
	key_of(4, e.key);
	refused(&e, &b, ERR_signature, "not that of peer 3");
	e = expectation();
	e.have = true;
	e.have_id = contribution_id(&v);
	refused(&e, &b, ERR_duplicate, "was received already");
	e.have_id = help_round_hash(8);
	refused(&e, &b, ERR_exists, "the first one counts");
	buf_release(&b);
}

static void each_wrong_claim_is_refused(void **state)
{
	(void)state;
	struct contribution c;
	struct buf b;
	sealed(&c, &b);
	struct gate_expect e = expectation();
	e.n_assigned = 0;
	refused(&e, &b, ERR_tokens, "was not given in round 5");
	static const struct span shifted = {301, 400}, shorter = {300, 309};
	e.n_assigned = 1;
	e.assigned = &shifted;
	refused(&e, &b, ERR_tokens, "from sequence 300");
	e.assigned = &shorter;
	refused(&e, &b, ERR_tokens, "was not given");
	e = expectation();
	e.sequence_tokens = 9;
	refused(&e, &b, ERR_tokens, "claims 100 tokens, its data has 90");
	e = expectation();
	e.norm_limit = 1;
	refused(&e, &b, ERR_norm, "the limit is 1");
	buf_release(&b);
}

/* Signed as it is, but the payload is another one. */
static void each_wrong_payload_is_refused(void **state)
{
	(void)state;
	struct contribution c;
	struct contribution_view v;
	struct buf b, other;
	struct gate_expect e = expectation();
	sealed(&c, &b);
	assert_int_equal(contribution_parse(b.data, b.len, &v, NULL), ERR_OK);
	float *values = help_round_vector(2, N);
	struct contribution c2 = help_round_says(3, 5, 1);
	buf_init(&other, 1 << 16);
	help_round_seal(&c2, &codec, values, N, &other);
	/* The second one's frame under the first one's signature. */
	size_t head = (size_t)(v.frame - b.data);
	struct buf mixed;
	buf_init(&mixed, 1 << 16);
	buf_put(&mixed, b.data, head);
	buf_put(&mixed, other.data + head, other.len - head);
	refused(&e, &mixed, ERR_hash, "not the one that was signed");
	buf_release(&mixed);

	/* A truly signed vector with an infinite value in it. */
	e.codec = raw;
	struct planes planes;
	planes_init(&planes, codec_bound(&e.codec, N));
	assert_int_equal(codec_encode(&e.codec, values, N, NULL, &planes, NULL), ERR_OK);
	planes.bytes.data[32 + 2 * N + 100] = 0x80; // after the header, byte by byte
	planes.bytes.data[32 + 3 * N + 100] = 0x7f;
	buf_clear(&other);
	buf_release(&other);
	buf_init(&other, 1 << 16);
	assert_int_equal(
		contribution_seal(&c2, &e.codec, &planes, help_round_key(3), &other), ERR_OK);
	refused(&e, &other, ERR_not_finite, "a value is infinite or NaN");
	other.len -= 3;
	refused(&e, &other, ERR_truncated, "cut short");
	planes_release(&planes);
	buf_release(&other);
	buf_release(&b);
	free(values);
}

/* A contribution may keep fewer than the spec says; not more, and not at places of its choice. */
static void less_is_allowed_and_other_places_are_not(void **state)
{
	(void)state;
	struct gate_expect e = expectation();
	struct gate_passed passed;
	struct why why = {0};
	float *values = help_round_vector(2, N);
	struct codec_params sent = {
		SELECT_randk, VALUES_int8, false, 100, 20, 0, contribution_seed(&e.run, 5, 1)};
	e.codec = sent;
	e.codec.seed = 0;
	static const struct {
		uint32_t k;
		uint64_t off;
		enum err code;
		const char *part;
	} rows[] = {{20, 0, ERR_OK, ""}, {3, 0, ERR_OK, ""}, {21, 0, ERR_toobig, "bytes, at most"},
		{20, 1, ERR_shape, "from another seed than that of round 5 shard 1"}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct contribution c = help_round_says(3, 5, 1);
		struct codec_params as = sent;
		struct buf b;
		as.k = rows[i].k;
		as.seed += rows[i].off;
		buf_init(&b, 1 << 16);
		help_round_seal(&c, &as, values, N, &b);
		if (rows[i].code) {
			refused(&e, &b, rows[i].code, rows[i].part);
		} else {
			if (gate_check(&e, b.data, b.len, &passed, &why))
				fail_msg("%s", why.text);
			assert_int_equal(passed.vector.count, 5 * rows[i].k);
			codec_release(&passed.vector);
		}
		buf_release(&b);
	}
	free(values);
}

/* Once, as FORMAT.md has it, and another one for every run, round and shard. */
static void seeds_are_of_run_round_and_shard(void **state)
{
	(void)state;
	struct hash run = help_round_hash(1), other = help_round_hash(2);
	uint8_t bytes[11 + 32 + 8 + 4] = "shoal randk";
	memcpy(bytes + 11, run.b, 32);
	bytes[43] = 5;
	bytes[51] = 1;
	struct hash h = hash_of(bytes, sizeof bytes);
	uint64_t seed = 0;
	for (int i = 8; i-- > 0;)
		seed = seed << 8 | h.b[i];
	assert_true(contribution_seed(&run, 5, 1) == seed);
	assert_true(contribution_seed(&run, 6, 1) != seed);
	assert_true(contribution_seed(&run, 5, 0) != seed);
	assert_true(contribution_seed(&other, 5, 1) != seed);
}

static void no_memory_is_not_the_senders_fault(void **state)
{
	(void)state;
	struct contribution c;
	struct buf b;
	sealed(&c, &b);
	struct gate_expect e = expectation();
	for (long at = 1;; at++) {
		struct gate_passed passed;
		struct why why = {0};
		alloc_fail_at(at);
		enum err err = gate_check(&e, b.data, b.len, &passed, &why);
		alloc_fail_at(0);
		codec_release(&passed.vector);
		if (!err)
			break;
		assert_int_equal(err, ERR_nomem);
	}
	buf_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_sealed_is_read),
		cmocka_unit_test(every_signed_bit_counts),
		cmocka_unit_test(another_frame_is_the_same_contribution),
		cmocka_unit_test(a_form_that_is_wrong_is_told),
		cmocka_unit_test(golden_bytes),
		cmocka_unit_test(what_is_right_passes),
		cmocka_unit_test(each_wrong_place_is_refused),
		cmocka_unit_test(each_wrong_sender_is_refused),
		cmocka_unit_test(each_wrong_claim_is_refused),
		cmocka_unit_test(each_wrong_payload_is_refused),
		cmocka_unit_test(less_is_allowed_and_other_places_are_not),
		cmocka_unit_test(seeds_are_of_run_round_and_shard),
		cmocka_unit_test(no_memory_is_not_the_senders_fault),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
