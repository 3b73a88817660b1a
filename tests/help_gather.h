/* A coordinator whose plan names an aggregator, which exists as the test's own words: receipts,
 * updates, bundles, verdicts. */
#ifndef TESTS_HELP_GATHER_H
#define TESTS_HELP_GATHER_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "coordinator/hub_gather.h"
#include "coordinator/hub_topology_parts.h"
#include "round/object.h"
#include "round/update_make.h"
#include "tests/help_coordinator.h"

#define MEMBERS HELP_COORDINATOR_MEMBERS
#define AGGREGATOR 0u /* of the test's members; the others contribute too */
#define ALL ((1u << MEMBERS) - 1)

static inline uint32_t number_of(uint32_t i)
{
	return i + MEMBERS_FIRST;
}

/* The open round's plan: this member has all shards, and everybody follows it. */
static inline void name_aggregator(struct hub *h)
{
	for (uint32_t s = 0; s < h->run.files.n_shards; s++)
		h->topology->aggregator[s] = number_of(AGGREGATOR);
	for (uint32_t i = 0; i < MEMBERS; i++)
		h->topology->ways[number_of(i)].follows = true;
}

static inline void open_hub(struct hub *h, const struct spec *spec)
{
	help_coordinator_open(h, spec);
	for (uint32_t i = 0; i < MEMBERS; i++)
		help_coordinator_hello(h, i);
	assert_int_equal(rounds_ask_state(h->rounds), ROUNDS_open);
	name_aggregator(h);
}

static inline struct buf seal(struct hub *h, uint32_t i, uint32_t shard)
{
	struct buf b;
	buf_init(&b, contribution_bound(&h->run.exchange.codec, h->run.files.n[shard]));
	help_coordinator_seal(h, i, shard, &b);
	return b;
}

/* A receipt from member by with what was signed of this contribution. */
static inline void say_receipt(
	struct hub *h, uint32_t by, const struct buf *c, const shoal_receipt *says)
{
	struct contribution_view v;
	struct link_event *e = link_event_new(LINK_message, help_coordinator_link(by));
	assert_int_equal(contribution_parse(c->data, c->len, &v, NULL), ERR_OK);
	e->header.which_body = MSG_receipt;
	e->header.body.receipt = *says;
	e->payload_len = v.signed_len + SIGN_BYTES;
	e->payload = alloc_must(e->payload_len);
	memcpy(e->payload, c->data, e->payload_len);
	hub_take(h, &e->mail, clock_now_ns());
}

static inline void receipt(struct hub *h, uint32_t i, uint32_t shard)
{
	struct buf c = seal(h, i, shard);
	const shoal_receipt says = {
		.round = rounds_ask_round(h->rounds), .shard = shard, .bytes = c.len};
	say_receipt(h, AGGREGATOR, &c, &says);
	buf_release(&c);
}

/* Everybody's to every shard. */
static inline void receipts(struct hub *h)
{
	for (uint32_t i = 0; i < MEMBERS; i++)
		for (uint32_t s = 0; s < h->run.files.n_shards; s++)
			receipt(h, i, s);
}

static inline bool find_key(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	const struct hub *h = arg;
	memcpy(out, members_at(h->run.members, peer)->sign, SIGN_PUBLIC);
	return true;
}

/* The update of these members (bits), as everybody makes it, or the bundle. */
static inline struct update_made make_update(
	struct hub *h, uint32_t shard, uint32_t members, bool bundle)
{
	const struct update_make how = {.expect = {.run = h->run.spec->id,
						.parent = run_head(&h->run).hash,
						.codec = h->run.exchange.codec,
						.merged = h->run.exchange.merged,
						.n = h->run.files.n[shard],
						.key = find_key,
						.arg = h},
		.rule = h->run.exchange.rule,
		.round = rounds_ask_round(h->rounds),
		.shard = shard};
	struct buf c[MEMBERS];
	struct update_part parts[MEMBERS];
	struct update_made made;
	struct why why;
	uint32_t n = 0;
	for (uint32_t i = 0; i < MEMBERS; i++) {
		if (!(members >> i & 1))
			continue;
		c[n] = seal(h, i, shard);
		parts[n] = (struct update_part){c[n].data, c[n].len};
		n++;
	}
	enum err err = update_make_bundle(&how, parts, n, &made, &why);
	if (!err && !bundle)
		err = update_make_smaller(&how, &made, &why);
	if (err)
		fail_msg("%s", why.text);
	while (n > 0)
		buf_release(&c[--n]);
	return made;
}

static inline void say_object(
	struct hub *h, enum object_kind kind, uint32_t shard, const struct buf *bytes)
{
	struct link_event *e = link_event_new(LINK_object, help_coordinator_link(AGGREGATOR));
	struct buf meta;
	buf_init(&meta, TRANSFER_META);
	buf_put_u64(&meta, rounds_ask_round(h->rounds));
	buf_put_u32(&meta, shard);
	memcpy(e->meta, meta.data, meta.len);
	e->meta_len = meta.len;
	buf_release(&meta);
	e->object_kind = kind;
	e->payload = alloc_must(bytes->len);
	memcpy(e->payload, bytes->data, bytes->len);
	e->payload_len = bytes->len;
	hub_take(h, &e->mail, clock_now_ns());
}

static inline void give(struct hub *h, enum object_kind kind, uint32_t shard, uint32_t members)
{
	struct update_made made = make_update(h, shard, members, kind == OBJECT_bundle);
	say_object(h, kind, shard, &made.bytes);
	update_make_release(&made);
}

static inline bool is_checked(const struct hub *h)
{
	for (uint32_t s = 0; s < h->run.files.n_shards; s++)
		if (hub_gather_state(h, s) == GATHER_checking ||
			hub_gather_state(h, s) == GATHER_merging)
			return false;
	return rounds_ask_state(h->rounds) != ROUNDS_closing ||
	       !(hub_gather_state(h, 0) == GATHER_made &&
		       hub_gather_state(h, h->run.files.n_shards - 1) == GATHER_made);
}

/* Until the desk has looked at what it has; where that is all, until the round is closed. */
static inline void look(struct hub *h)
{
	help_coordinator_until(h, is_checked);
}

/* Of the witness that was called, whoever it is: the truth, or not. */
static inline void verdict(struct hub *h, uint32_t shard, bool truth)
{
	struct update_made made = make_update(h, shard, ALL, false);
	shoal_header header = {.which_body = MSG_verdict};
	assert_int_equal(hub_gather_state(h, shard), GATHER_witnessed);
	header.body.verdict.round = rounds_ask_round(h->rounds);
	header.body.verdict.shard = shard;
	memcpy(header.body.verdict.merged, made.update.merged.b, sizeof made.update.merged.b);
	header.body.verdict.merged[0] ^= !truth;
	for (uint32_t i = 0; i < MEMBERS && hub_gather_state(h, shard) == GATHER_witnessed; i++)
		help_coordinator_message(h, i, &header);
	update_make_release(&made);
}

static inline uint64_t refusals_of(struct hub *h, uint32_t i)
{
	return hub_member(h, number_of(i))->refusals;
}

#endif
