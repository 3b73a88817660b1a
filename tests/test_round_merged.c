/* Merged updates: one vector in place of a round's contributions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "compress/dct.h"
#include "compress/frame.h"
#include "round/record.h"
#include "round/replica.h"
#include "tests/help_round.h"

#define N 9000u /* two squares of a DCT, and a rest */
#define ROUND 3u

static const struct codec_params topk = {SELECT_topk, VALUES_two, false, 512, 16, 0, 0},
				 threshold = {SELECT_threshold, VALUES_log4, false, 512, 64, 1.5f,
					 0},
				 randk = {SELECT_randk, VALUES_mean4, false, 512, 64, 0, 0},
				 dct = {SELECT_topk, VALUES_sign, true, DCT_CHUNK, 128, 0, 0},
				 dense = {SELECT_all, VALUES_int8, false, 512, 512, 0, 0};
static const struct codec_params *const codecs[] = {&topk, &threshold, &randk, &dct, &dense};
#define N_CODECS (sizeof codecs / sizeof *codecs)

static struct rule_params rule(const char *name)
{
	struct rule_params p;
	assert_int_equal(rule_find(name, 0.7, 0.9, &p, NULL), ERR_OK);
	return p;
}

static struct help_round_want want(const struct codec_params *codec, uint32_t count, float alike)
{
	struct help_round_want w = {.parent = help_round_hash(2),
		.round = ROUND,
		.shard = 1,
		.count = count,
		.codec = *codec,
		.n = N,
		.seed = 5,
		.alike = alike};
	const struct hash run = help_round_hash(1);
	if (codec->select == SELECT_randk)
		w.codec.seed = contribution_seed(&run, w.round, w.shard);
	return w;
}

static struct update_expect expect(const struct codec_params *codec, uint32_t merged)
{
	return (struct update_expect){.run = help_round_hash(1),
		.parent = help_round_hash(2),
		.codec = *codec,
		.merged = merged,
		.n = N,
		.key = help_round_lookup};
}

/* The merged form; bytes are empty when the bundle is smaller. */
static struct buf merged_bytes(
	const struct help_round_bundle *from, const struct rule_params *p, uint32_t values)
{
	struct buf out;
	struct why why = {0};
	const struct codec_vector *v = &from->update.vectors[0];
	buf_init(&out, update_merge_bound(&v->params, values, v->n, from->update.count));
	if (update_merge(&from->update, p, values, &out, &why))
		fail_msg("%s", why.text);
	return out;
}

static void open_it(const struct buf *b, const struct update_expect *e, struct update *out)
{
	struct why why = {0};
	if (update_open(b->data, b->len, out, &why) || update_verify(out, e, &why))
		fail_msg("%s", why.text);
}

struct state {
	float *g, *m;
};

static struct state apply(const struct update *u, const struct rule_params *p)
{
	struct state s = {help_round_vector(50, N), help_round_vector(51, N)};
	struct rule_state to = {s.g, p->row->momentum ? s.m : NULL, N};
	struct why why = {0};
	if (update_apply(u, p, &to, &why))
		fail_msg("%s", why.text);
	return s;
}

static void state_free(struct state *s)
{
	free(s->g);
	free(s->m);
}

/* How far apart two outcomes are, in units of the way from the start. */
static double apart(const struct state *a, const struct state *b)
{
	float *from = help_round_vector(50, N);
	double way = 0, off = 0;
	for (size_t i = 0; i < N; i++) {
		double d = (double)a->g[i] - (double)from[i], e = (double)a->g[i] - (double)b->g[i];
		way += d * d;
		off += e * e;
	}
	free(from);
	assert_true(way > 0);
	return sqrt(off / way);
}

/* Within what 8 (4) bits of the largest value of a chunk can tell. */
static void what_is_merged_comes_to_the_same(void **state)
{
	(void)state;
	static const char *const rules[] = {"sparseloco", "mean_R", "diloco"};
	static const struct {
		uint32_t values;
		double most;
	} kinds[] = {{VALUES_int8, 0.01}, {VALUES_int4, 0.15}};
	for (size_t i = 0; i < N_CODECS * 3 * 2; i++) {
		const struct codec_params *codec = codecs[i / 6];
		const struct rule_params p = rule(rules[i / 2 % 3]);
		const uint32_t values = kinds[i % 2].values;
		struct help_round_bundle b;
		struct help_round_want w = want(codec, 8, 4);
		struct update u;
		const struct update_expect e = expect(codec, values);
		help_round_make(&w, &b);
		struct buf bytes = merged_bytes(&b, &p, values);
		assert_true(bytes.len > 0 && bytes.len < b.bytes.len);
		open_it(&bytes, &e, &u);
		assert_int_equal(u.kind, UPDATE_merged);
		assert_int_equal(u.count, 8);
		assert_memory_equal(u.accepted, b.update.accepted, 8 * sizeof *u.accepted);
		for (uint32_t k = 0; k < 8; k++) {
			const struct contribution_view *v = &b.update.views[k];
			struct hash name = hash_of(v->bytes, v->len);
			assert_true(hash_equal(&u.inputs[k], &name));
		}
		struct state x = apply(&b.update, &p), y = apply(&u, &p);
		double off = apart(&x, &y);
		if (off > kinds[i % 2].most || off == 0)
			fail_msg("codec %zu, %s, %s: %g apart", i / 6, p.row->name,
				values_row(values)->name, off);
		state_free(&x);
		state_free(&y);
		update_release(&u);
		buf_release(&bytes);
		help_round_drop(&b);
	}
}

/* Whichever has fewer bytes of planes. */
static void what_is_smaller_goes(void **state)
{
	(void)state;
	static const struct {
		const struct codec_params *codec;
		uint32_t count;
		float alike;
		bool merged;
	} rows[] = {{&topk, 1, 4, false}, {&topk, 2, 0, false}, {&topk, 2, 0.5f, false},
		{&topk, 32, 1, true}, {&topk, 0, 0, false}, {&dense, 1, 0, false},
		{&dense, 2, 0, true}, {&randk, 1, 0, false}, {&randk, 2, 0, true}};
	const struct rule_params p = rule("sparseloco");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct help_round_bundle b;
		struct help_round_want w = want(rows[i].codec, rows[i].count, rows[i].alike);
		help_round_make(&w, &b);
		struct buf bytes = {0};
		buf_init(&bytes, 1 << 24);
		assert_int_equal(update_merge(&b.update, &p, VALUES_int8, &bytes, NULL), ERR_OK);
		if ((bytes.len > 0) != rows[i].merged)
			fail_msg("row %zu: %zu bytes merged, %zu as a bundle", i, bytes.len,
				b.bytes.len);
		buf_release(&bytes);
		help_round_drop(&b);
	}
}

/* Of drawn places the union, where somebody kept fewer than the others. */
static void places_of_two_lengths_are_joined(void **state)
{
	(void)state;
	const struct rule_params p = rule("mean_R");
	const struct hash run = help_round_hash(1);
	struct buf sealed[8], bytes;
	struct update_part parts[8];
	struct update_head head = {run, help_round_hash(2), ROUND, 1, 0};
	struct update bundle, u;
	const struct update_expect e = expect(&randk, VALUES_int8);
	for (uint32_t i = 0; i < 8; i++) {
		struct codec_params codec = randk;
		struct contribution c = help_round_says(i + 1, ROUND, 1);
		float *v = help_round_vector(i, N);
		codec.seed = contribution_seed(&run, ROUND, 1);
		codec.k = i == 2 ? 10 : 64;
		buf_init(&sealed[i], 1 << 20);
		help_round_seal(&c, &codec, v, N, &sealed[i]);
		parts[i] = (struct update_part){sealed[i].data, sealed[i].len};
		free(v);
	}
	buf_init(&bytes, 1 << 24);
	assert_int_equal(update_encode(&head, parts, 8, &bytes, NULL), ERR_OK);
	open_it(&bytes, &e, &bundle);
	struct buf merged;
	buf_init(&merged, 1 << 24);
	assert_int_equal(update_merge(&bundle, &p, VALUES_int8, &merged, NULL), ERR_OK);
	assert_true(merged.len > 0);
	open_it(&merged, &e, &u);
	assert_int_equal(u.vectors[0].params.select, SELECT_topk);
	struct state x = apply(&bundle, &p), y = apply(&u, &p);
	assert_true(apart(&x, &y) < 0.01);
	state_free(&x);
	state_free(&y);
	update_release(&u);
	update_release(&bundle);
	buf_release(&merged);
	buf_release(&bytes);
	for (int i = 0; i < 8; i++)
		buf_release(&sealed[i]);
}

/* ---- refusals */

static void refused(const struct buf *b, const struct update_expect *e,
	const struct ledger_entry *entry, enum err code, const char *part)
{
	struct update u;
	struct why why = {0};
	enum err err = update_open(b->data, b->len, &u, &why);
	if (!err)
		err = update_verify(&u, e, &why);
	if (!err)
		err = update_matches(&u, entry, &why);
	help_round_told(&why, code, part);
	assert_int_equal(err, code);
	update_release(&u);
}

/* A merged update and the entry that lists it. */
struct made {
	struct buf bytes;
	struct ledger_entry entry;
};

static struct made make(const struct codec_params *codec)
{
	const struct rule_params p = rule("sparseloco");
	const struct update_expect e = expect(codec, VALUES_int8);
	struct help_round_bundle b;
	struct help_round_want w = want(codec, 8, 4);
	struct made m = {.entry = {.sequence = 1, .round = ROUND, .shard = 1}};
	struct update u;
	help_round_make(&w, &b);
	m.bytes = merged_bytes(&b, &p, VALUES_int8);
	open_it(&m.bytes, &e, &u);
	assert_int_equal(update_list(&u, &m.entry), ERR_OK);
	update_release(&u);
	help_round_drop(&b);
	return m;
}

static void made_free(struct made *m)
{
	buf_release(&m->bytes);
	ledger_entry_release(&m->entry);
}

#define LISTED 76u

static void what_is_not_listed_is_refused(void **state)
{
	(void)state;
	struct made m = make(&topk);
	const struct update_expect good = expect(&topk, VALUES_int8);
	struct update_expect e = good;
	e.merged = 0;
	refused(&m.bytes, &e, &m.entry, ERR_unsupported, "which this run does not allow");
	e.merged = VALUES_int4;
	refused(&m.bytes, &e, &m.entry, ERR_unsupported, "int4");
	e = good;
	e.n = N + 1;
	refused(&m.bytes, &e, &m.entry, ERR_shape, "planes hold 9000 values");
	e = good;
	e.codec.chunk = 256;
	refused(&m.bytes, &e, &m.entry, ERR_shape, "256");
	e = good;
	e.run = help_round_hash(7);
	refused(&m.bytes, &e, &m.entry, ERR_wrong_run, "another run");

	/* Another peer's vector, another peer, other tokens; then nobody at all. */
	uint8_t *item = m.bytes.data + UPDATE_HEAD + 2 * LISTED;
	item[20] ^= 1;
	refused(&m.bytes, &good, &m.entry, ERR_hash, "contribution 3 of an update, peer 3");
	item[20] ^= 1;
	item[4] ^= 1;
	refused(&m.bytes, &good, &m.entry, ERR_hash, "contribution 3");
	item[4] ^= 1;
	item[0] = 9;
	refused(&m.bytes, &good, &m.entry, ERR_syntax, "lists peer 4 after peer 9");
	item[0] = 3;
	m.entry.merged.b[0] ^= 1;
	refused(&m.bytes, &good, &m.entry, ERR_hash,
		"the vector of a merged update is not the one");
	m.entry.merged.b[0] ^= 1;
	m.entry.kind = UPDATE_bundle;
	refused(&m.bytes, &good, &m.entry, ERR_hash, "a merged update of 8 contributions");
	made_free(&m);
}

/* Whatever byte is another one: it is refused, or it says the same (the frame may be written
 * otherwise, and names of blobs are no part of the statement). */
static void every_byte_counts(void **state)
{
	(void)state;
	struct made m = make(&topk);
	const struct update_expect e = expect(&topk, VALUES_int8);
	size_t same = 0;
	for (size_t at = 0; at < m.bytes.len; at++) {
		struct update u;
		struct why why = {0};
		m.bytes.data[at] ^= 0x11;
		enum err err = update_open(m.bytes.data, m.bytes.len, &u, &why);
		if (!err)
			err = update_verify(&u, &e, &why);
		if (!err)
			err = update_matches(&u, &m.entry, &why);
		if (err && (why.code != err || !why.text[0]))
			fail_msg("byte %zu is refused without a sentence", at);
		bool name = at >= UPDATE_HEAD && at < UPDATE_HEAD + 8 * LISTED &&
			    (at - UPDATE_HEAD) % LISTED >= 44;
		if (!err && !name) {
			assert_true(hash_equal(&u.merged, &m.entry.merged));
			assert_true(at >= UPDATE_HEAD + 8 * LISTED);
			same++;
		}
		m.bytes.data[at] ^= 0x11;
		update_release(&u);
	}
	assert_true(same < 20); // what a frame's header leaves open
	for (size_t len = 0; len < m.bytes.len; len++) {
		struct update u;
		assert_int_not_equal(update_open(m.bytes.data, len, &u, NULL), ERR_OK);
	}
	made_free(&m);
}

/* Its planes again after something was done to them. */
static struct buf repacked(const struct made *m, void (*change)(struct buf *planes))
{
	struct update u;
	struct planes planes;
	struct buf frame, out;
	assert_int_equal(update_open(m->bytes.data, m->bytes.len, &u, NULL), ERR_OK);
	planes_init(&planes, 1 << 24);
	assert_int_equal(frame_unpack(u.frame, u.frame_len, &planes.bytes, NULL), ERR_OK);
	change(&planes.bytes);
	planes_end(&planes);
	buf_init(&frame, 1 << 24);
	assert_int_equal(frame_pack(&planes, &frame), ERR_OK);
	buf_init(&out, 1 << 24);
	buf_put(&out, m->bytes.data, (size_t)(u.frame - m->bytes.data) - 8);
	buf_put_u64(&out, frame.len);
	buf_put(&out, frame.data, frame.len);
	buf_release(&frame);
	planes_release(&planes);
	update_release(&u);
	return out;
}

#define HEADER 32u /* of planes */

static void nan_scale(struct buf *planes)
{
	const size_t chunks = (N + 511) / 512;
	planes->data[HEADER + 4 * chunks] = 0xff;          /* low byte of the first scale */
	planes->data[HEADER + 4 * chunks + chunks] = 0xff; /* and its high one */
}

static void place_outside(struct buf *planes)
{
	const size_t chunks = (N + 511) / 512;
	planes->data[HEADER + 6 * chunks] = 59; /* the longest gap there is */
}

static void other_seed(struct buf *planes)
{
	planes->data[16] ^= 1;
}

static void cut_short(struct buf *planes)
{
	planes->len -= 100;
}

static void a_vector_that_cannot_be_is_refused(void **state)
{
	(void)state;
	static const struct {
		const struct codec_params *codec;
		void (*change)(struct buf *planes);
		enum err code;
		const char *part;
	} rows[] = {{&topk, nan_scale, ERR_not_finite, "finite"},
		{&topk, place_outside, ERR_syntax, "places of chunk 0 leave it"},
		{&topk, cut_short, ERR_truncated, "too few for"},
		{&dense, cut_short, ERR_truncated, "too few for"},
		{&randk, other_seed, ERR_shape, "has places of another seed"}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct made m = make(rows[i].codec);
		const struct update_expect e = expect(rows[i].codec, VALUES_int8);
		struct buf b = repacked(&m, rows[i].change);
		refused(&b, &e, &m.entry, rows[i].code, rows[i].part);
		buf_release(&b);
		made_free(&m);
	}
}

/* A frame that declares more than the shard can need is not unpacked. */
static void a_bomb_is_not_unpacked(void **state)
{
	(void)state;
	struct made m = make(&topk);
	const struct update_expect e = expect(&topk, VALUES_int8);
	struct planes planes;
	struct buf frame, b;
	planes_init(&planes, 1 << 28);
	memset(buf_grow(&planes.bytes, 1 << 26), 0, 1 << 26);
	planes_end(&planes);
	buf_init(&frame, 1 << 28);
	assert_int_equal(frame_pack(&planes, &frame), ERR_OK);
	buf_init(&b, 1 << 28);
	buf_put(&b, m.bytes.data, UPDATE_HEAD + 8 * LISTED);
	buf_put_u64(&b, frame.len);
	buf_put(&b, frame.data, frame.len);
	refused(&b, &e, &m.entry, ERR_toobig, "");
	buf_release(&b);
	buf_release(&frame);
	planes_release(&planes);
	made_free(&m);
}

static void without_memory_it_fails_and_nothing_leaks(void **state)
{
	(void)state;
	const struct rule_params p = rule("sparseloco");
	struct help_round_bundle b;
	struct help_round_want w = want(&topk, 8, 4);
	const struct update_expect e = expect(&topk, VALUES_int8);
	help_round_make(&w, &b);
	long at = 1;
	for (;; at++) {
		struct buf out;
		struct update u = {0};
		struct state s = {help_round_vector(50, N), NULL};
		struct rule_state to = {s.g, NULL, N};
		struct why why = {0};
		buf_init(&out, 1 << 20);
		alloc_fail_at(at);
		enum err err = update_merge(&b.update, &p, VALUES_int8, &out, &why);
		assert_true(!err || out.len == 0);
		if (!err)
			err = update_open(out.data, out.len, &u, &why);
		if (!err)
			err = update_verify(&u, &e, &why);
		if (!err)
			err = update_apply(&u, &p, &to, &why);
		alloc_fail_at(0);
		update_release(&u);
		buf_release(&out);
		state_free(&s);
		if (!err)
			break;
		/* A buffer that could not grow says only that it failed. */
		assert_true(err == ERR_nomem || err == ERR_toobig);
	}
	assert_true(at > 20);
	help_round_drop(&b);
}

/* ---- through the ledger */

/* A chain with rounds of both kinds: who follows it by its records has the same bits, and does not
 * take another update for one. */
static void a_chain_of_both_kinds_gives_the_same_bits(void **state)
{
	(void)state;
	const size_t n = N;
	struct replica_shape shape = {.rule = rule("diloco"), .n_shards = 1, .n = &n};
	struct replica *writer, *reader;
	float *start = help_round_vector(1, N);
	assert_int_equal(replica_new(&shape, &writer), ERR_OK);
	assert_int_equal(replica_new(&shape, &reader), ERR_OK);
	assert_int_equal(replica_set(writer, 0, start), ERR_OK);
	assert_int_equal(replica_set(reader, 0, start), ERR_OK);
	struct hash run = help_round_hash(1), first = replica_hash(writer, 0);
	struct ledger *l = ledger_new(&run, &first, 1), *m = ledger_new(&run, &first, 1);
	unsigned kinds[2] = {0, 0};
	for (uint32_t round = 1; round <= 6; round++) {
		struct help_round_bundle b;
		struct help_round_want w = want(&topk, round % 2 ? 2 : 8, round % 2 ? 0 : 4);
		struct update_expect e = expect(&topk, VALUES_int8);
		struct ledger_head at = ledger_at(l);
		struct why why = {0};
		struct update u;
		struct buf record;
		w.round = round;
		w.shard = 0;
		w.parent = e.parent = at.hash;
		help_round_make(&w, &b);
		struct buf bytes = merged_bytes(&b, &shape.rule, VALUES_int8);
		if (!bytes.len)
			buf_put(&bytes, b.bytes.data, b.bytes.len);
		open_it(&bytes, &e, &u);
		kinds[u.kind]++;
		struct ledger_entry entry = {
			.sequence = at.sequence + 1, .round = round, .previous = at.hash};
		assert_int_equal(update_list(&u, &entry), ERR_OK);
		assert_int_equal(replica_propose(writer, 0, &u, &entry.state, &why), ERR_OK);
		if (replica_commit(writer, &entry, &why) || ledger_append(l, &entry, &why))
			fail_msg("%s", why.text);
		buf_init(&record, 1 << 24);
		assert_int_equal(record_encode(&entry, bytes.data, bytes.len, &record), ERR_OK);

		struct record r;
		if (record_open(record.data, record.len, &r, &why) ||
			update_verify(&r.update, &e, &why) || ledger_append(m, &r.entry, &why))
			fail_msg("%s", why.text);
		if (u.kind == UPDATE_merged) { // the bundle that it was made of is not the update
			assert_int_equal(
				replica_apply(reader, &r.entry, &b.update, &why), ERR_hash);
			help_round_told(&why, ERR_hash, "a bundle of 8 contributions");
		}
		if (replica_apply(reader, &r.entry, &r.update, &why))
			fail_msg("%s", why.text);
		struct hash x = replica_hash(writer, 0), y = replica_hash(reader, 0);
		assert_true(hash_equal(&x, &y));
		record_release(&r);
		buf_release(&record);
		ledger_entry_release(&entry);
		update_release(&u);
		buf_release(&bytes);
		help_round_drop(&b);
	}
	assert_true(kinds[UPDATE_bundle] == 3 && kinds[UPDATE_merged] == 3);
	assert_int_equal(ledger_peer_tokens(m, 8), 3 * (100 + 7 * 7));
	ledger_free(l);
	ledger_free(m);
	replica_free(writer);
	replica_free(reader);
	free(start);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_merged_comes_to_the_same),
		cmocka_unit_test(what_is_smaller_goes),
		cmocka_unit_test(places_of_two_lengths_are_joined),
		cmocka_unit_test(what_is_not_listed_is_refused),
		cmocka_unit_test(every_byte_counts),
		cmocka_unit_test(a_vector_that_cannot_be_is_refused),
		cmocka_unit_test(a_bomb_is_not_unpacked),
		cmocka_unit_test(without_memory_it_fails_and_nothing_leaks),
		cmocka_unit_test(a_chain_of_both_kinds_gives_the_same_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
