/* Closing a shard from disk gives what a replica in memory gives, whatever the order of arrival. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "coordinator/audit.h"
#include "coordinator/closing.h"
#include "round/record.h"
#include "round/replica.h"
#include "tests/help_coordinator.h"

#define N 500u
#define PEERS 3u

struct world {
	uint64_t n[1];
	size_t n_again[1];
	struct shardfile files;
	struct closing closing;
	struct closing_input inputs[PEERS];
	struct replica *replica;
	struct ledger_head genesis;
	float *start;
};

static void setup_world(struct world *w, bool merging)
{
	struct why why;
	*w = (struct world){.n = {N}, .n_again = {N}};
	struct closing *c = &w->closing;
	c->exchange.codec = (struct codec_params){SELECT_topk, VALUES_two, false, 64, 8, 0, 0};
	c->exchange.merged = merging ? VALUES_int8 : 0;
	assert_int_equal(rule_find("diloco", 0.5, 0.9, &c->exchange.rule, &why), ERR_OK);
	assert_int_equal(file_mkdirs(help_coordinator_path("state"), 0700, &why), ERR_OK);
	assert_int_equal(blob_open(help_coordinator_path("blobs"), 0, &c->blobs, &why), ERR_OK);
	c->run = hash_of("run", 3);
	w->files = (struct shardfile){.dir = help_coordinator_path("state"),
		.run = c->run,
		.rule = c->exchange.rule.row,
		.n_shards = 1,
		.n = w->n};
	c->files = &w->files;
	c->contribution_most = contribution_bound(&c->exchange.codec, N);

	struct shardstate s;
	assert_int_equal(shardstate_init(&s, 0, N, c->exchange.rule.row), ERR_OK);
	for (size_t i = 0; i < N; i++)
		s.params[i] = (float)rng_unit(1, 1, i);
	assert_int_equal(shardfile_save(&w->files, &s, &why), ERR_OK);
	const struct replica_shape shape = {
		.rule = c->exchange.rule, .n_shards = 1, .n = w->n_again};
	assert_int_equal(replica_new(&shape, &w->replica), ERR_OK);
	assert_int_equal(replica_set(w->replica, 0, s.params), ERR_OK);
	struct hash state = shardstate_hash(&s);
	w->genesis = (struct ledger_head){0, 0, ledger_genesis(&c->run, &state, 1)};
	shardstate_release(&s);
}

static void teardown_world(struct world *w)
{
	replica_free(w->replica);
	blob_close(w->closing.blobs);
}

static void contribute(struct world *w, uint32_t peer, const struct ledger_head *parent)
{
	struct contribution c = {.run = w->closing.run,
		.parent = parent->hash,
		.round = parent->round + 1,
		.peer = peer,
		.tokens = 10 * (peer + 1),
		.n_spans = 1,
		.spans = {{10 * peer, 10 * peer + 10}}};
	struct planes planes;
	struct buf b;
	struct why why;
	float v[N];
	for (size_t i = 0; i < N; i++)
		v[i] = (float)rng_unit(2, 10 * c.round + peer, i) - 0.5f;
	planes_init(&planes, codec_bound(&w->closing.exchange.codec, N));
	buf_init(&b, w->closing.contribution_most);
	assert_int_equal(
		codec_encode(&w->closing.exchange.codec, v, N, NULL, &planes, &why), ERR_OK);
	assert_int_equal(contribution_seal(&c, &w->closing.exchange.codec, &planes,
				 help_coordinator_key(peer), &b),
		ERR_OK);
	struct closing_input *in = &w->inputs[peer];
	struct sign_public key = sign_public_of(help_coordinator_key(peer));
	in->peer = peer;
	memcpy(in->key, key.b, sizeof in->key);
	assert_int_equal(blob_put(w->closing.blobs, b.data, b.len, &in->blob, &why), ERR_OK);
	planes_release(&planes);
	buf_release(&b);
}

static bool find_key(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	(void)arg;
	struct sign_public key = sign_public_of(help_coordinator_key(peer));
	memcpy(out, key.b, SIGN_PUBLIC);
	return true;
}

static struct update_expect expectation(const struct world *w, const struct hash *parent)
{
	return (struct update_expect){.run = w->closing.run,
		.parent = *parent,
		.codec = w->closing.exchange.codec,
		.merged = w->closing.exchange.merged,
		.n = N,
		.key = find_key};
}

/* What a peer does with the record. */
static void apply_as_peer(struct world *w, const struct closing_out *out, const struct hash *parent)
{
	struct record rec;
	struct why why;
	const struct update_expect expect = expectation(w, parent);
	assert_int_equal(
		record_open(shared_data(out->record), shared_len(out->record), &rec, &why), ERR_OK);
	assert_int_equal(update_verify(&rec.update, &expect, &why), ERR_OK);
	if (replica_apply(w->replica, &rec.entry, &rec.update, &why))
		fail_msg("%s", why.text);
	record_release(&rec);
}

static void check_rounds(bool merging)
{
	struct world w;
	struct why why;
	setup_world(&w, merging);
	struct ledger_head at = w.genesis;
	for (uint64_t round = 1; round <= 3; round++) {
		struct ledger_head parent = at;
		struct closing_out out;
		for (uint32_t p = 0; p < PEERS; p++)
			contribute(&w, p, &parent);
		w.closing.parent = parent;
		w.closing.round = round;
		/* the last round has nobody in it: an entry all the same */
		const struct closing_job job = {.shard = 0,
			.count = round < 3 ? PEERS : 0,
			.state = replica_hash(w.replica, 0),
			.inputs = w.inputs};
		if (closing_shard(&w.closing, &job, &at, &out, &why))
			fail_msg("%s", why.text);
		assert_int_equal(at.sequence, round);
		assert_int_equal(
			out.entry.kind, merging && round < 3 ? UPDATE_merged : UPDATE_bundle);
		assert_memory_equal(&at.hash, &out.hash, sizeof at.hash);
		apply_as_peer(&w, &out, &parent.hash);
		struct hash have = replica_hash(w.replica, 0);
		assert_memory_equal(&have, &out.entry.state, sizeof have);
		/* done again, after a death: the same bytes */
		struct closing_out again;
		struct ledger_head from = parent;
		assert_int_equal(closing_shard(&w.closing, &job, &from, &again, &why), ERR_OK);
		assert_memory_equal(&again.hash, &out.hash, sizeof out.hash);
		assert_true(hash_equal(shared_name(again.record), shared_name(out.record)));
		closing_release(&again);
		closing_release(&out);
		shardfile_sweep(&w.files, round);
	}
	teardown_world(&w);
}

static void rounds_give_what_a_replica_gives(void **state)
{
	(void)state;
	check_rounds(false);
}

static void merged_rounds_give_what_a_replica_gives(void **state)
{
	(void)state;
	check_rounds(true);
}

/* From the contributions, as long as they are there and are what was listed. */
static void what_was_merged_can_be_merged_again(void **state)
{
	(void)state;
	struct world w;
	struct why why = {0};
	struct closing_out out;
	struct record rec;
	setup_world(&w, true);
	struct ledger_head at = w.genesis;
	w.closing.parent = at;
	w.closing.round = 1;
	for (uint32_t p = 0; p < PEERS; p++)
		contribute(&w, p, &at);
	const struct closing_job job = {.count = PEERS, .inputs = w.inputs};
	const struct hash parent = w.genesis.hash;
	if (closing_shard(&w.closing, &job, &at, &out, &why))
		fail_msg("%s", why.text);
	const struct update_expect expect = expectation(&w, &parent);
	struct audit audit = {w.closing.blobs, &w.closing.exchange, &expect};
	assert_int_equal(
		record_open(shared_data(out.record), shared_len(out.record), &rec, &why), ERR_OK);
	assert_int_equal(update_verify(&rec.update, &expect, &why), ERR_OK);
	assert_int_equal(rec.update.kind, UPDATE_merged);
	if (audit_merged(&audit, &rec.update, &why))
		fail_msg("%s", why.text);

	/* Another outcome, another list, another rule, then one contribution less. */
	rec.update.merged.b[0] ^= 1;
	assert_int_equal(audit_merged(&audit, &rec.update, &why), ERR_hash);
	help_coordinator_told(&why, ERR_hash, "come to something else");
	rec.update.merged.b[0] ^= 1;
	rec.update.accepted[1].tokens++;
	assert_int_equal(audit_merged(&audit, &rec.update, &why), ERR_hash);
	help_coordinator_told(&why, ERR_hash, "of member 1 is not the one that was merged");
	rec.update.accepted[1].tokens--;
	struct exchange other = w.closing.exchange;
	assert_int_equal(rule_find("sparseloco", 1, 0, &other.rule, &why), ERR_OK);
	audit.exchange = &other;
	assert_int_equal(audit_merged(&audit, &rec.update, &why), ERR_hash);
	audit.exchange = &w.closing.exchange;
	assert_int_equal(blob_remove(w.closing.blobs, &w.inputs[2].blob, &why), ERR_OK);
	assert_int_equal(audit_merged(&audit, &rec.update, &why), ERR_missing);
	help_coordinator_told(&why, ERR_missing, "of member 2 that was merged cannot be read");
	record_release(&rec);
	closing_release(&out);
	teardown_world(&w);
}

static void what_is_gone_or_forged_is_named(void **state)
{
	(void)state;
	struct world w;
	struct why why;
	struct closing_out out;
	setup_world(&w, false);
	struct ledger_head at = w.genesis;
	w.closing.parent = at;
	w.closing.round = 1;
	for (uint32_t p = 0; p < PEERS; p++)
		contribute(&w, p, &at);
	const struct closing_job job = {.count = PEERS, .inputs = w.inputs};
	w.inputs[1].key[0] ^= 1; /* signed by somebody else, for all that the roster knows */
	assert_int_equal(closing_shard(&w.closing, &job, &at, &out, &why), ERR_signature);
	w.inputs[1].key[0] ^= 1;
	assert_int_equal(blob_remove(w.closing.blobs, &w.inputs[2].blob, &why), ERR_OK);
	assert_int_equal(closing_shard(&w.closing, &job, &at, &out, &why), ERR_missing);
	help_coordinator_told(&why, ERR_missing, "the contribution of member 2 to shard 0");
	assert_int_equal(at.sequence, 0);
	closing_release(&out);
	closing_release(NULL);
	teardown_world(&w);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, help_coordinator_setup, help_coordinator_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rounds_give_what_a_replica_gives),
		TEST(merged_rounds_give_what_a_replica_gives),
		TEST(what_was_merged_can_be_merged_again),
		TEST(what_is_gone_or_forged_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
