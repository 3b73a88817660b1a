/* The round machine with two shards: what tests of it begin with. */
#ifndef TESTS_HELP_ROUNDS_H
#define TESTS_HELP_ROUNDS_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "coordinator/rounds.h"

#define SHARDS 2
#define SEQ 8

/* Rounds are the test's own. */
static inline struct spec spec_of(struct spec_round rounds)
{
	struct spec s = {0};
	s.train = (struct spec_train){
		.batch = 2, .micro_batch = 2, .seq = SEQ, .total_tokens = 1u << 30};
	s.round = rounds;
	return s;
}

static inline struct rounds *start(const struct spec *spec)
{
	struct rounds_config c = {.spec = spec, .n_shards = SHARDS, .first_round = 1, .now = 1};
	return rounds_new(&c);
}

static inline void join(struct rounds *r, uint32_t member, uint64_t now)
{
	rounds_on_joined(r, member, now);
	rounds_on_linked(r, member, true, now);
}

static inline struct rounds_action expect(struct rounds *r, enum rounds_action_kind kind)
{
	struct rounds_action a = rounds_next(r);
	assert_int_equal(a.kind, kind);
	return a;
}

/* All shards, of so many sequences. */
static inline void deliver_some(struct rounds *r, uint32_t member, uint64_t n, uint64_t now)
{
	for (int s = 0; s < SHARDS; s++)
		assert_true(rounds_on_contribution(r, member, n, now));
}

#endif
