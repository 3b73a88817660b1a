/* An aggregator with a round open, contributions to it, and what they come to without it: what
 * tests of it begin with. */
#ifndef TESTS_HELP_AGGREGATE_H
#define TESTS_HELP_AGGREGATE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "peer/aggregate.h"
#include "round/update_make.h"
#include "tests/help_peer.h"

#define ROUND 3u
#define WAIT (60 * CLOCK_SECOND)
#define LOTS (64ull << 20)

static const char *const bundling[] = {NULL};
/* Dense contributions: two and more are smaller merged. */
static const char *const merging[] = {"outer.merged=int8", "codec.select=all", "codec.values=int8",
	"codec.chunk=1024", "codec.k=null", NULL};

struct bed {
	struct help_peer run;
	struct mailbox *results;
	struct aggregate *a;
	struct hash parent;
	uint64_t round; /* that is open */
};

static inline void open_round(struct bed *b, uint64_t round, bool first, bool second)
{
	const bool takes[2] = {first, second};
	b->round = round;
	b->parent = hash_of(&round, sizeof round);
	aggregate_open(b->a, round, &b->parent, takes);
}

static inline void open_bed(struct bed *b, const char *const *changes, uint64_t memory)
{
	struct why why = {0};
	*b = (struct bed){0};
	help_peer_open(&b->run, changes);
	b->results = mailbox_new();
	const struct aggregate_config how = {b->run.spec, b->results, memory};
	help_peer_fine(aggregate_new(&how, &b->a, &why), &why);
	aggregate_roster(b->a, b->run.roster);
	open_round(b, ROUND, true, true);
}

static inline void close_bed(struct bed *b)
{
	aggregate_free(b->a);
	mailbox_free(b->results);
	help_peer_release(&b->run);
}

/* The next result, of this kind. */
static inline struct aggregate_result *next(struct bed *b, enum aggregate_result_kind kind)
{
	struct mail *m = mailbox_wait(b->results, WAIT);
	assert_non_null(m);
	assert_true(aggregate_is_result(m));
	assert_int_equal(m->kind, kind);
	return (struct aggregate_result *)m;
}

static inline struct aggregate_result *fine(struct bed *b, enum aggregate_result_kind kind)
{
	struct aggregate_result *r = next(b, kind);
	help_peer_fine(r->why.code, &r->why);
	return r;
}

static inline void refused(
	struct bed *b, enum aggregate_result_kind kind, enum err code, const char *part)
{
	struct aggregate_result *r = next(b, kind);
	help_peer_told(&r->why, code, part);
	assert_null(r->bytes);
	assert_null(r->shared);
	aggregate_result_free(r);
}

/* ---- contributions */

static inline struct contribution says(const struct bed *b, uint32_t member, uint32_t shard)
{
	return (struct contribution){.run = b->run.spec->id,
		.parent = b->parent,
		.round = b->round,
		.shard = shard,
		.peer = member,
		.tokens = 10 * b->run.spec->train.seq,
		.n_spans = 1,
		.spans = {{100 * (uint64_t)member, 100 * (uint64_t)member + 10}}};
}

/* Values up to size; signed as signer. */
static inline struct buf seal(
	const struct bed *b, struct contribution *c, uint32_t signer, double size)
{
	const struct codec_params *codec = &b->run.exchange.codec;
	size_t n = replica_count(b->run.replica, c->shard < 2 ? c->shard : 0);
	float *v = alloc_must_zero(n, sizeof *v);
	struct planes planes;
	struct buf out;
	for (size_t i = 0; i < n; i++)
		v[i] = (float)(size * (rng_unit(c->peer, 10 * c->round + c->shard, i) - 0.5));
	planes_init(&planes, codec_bound(codec, n));
	buf_init(&out, contribution_bound(codec, n));
	assert_int_equal(codec_encode(codec, v, n, NULL, &planes, NULL), ERR_OK);
	assert_int_equal(contribution_seal(c, codec, &planes, help_peer_key(signer), &out), ERR_OK);
	planes_release(&planes);
	free(v);
	return out;
}

static inline struct buf contribution(const struct bed *b, uint32_t member, uint32_t shard)
{
	struct contribution c = says(b, member, shard);
	return seal(b, &c, member, 1);
}

static inline void put_bytes(struct bed *b, const void *bytes, size_t n)
{
	const struct aggregate_from from = {.key = {7}, .ref = n};
	uint8_t *copy = alloc_must(n);
	memcpy(copy, bytes, n);
	aggregate_put(b->a, &from, copy, n);
}

static inline void put(struct bed *b, uint32_t member, uint32_t shard)
{
	struct buf c = contribution(b, member, shard);
	put_bytes(b, c.data, c.len);
	aggregate_result_free(fine(b, AGGREGATE_taken));
	buf_release(&c);
}

/* ---- lists */

static inline struct aggregate_item item(const struct bed *b, uint32_t member, uint32_t shard)
{
	struct buf c = contribution(b, member, shard);
	struct contribution_view v;
	assert_int_equal(contribution_parse(c.data, c.len, &v, NULL), ERR_OK);
	struct aggregate_item out = {member, contribution_id(&v)};
	buf_release(&c);
	return out;
}

/* Of members from first to last. */
static inline struct aggregate_item *list(
	const struct bed *b, uint32_t shard, uint32_t first, uint32_t last)
{
	struct aggregate_item *items = alloc_must_zero(last - first + 1, sizeof *items);
	for (uint32_t i = first; i <= last; i++)
		items[i - first] = item(b, i, shard);
	return items;
}

static inline void gather(struct bed *b, uint32_t shard, uint32_t first, uint32_t last)
{
	aggregate_gather(b->a, b->round, shard, list(b, shard, first, last), last - first + 1);
}

/* ---- the same without an aggregator */

static inline bool find_key(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	(void)arg;
	if (peer < 1 || peer > HELP_PEER_MEMBERS + 1)
		return false;
	struct sign_public key = sign_public_of(help_peer_key(peer));
	memcpy(out, key.b, SIGN_PUBLIC);
	return true;
}

static inline struct update_make how(const struct bed *b, uint32_t shard)
{
	return (struct update_make){.expect = {.run = b->run.spec->id,
					    .parent = b->parent,
					    .codec = b->run.exchange.codec,
					    .merged = b->run.exchange.merged,
					    .n = replica_count(b->run.replica, shard),
					    .key = find_key},
		.rule = b->run.exchange.rule,
		.round = b->round,
		.shard = shard};
}

/* As whoever closes a round alone makes it. */
static inline struct update_made make(
	const struct bed *b, uint32_t shard, uint32_t first, uint32_t last, bool smaller)
{
	struct buf sealed[HELP_PEER_MEMBERS];
	struct update_part parts[HELP_PEER_MEMBERS];
	struct update_made made;
	struct why why = {0};
	const struct update_make m = how(b, shard);
	uint32_t n = last - first + 1;
	for (uint32_t i = 0; i < n; i++) {
		sealed[i] = contribution(b, first + i, shard);
		parts[i] = (struct update_part){sealed[i].data, sealed[i].len};
	}
	help_peer_fine(update_make_bundle(&m, parts, n, &made, &why), &why);
	if (smaller)
		help_peer_fine(update_make_smaller(&m, &made, &why), &why);
	for (uint32_t i = 0; i < n; i++)
		buf_release(&sealed[i]);
	return made;
}

static inline void same(const struct shared *have, const struct update_made *want)
{
	assert_int_equal(shared_len(have), want->bytes.len);
	assert_memory_equal(shared_data(have), want->bytes.data, want->bytes.len);
}

static inline uint8_t *copy_of(const struct buf *b)
{
	uint8_t *copy = alloc_must(b->len);
	memcpy(copy, b->data, b->len);
	return copy;
}

#endif
