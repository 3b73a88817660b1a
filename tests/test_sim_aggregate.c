/* Whoever makes an update, a coordinator alone or an aggregator, makes the same bytes of the same
 * contributions: the ledger's head does not depend on who it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "coordinator/closing.h"
#include "peer/aggregate.h"
#include "round/record.h"
#include "tests/help_sim.h"

#define PEERS 3u
#define ROUND 1u
#define WAIT (60 * CLOCK_SECOND)

#define SPEC(outer, codec) \
	"{\"shoal\":1,\"name\":\"tiny\",\"seed\":3,\"model\":{\"builder\":\"gpt\",\"layers\":2," \
	"\"width\":16,\"heads\":2,\"context\":16,\"vocab\":256,\"tied\":false,\"shards\":[0,1]}," \
	"\"data\":{\"manifest\":\"" \
	"0101010101010101010101010101010101010101010101010101010101010101\"}," \
	"\"train\":{\"batch\":4,\"micro_batch\":2,\"seq\":16,\"lr\":0.01,\"beta1\":0.9," \
	"\"beta2\":0.95,\"eps\":1e-8,\"weight_decay\":0.1,\"clip\":1.0,\"warmup_tokens\":640," \
	"\"total_tokens\":12800,\"final_lr\":0.1}," \
	"\"round\":{\"mode\":\"fixed\",\"steps\":3,\"peers_min\":1,\"quorum\":1.0," \
	"\"validate_every\":4,\"snapshot_every\":5},\"outer\":{" outer "},\"codec\":{" codec "}}"

static const struct {
	const char *spec;
	enum update_kind kind;
} runs[] = {
	{SPEC("\"rule\":\"sparseloco\",\"lr\":0.8",
		 "\"select\":\"topk\",\"values\":\"two\",\"chunk\":1024,\"k\":64,\"decay\":0.95"),
		UPDATE_bundle},
	{SPEC("\"rule\":\"diloco\",\"lr\":0.7,\"momentum\":0.9",
		 "\"select\":\"all\",\"values\":\"int8\",\"chunk\":1024,\"decay\":0.95"),
		UPDATE_merged},
	{SPEC("\"rule\":\"mean_R\",\"lr\":0.8",
		 "\"select\":\"randk\",\"values\":\"mean4\",\"chunk\":512,\"k\":64,\"decay\":0.95"),
		UPDATE_merged},
};

struct bed {
	struct spec *spec;
	struct graph *graph;
	struct shardfile files;
	struct closing closing;
	struct ledger_head genesis;
	struct hash *states;
	struct sign_key *keys[PEERS];
	struct closing_input inputs[PEERS]; /* of one shard */
	struct mailbox *results;
	struct aggregate *a;
};

/* ---- the coordinator's side: a state of zeros on disk */

static void open_disk(struct bed *b)
{
	struct why why = {0};
	struct closing *c = &b->closing;
	char *dir = alloc_must_strdup(help_sim_scenario("\"peers\":[]"));
	*strrchr(dir, '/') = 0;
	char *state = alloc_must_printf("%s/state", dir),
	     *blobs = alloc_must_printf("%s/blobs", dir);
	help_sim_fine(file_mkdirs(state, 0700, &why), &why);
	help_sim_fine(blob_open(blobs, 0, &c->blobs, &why), &why);
	b->files = (struct shardfile){.dir = state,
		.run = b->spec->id,
		.rule = c->exchange.rule.row,
		.n_shards = b->graph->n_shards,
		.n = b->graph->shard_params};
	b->states = alloc_must_zero(b->graph->n_shards, sizeof *b->states);
	for (uint32_t i = 0; i < b->graph->n_shards; i++) {
		struct shardstate s;
		size_t n = (size_t)b->graph->shard_params[i];
		assert_int_equal(shardstate_init(&s, i, n, c->exchange.rule.row), ERR_OK);
		help_sim_fine(shardfile_save(&b->files, &s, &why), &why);
		b->states[i] = shardstate_hash(&s);
		shardstate_release(&s);
	}
	free(blobs);
	free(dir);
}

static void open_bed(struct bed *b, const char *spec)
{
	struct why why = {0};
	struct roster_member members[PEERS] = {0};
	struct roster *roster;
	struct closing *c = &b->closing;
	*b = (struct bed){.results = mailbox_new()};
	help_sim_fine(spec_parse(spec, strlen(spec), &b->spec, NULL, &why), &why);
	help_sim_fine(graph_build(&b->spec->model, 1, 1, &b->graph, &why), &why);
	help_sim_fine(exchange_find(b->spec, &c->exchange, &why), &why);
	open_disk(b);
	b->genesis.hash = ledger_genesis(&b->spec->id, b->states, b->graph->n_shards);
	c->files = &b->files;
	c->run = b->spec->id;
	c->parent = b->genesis;
	c->round = ROUND;
	for (uint32_t i = 0; i < PEERS; i++) {
		uint8_t secret[SIGN_SECRET];
		memset(secret, (int)i + 1, sizeof secret);
		assert_int_equal(sign_load(secret, &b->keys[i]), ERR_OK);
		members[i].number = 10 * i;
		members[i].sign = sign_public_of(b->keys[i]);
		members[i].curve[0] = (uint8_t)(i + 1);
		strcpy(members[i].name, "m");
	}
	help_sim_fine(roster_new(&b->spec->id, 1, members, PEERS, &roster, &why), &why);
	const struct aggregate_config how = {b->spec, b->results, 64 << 20};
	const bool takes[2] = {true, true};
	help_sim_fine(aggregate_new(&how, &b->a, &why), &why);
	aggregate_roster(b->a, roster);
	aggregate_open(b->a, ROUND, &b->genesis.hash, takes);
	roster_free(roster);
}

static void close_bed(struct bed *b)
{
	aggregate_free(b->a);
	mailbox_free(b->results);
	for (uint32_t i = 0; i < PEERS; i++)
		sign_free(b->keys[i]);
	blob_close(b->closing.blobs);
	free((void *)(uintptr_t)b->files.dir);
	free(b->states);
	graph_free(b->graph);
	spec_free(b->spec);
}

/* ---- one shard by both */

static struct aggregate_result *fine(struct bed *b, enum aggregate_result_kind kind)
{
	struct mail *m = mailbox_wait(b->results, WAIT);
	assert_non_null(m);
	assert_int_equal(m->kind, kind);
	struct aggregate_result *r = (struct aggregate_result *)m;
	help_sim_fine(r->why.code, &r->why);
	return r;
}

static uint8_t *copy_of(const void *bytes, size_t n)
{
	uint8_t *copy = alloc_must(n);
	memcpy(copy, bytes, n);
	return copy;
}

/* To the coordinator's disk and to the aggregator. */
static struct aggregate_item contribute(struct bed *b, uint32_t shard, uint32_t i)
{
	struct codec_params codec = b->closing.exchange.codec;
	const size_t n = (size_t)b->graph->shard_params[shard];
	const uint32_t peer = 10 * i;
	struct contribution c = {.run = b->spec->id,
		.parent = b->genesis.hash,
		.round = ROUND,
		.shard = shard,
		.peer = peer,
		.tokens = (i + 1) * b->spec->train.seq,
		.n_spans = 1,
		.spans = {{peer, peer + i + 1}}};
	struct planes planes;
	struct buf bytes;
	struct why why = {0};
	float *v = alloc_must_zero(n, sizeof *v);
	for (size_t k = 0; k < n; k++)
		v[k] = (float)rng_unit(peer, shard, k) - 0.5f;
	if (codec.select == SELECT_randk)
		codec.seed = contribution_seed(&b->spec->id, ROUND, shard);
	planes_init(&planes, codec_bound(&codec, n));
	buf_init(&bytes, contribution_bound(&codec, n));
	help_sim_fine(codec_encode(&codec, v, n, NULL, &planes, &why), &why);
	assert_int_equal(contribution_seal(&c, &codec, &planes, b->keys[i], &bytes), ERR_OK);
	struct closing_input *in = &b->inputs[i];
	struct sign_public key = sign_public_of(b->keys[i]);
	in->peer = peer;
	memcpy(in->key, key.b, sizeof in->key);
	help_sim_fine(blob_put(b->closing.blobs, bytes.data, bytes.len, &in->blob, &why), &why);
	const struct aggregate_from from = {.ref = i};
	aggregate_put(b->a, &from, copy_of(bytes.data, bytes.len), bytes.len);
	struct contribution_view view;
	assert_int_equal(contribution_parse(bytes.data, bytes.len, &view, NULL), ERR_OK);
	const struct aggregate_item item = {peer, contribution_id(&view)};
	aggregate_result_free(fine(b, AGGREGATE_taken));
	planes_release(&planes);
	buf_release(&bytes);
	free(v);
	return item;
}

static void check_shard(
	struct bed *b, uint32_t shard, enum update_kind kind, struct ledger_head *at)
{
	struct why why = {0};
	struct closing_out out;
	struct ledger_entry entry;
	size_t used;
	struct aggregate_item *items = alloc_must_zero(PEERS, sizeof *items);
	for (uint32_t i = PEERS; i-- > 0;)
		items[i] = contribute(b, shard, i);
	const struct closing_job job = {shard, PEERS, b->states[shard], b->inputs, NULL};
	b->closing.contribution_most = contribution_bound(
		&b->closing.exchange.codec, (size_t)b->graph->shard_params[shard]);
	help_sim_fine(closing_shard(&b->closing, &job, at, &out, &why), &why);
	assert_int_equal(out.entry.kind, kind);
	const uint8_t *record = shared_data(out.record);
	const size_t len = shared_len(out.record);
	help_sim_fine(ledger_entry_decode(record, len, &used, &entry, &why), &why);

	aggregate_gather(b->a, ROUND, shard, items, PEERS);
	struct aggregate_result *r = fine(b, AGGREGATE_update);
	assert_int_equal(shared_len(r->shared), len - used);
	assert_memory_equal(shared_data(r->shared), record + used, len - used);
	aggregate_compose(b->a, copy_of(record, used), used,
		copy_of(shared_data(r->shared), len - used), len - used);
	aggregate_result_free(r);
	r = fine(b, AGGREGATE_record);
	assert_int_equal(r->len, len);
	assert_memory_equal(r->bytes, record, len);
	aggregate_result_free(r);
	ledger_entry_release(&entry);
	closing_release(&out);
}

static void both_make_the_same(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
		struct bed b;
		open_bed(&b, runs[i].spec);
		struct ledger_head at = b.genesis;
		for (uint32_t shard = 0; shard < b.graph->n_shards; shard++)
			check_shard(&b, shard, runs[i].kind, &at);
		close_bed(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			both_make_the_same, help_sim_setup, help_sim_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
