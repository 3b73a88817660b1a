/* Updates and replicas: a chain is made by one side and followed by others, who end with the same
 * bits or notice that they do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "round/feedback.h"
#include "round/ledger.h"
#include "round/replica.h"
#include "round/update.h"
#include "tests/help_round.h"

enum { SHARDS = 2 };
static const size_t sizes[SHARDS] = {3000, 777};
static const struct codec_params topk = {SELECT_topk, VALUES_two, false, 512, 16, 0, 0},
				 raw = {SELECT_all, VALUES_f32, false, 512, 512, 0, 0};

static struct replica *replica(const char *rule)
{
	struct replica_shape shape = {.n_shards = SHARDS, .n = sizes};
	struct replica *r;
	assert_int_equal(rule_find(rule, 0.7, 0.9, &shape.rule, NULL), ERR_OK);
	assert_int_equal(replica_new(&shape, &r), ERR_OK);
	for (uint32_t i = 0; i < SHARDS; i++) {
		float *v = help_round_vector(1000 + i, sizes[i]);
		assert_int_equal(replica_set(r, i, v), ERR_OK);
		free(v);
	}
	return r;
}

static struct ledger *ledger_of(struct replica *r)
{
	struct hash run = help_round_hash(1), states[SHARDS];
	for (uint32_t i = 0; i < SHARDS; i++)
		states[i] = replica_hash(r, i);
	return ledger_new(&run, states, SHARDS);
}

/* The side that writes entries: proposes on r, makes the entry, commits.  The entry is owned by the
 * caller. */
static void write_entry(struct replica *r, struct ledger *l, const struct help_round_bundle *b,
	struct ledger_entry *e)
{
	struct ledger_head at = ledger_at(l);
	struct why why = {0};
	*e = (struct ledger_entry){.sequence = at.sequence + 1,
		.round = b->update.head.round,
		.shard = b->update.head.shard,
		.previous = at.hash};
	assert_int_equal(update_list(&b->update, e), ERR_OK);
	if (replica_propose(r, e->shard, &b->update, &e->state, &why))
		fail_msg("%s", why.text);
	if (replica_commit(r, e, &why) || ledger_append(l, e, &why))
		fail_msg("%s", why.text);
}

static void make_bundle(struct ledger *l, uint64_t round, uint32_t shard, uint32_t count,
	struct help_round_bundle *out, const struct codec_params *codec)
{
	struct help_round_want want = {.parent = ledger_parent(l),
		.round = round,
		.shard = shard,
		.count = count,
		.codec = *codec,
		.n = sizes[shard],
		.seed = round * 10 + shard};
	help_round_make(&want, out);
}

/* What is needed to follow a chain again. */
struct history {
	struct ledger_entry entry[200];
	struct help_round_bundle bundle[200];
	size_t n;
};

static void history_free(struct history *h)
{
	for (size_t i = 0; i < h->n; i++) {
		ledger_entry_release(&h->entry[i]);
		help_round_drop(&h->bundle[i]);
	}
	free(h);
}

static struct history *history(const char *rule, uint64_t rounds, struct replica **end)
{
	struct history *h = alloc_must_zero(1, sizeof *h);
	struct replica *r = replica(rule);
	struct ledger *l = ledger_of(r);
	const struct codec_params *codec = strcmp(rule, "average") ? &topk : &raw;
	for (uint64_t round = 1; round <= rounds; round++)
		for (uint32_t shard = 0; shard < SHARDS; shard++, h->n++) {
			uint32_t count = (uint32_t)rng_below(3, round, shard, 5); // also none
			make_bundle(l, round, shard, count, &h->bundle[h->n], codec);
			write_entry(r, l, &h->bundle[h->n], &h->entry[h->n]);
		}
	ledger_free(l);
	*end = r;
	return h;
}

static void follow(struct replica *r, const struct history *h, size_t from)
{
	struct why why = {0};
	for (size_t i = from; i < h->n; i++) {
		if (replica_apply(r, &h->entry[i], &h->bundle[i].update, &why))
			fail_msg("entry %zu: %s", i, why.text);
		struct hash state = replica_hash(r, h->entry[i].shard);
		assert_true(hash_equal(&state, &h->entry[i].state));
	}
}

static void same(struct replica *a, struct replica *b)
{
	struct hash x = replica_hash_all(a), y = replica_hash_all(b);
	assert_true(hash_equal(&x, &y));
	for (uint32_t i = 0; i < SHARDS; i++) {
		assert_memory_equal(
			replica_params(a, i), replica_params(b, i), sizes[i] * sizeof(float));
		assert_int_equal(replica_round(a, i), replica_round(b, i));
	}
}

static const char *const rules[] = {
#define X(name) #name,
	RULE_LIST(X)
#undef X
};
#define N_RULES (sizeof rules / sizeof rules[0])

static void whoever_follows_has_the_same_bits(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_RULES; i++) {
		struct replica *writer, *reader = replica(rules[i]);
		struct history *h = history(rules[i], 50, &writer);
		follow(reader, h, 0);
		same(writer, reader);
		assert_int_equal(replica_round(reader, 1), 50);
		replica_free(writer);
		replica_free(reader);
		history_free(h);
	}
}

static void a_snapshot_and_the_rest_give_the_same(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_RULES; i++) {
		struct replica *writer, *middle = replica(rules[i]), *late = replica(rules[i]);
		struct history *h = history(rules[i], 12, &writer);
		struct history half = *h;
		half.n = 14; /* 7 rounds of 2 shards */
		follow(middle, &half, 0);
		struct replica_snapshot about = {.run = help_round_hash(1),
			.spec = "{}",
			.head = {14, 7, help_round_hash(4)}};
		struct ledger_head head;
		struct statefile *file = NULL;
		struct why why = {0};
		const char *path = help_round_path("a.state");
		if (replica_save(middle, &about, path, &why) ||
			statefile_open(path, "snapshot", &about.run, &file, &why) ||
			replica_load(late, file, &head, &why))
			fail_msg("%s", why.text);
		statefile_close(file);
		assert_int_equal(head.sequence, 14);
		assert_int_equal(head.round, 7);
		assert_true(hash_equal(&head.hash, &about.head.hash));
		same(middle, late);
		assert_int_equal(replica_set(late, 0, replica_params(middle, 0)), ERR_state);
		follow(late, h, 14);
		same(writer, late);
		about.head.round = 8;
		assert_int_equal(replica_save(middle, &about, path, &why), ERR_state);
		replica_free(writer);
		replica_free(middle);
		replica_free(late);
		history_free(h);
	}
}

static void a_snapshot_that_does_not_fit_is_refused(void **state)
{
	(void)state;
	struct replica *plain = replica("sparseloco"), *moving = replica("diloco");
	struct replica_snapshot about = {.run = help_round_hash(1), .spec = "{}"};
	struct ledger_head head;
	struct statefile *file;
	struct why why = {0};
	const char *path = help_round_path("a.state");
	assert_int_equal(replica_save(plain, &about, path, &why), ERR_OK);
	assert_int_equal(statefile_open(path, "snapshot", NULL, &file, &why), ERR_OK);
	assert_int_equal(replica_load(moving, file, &head, &why), ERR_missing); // no momentum
	struct replica_shape shape = {.n_shards = SHARDS, .n = (size_t[]){3000, 778}};
	assert_int_equal(rule_find("mean_R", 1, 0, &shape.rule, NULL), ERR_OK);
	struct replica *larger;
	assert_int_equal(replica_new(&shape, &larger), ERR_OK);
	assert_int_equal(replica_load(larger, file, &head, &why), ERR_shape);
	statefile_close(file);
	replica_free(larger);
	replica_free(plain);
	replica_free(moving);
}

/* ---- what must not be applied */

struct one { /* a replica, a chain and the entry that is next on it, with its update */
	struct replica *writer, *reader;
	struct ledger *l;
	struct help_round_bundle bundle;
	struct ledger_entry entry;
};

static struct one one(void)
{
	struct one o = {.writer = replica("sparseloco"), .reader = replica("sparseloco")};
	o.l = ledger_of(o.writer);
	make_bundle(o.l, 1, 0, 3, &o.bundle, &topk);
	write_entry(o.writer, o.l, &o.bundle, &o.entry);
	return o;
}

static void one_free(struct one *o)
{
	ledger_entry_release(&o->entry);
	help_round_drop(&o->bundle);
	ledger_free(o->l);
	replica_free(o->writer);
	replica_free(o->reader);
}

static void not_applied(
	struct one *o, const struct ledger_entry *e, enum err code, const char *part)
{
	struct why why = {0};
	struct hash before = replica_hash_all(o->reader);
	assert_int_equal(replica_apply(o->reader, e, &o->bundle.update, &why), code);
	help_round_told(&why, code, part);
	struct hash after = replica_hash_all(o->reader);
	assert_true(hash_equal(&before, &after));
}

static void an_entry_is_applied_wholly_or_not_at_all(void **state)
{
	(void)state;
	struct one o = one();
	struct ledger_entry e = o.entry;
	e.shard = SHARDS;
	not_applied(&o, &e, ERR_shape, "shard 2 of 2");
	e = o.entry;
	e.round = 2;
	not_applied(&o, &e, ERR_wrong_round, "closes round 2 of shard 0, which stands at round 0");
	e = o.entry;
	e.shard = 1;
	not_applied(&o, &e, ERR_hash, "is not the update of ledger entry 1");
	e = o.entry;
	e.state = help_round_hash(8);
	not_applied(&o, &e, ERR_hash, "this replica has drifted");
	e = o.entry;
	e.count = 2;
	not_applied(&o, &e, ERR_hash, "of 3 contributions to round 1 shard 0 is not the update of");
	e = o.entry;
	e.accepted[1].tokens++;
	not_applied(&o, &e, ERR_hash, "contribution 2 of an update, peer 2, is not the one");
	e.accepted[1].tokens--;
	e.update = help_round_hash(8);
	not_applied(&o, &e, ERR_hash, "is not the list it carries");
	for (long at = 1;; at++) {
		struct why why = {0};
		alloc_fail_at(at);
		enum err err = replica_apply(o.reader, &o.entry, &o.bundle.update, &why);
		alloc_fail_at(0);
		if (!err)
			break;
		assert_int_equal(err, ERR_nomem);
	}
	same(o.writer, o.reader);
	not_applied(&o, &o.entry, ERR_wrong_round, "which stands at round 1");
	struct why why = {0};
	assert_int_equal(replica_commit(o.reader, &o.entry, &why), ERR_state);
	one_free(&o);
}

/* ---- bundles */

static struct update_expect expectation(struct one *o)
{
	struct hash genesis;
	assert_true(ledger_hash_at(o->l, 0, &genesis));
	return (struct update_expect){.run = help_round_hash(1),
		.parent = genesis,
		.codec = topk,
		.n = sizes[0],
		.key = help_round_lookup};
}

static bool nobody(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	(void)arg;
	return peer != 2 && help_round_lookup(NULL, peer, out);
}

static bool exchanged(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	return help_round_lookup(arg, peer == 3 ? 4 : peer, out);
}

static void lies_in_a_bundle_are_found(void **state)
{
	(void)state;
	struct one o = one();
	struct update *u = &o.bundle.update;
	struct why why = {0};
	struct update_expect x = expectation(&o);
	assert_int_equal(update_verify(u, &x, &why), ERR_OK);
	x.run = help_round_hash(3);
	assert_int_equal(update_verify(u, &x, &why), ERR_wrong_run);
	x = expectation(&o);
	x.parent = help_round_hash(3);
	assert_int_equal(update_verify(u, &x, &why), ERR_wrong_parent);
	x = expectation(&o);
	x.key = nobody;
	assert_int_equal(update_verify(u, &x, &why), ERR_unknown_peer);
	help_round_told(&why, ERR_unknown_peer, "peer 2, who is not on the roster");
	assert_null(u->vectors);
	x.key = exchanged;
	assert_int_equal(update_verify(u, &x, &why), ERR_signature);
	x = expectation(&o);
	x.n--;
	assert_int_equal(update_verify(u, &x, &why), ERR_shape);
	for (long at = 1;; at++) {
		x = expectation(&o);
		alloc_fail_at(at);
		enum err err = update_verify(u, &x, &why);
		alloc_fail_at(0);
		if (!err)
			break;
		assert_int_equal(err, ERR_nomem);
		assert_null(u->vectors);
	}
	one_free(&o);
}

static void bytes_that_are_no_bundle_are_refused(void **state)
{
	(void)state;
	struct one o = one();
	struct update u;
	struct why why = {0};
	struct buf *b = &o.bundle.bytes;
	for (size_t len = 0; len < b->len; len += len < 400 ? 1 : 53)
		assert_int_not_equal(update_open(b->data, len, &u, &why), ERR_OK);
	buf_put_u8(b, 0);
	/* The first byte may have moved with the buffer. */
	assert_int_equal(update_open(b->data, b->len, &u, &why), ERR_syntax);
	help_round_told(&why, ERR_syntax, "1 bytes follow an update");
	b->len--;
	static const struct {
		size_t at;
		uint8_t value;
		enum err code;
		const char *part;
	} cases[] = {
		{0, 0, ERR_magic, "are no update"},
		{8, 3, ERR_version, "version 3"},
		{10, 2, ERR_unsupported, "is of kind 2"},
		{12, 2, ERR_syntax, "bytes follow"},
		{13, 1, ERR_truncated, "has not room for them"},
		{15, 255, ERR_truncated, "has not room for them"},
		{16, 0, ERR_syntax, "is not for the update it is in"},
		{80, 9, ERR_syntax, "is not for the update it is in"},
		{UPDATE_HEAD + 7, 255, ERR_truncated, "ends inside contribution 1 of 3"},
		{UPDATE_HEAD + 8, 255, ERR_magic, "are no contribution"},
		{UPDATE_HEAD + 8 + 12, 2, ERR_syntax, "of peer 2 follows that of peer 2"},
	};
	b->data[10] = UPDATE_merged; /* what is wrong with the list then, its bytes say */
	assert_int_not_equal(update_open(b->data, b->len, &u, &why), ERR_OK);
	b->data[10] = UPDATE_bundle;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint8_t old = b->data[cases[i].at];
		b->data[cases[i].at] = cases[i].value;
		assert_int_equal(update_open(b->data, b->len, &u, &why), cases[i].code);
		help_round_told(&why, cases[i].code, cases[i].part);
		assert_null(u.views);
		b->data[cases[i].at] = old;
	}
	one_free(&o);
}

static void parts_in_the_wrong_order_are_not_bundled(void **state)
{
	(void)state;
	struct one o = one();
	struct update *u = &o.bundle.update;
	struct buf b;
	struct why why = {0};
	struct update_part parts[2] = {
		{u->views[1].bytes, u->views[1].len}, {u->views[0].bytes, u->views[0].len}};
	buf_init(&b, 1 << 20);
	assert_int_equal(update_encode(&u->head, parts, 2, &b, &why), ERR_syntax);
	assert_int_equal(update_encode(&u->head, parts, 1, &b, &why), ERR_OK);
	buf_release(&b);
	buf_init(&b, 300);
	assert_int_equal(update_encode(&u->head, parts, 1, &b, &why), ERR_toobig);
	assert_int_equal(b.len, 0);
	buf_release(&b);
	one_free(&o);
}

/* Other keys, other signatures, other frames: the same list and the same hash. */
static void keys_and_frames_leave_no_trace_in_the_ledger(void **state)
{
	(void)state;
	struct ledger_entry e[2] = {{0}};
	for (int i = 0; i < 2; i++) {
		struct sign_key *key = sign_make();
		struct contribution c = help_round_says(1, 1, 0);
		float *v = help_round_vector(4, sizes[0]);
		struct planes planes;
		struct buf sealed, bundle;
		struct update u;
		planes_init(&planes, codec_bound(&topk, sizes[0]));
		assert_int_equal(codec_encode(&topk, v, sizes[0], NULL, &planes, NULL), ERR_OK);
		if (i == 1) { // one block instead of one for each plane
			planes.end[0] = planes.bytes.len;
			planes.n = 1;
		}
		buf_init(&sealed, 1 << 20);
		buf_init(&bundle, 1 << 20);
		assert_int_equal(contribution_seal(&c, &topk, &planes, key, &sealed), ERR_OK);
		struct update_part part = {sealed.data, sealed.len};
		struct update_head head = {c.run, c.parent, 1, 0, 0};
		assert_int_equal(update_encode(&head, &part, 1, &bundle, NULL), ERR_OK);
		assert_int_equal(update_open(bundle.data, bundle.len, &u, NULL), ERR_OK);
		assert_int_equal(update_list(&u, &e[i]), ERR_OK);
		update_release(&u);
		buf_release(&bundle);
		buf_release(&sealed);
		planes_release(&planes);
		sign_free(key);
		free(v);
	}
	assert_true(hash_equal(&e[0].update, &e[1].update));
	ledger_entry_release(&e[0]);
	ledger_entry_release(&e[1]);
}

static void golden_hashes(void **state)
{
	(void)state;
	struct ledger_accepted list[2] = {
		{1, 100, help_round_hash(1)}, {2, 200, help_round_hash(2)}};
	struct ledger_entry e = {.count = 2, .accepted = list};
	struct hash h = ledger_update_hash(&e);
	char hex[HASH_HEX];
	hash_hex(&h, hex);
	assert_string_equal(
		hex, "3d42aff2875781ba4313b778eaba70f0264c9a2d53a98860370bc449b1827e4d");
	e.kind = UPDATE_merged;
	e.merged = help_round_hash(3);
	h = ledger_update_hash(&e);
	hash_hex(&h, hex);
	assert_string_equal(
		hex, "47dfe09096c3cfef1737521a6602450cba482cefeeb12a139decd5c6a46c9c98");
	struct replica *r = replica("diloco");
	h = replica_hash(r, 1);
	hash_hex(&h, hex);
	assert_string_equal(
		hex, "78bf36b52b4ec2ca05d21e0e9dd4e125750c23384c35a3915c9c963e05751669");
	replica_free(r);

	/* Twelve rounds of every rule: the arithmetic itself. */
	static const char *const ends[N_RULES] = {
		"2adc7808d4bea0a3de0377ec9fe007f9250ea47f7db19e27773904251e4ffb56",
		"6bbf502b979bd10ac3ba9ede4cc7d50b789656b28961d7e7f3aaeff67f3148ad",
		"6314b03f3960b47bb9404f4ddcbc2cfd32e01133df65b8e17a7734099d728db5",
		"a14ce2a18566500e5f9a62f3f7f4eaa87d7db6b6f34a33379b83b49d63966a0c"};
	for (size_t i = 0; i < N_RULES; i++) {
		struct history *all = history(rules[i], 12, &r);
		h = replica_hash_all(r);
		hash_hex(&h, hex);
		assert_string_equal(hex, ends[i]);
		replica_free(r);
		history_free(all);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_follows_has_the_same_bits),
		cmocka_unit_test_setup_teardown(a_snapshot_and_the_rest_give_the_same,
			help_round_setup, help_round_teardown),
		cmocka_unit_test_setup_teardown(a_snapshot_that_does_not_fit_is_refused,
			help_round_setup, help_round_teardown),
		cmocka_unit_test(an_entry_is_applied_wholly_or_not_at_all),
		cmocka_unit_test(lies_in_a_bundle_are_found),
		cmocka_unit_test(bytes_that_are_no_bundle_are_refused),
		cmocka_unit_test(parts_in_the_wrong_order_are_not_bundled),
		cmocka_unit_test(keys_and_frames_leave_no_trace_in_the_ledger),
		cmocka_unit_test(golden_hashes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
