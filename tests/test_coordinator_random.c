/* The round state machine under random events with virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "coordinator/rounds.h"
#include "tests/help_rounds.h"

static struct spec make_spec(enum spec_mode mode, uint32_t peers_min, double quorum)
{
	return spec_of((struct spec_round){.mode = mode,
		.steps = mode == SPEC_fixed ? 5 : 0,
		.seconds = 10,
		.peers_min = peers_min,
		.quorum = quorum});
}

/* ---- random events: no number is ever lost or counted twice, and with members alive the ledger
 * always moves on */

#define MEMBERS 9

struct world {
	struct rounds *r;
	uint64_t seed, draws, now, credited, rounds_done;
	uint8_t *credit; /* per sequence number */
	size_t n_credit;
};

static uint64_t draw(struct world *w, uint64_t below)
{
	return rng_below(w->seed, 1, w->draws++, below);
}

static void credit(struct world *w, const struct rounds_member *m)
{
	struct span head[SPAN_MAX];
	uint32_t n = span_head(m->spans, m->n_spans, m->sequences_in, head);
	for (uint32_t i = 0; i < n; i++) {
		for (uint64_t s = head[i].first; s < head[i].last; s++) {
			if (s >= w->n_credit) {
				size_t to = (size_t)s * 2 + 64;
				w->credit = alloc_must_resize(w->credit, to, 1);
				memset(w->credit + w->n_credit, 0, to - w->n_credit);
				w->n_credit = to;
			}
			assert_int_equal(w->credit[s]++, 0);
			w->credited++;
		}
	}
}

/* Credited + returned + handed out = all that was ever drawn from the cursor. */
static void account_balances(const struct world *w)
{
	size_t n;
	const struct span *pool = rounds_ask_pool(w->r, &n);
	uint64_t sum = w->credited;
	for (size_t i = 0; i < n; i++)
		sum += pool[i].last - pool[i].first;
	for (uint32_t i = 0; i < rounds_ask_members(w->r); i++) {
		const struct rounds_member *m = rounds_ask_member(w->r, i);
		if (m && m->assigned)
			sum += span_count(m->spans, m->n_spans);
	}
	assert_int_equal(sum, rounds_ask_cursor(w->r));
}

static void act(struct world *w)
{
	for (struct rounds_action a; (a = rounds_next(w->r)).kind != ROUNDS_none;) {
		if (a.kind != ROUNDS_close_round)
			continue;
		for (uint32_t i = 0; i < MEMBERS; i++)
			if (!draw(w, 10))
				rounds_on_withdrawn(w->r, i, w->now);
		if (rounds_ask_state(w->r) != ROUNDS_closing)
			continue; /* nobody is left in it */
		for (uint32_t i = 0; i < rounds_ask_members(w->r); i++) {
			const struct rounds_member *m = rounds_ask_member(w->r, i);
			if (m && m->assigned)
				credit(w, m);
		}
		w->rounds_done++;
		rounds_on_committed(w->r, w->credited * SEQ, w->now);
	}
	if (rounds_ask_state(w->r) != ROUNDS_closing)
		account_balances(w);
}

static void random_event(struct world *w)
{
	uint32_t m = (uint32_t)draw(w, MEMBERS + 1); /* one too many: never joined */
	const struct rounds_member *known = rounds_ask_member(w->r, m);
	uint64_t all = known ? span_count(known->spans, known->n_spans) : 5;
	switch (draw(w, 9)) {
	case 0:
		draw(w, 4) ? rounds_on_linked(w->r, m, draw(w, 2), w->now)
			   : rounds_on_withdrawn(w->r, m, w->now);
		break;
	case 1: rounds_on_at_head(w->r, m, w->now); break;
	case 2: rounds_on_lost(w->r, m, w->now); break;
	case 3: rounds_on_gone(w->r, m, w->now); break;
	case 4: rounds_on_progress(w->r, m, draw(w, 9), (double)draw(w, 5000), w->now); break;
	case 5: (void)rounds_on_contribution(w->r, m, draw(w, all + 3), w->now); break;
	case 6:
	case 7:
		for (int s = 0; s < SHARDS; s++)
			(void)rounds_on_contribution(w->r, m, all, w->now);
		break;
	default: w->now += draw(w, 20 * CLOCK_SECOND); rounds_tick(w->r, w->now);
	}
}

/* Everybody is back and works: within bounded virtual time a round must be done. */
static void must_move_on(struct world *w)
{
	uint64_t before = w->rounds_done, limit = w->now + 24 * 3600 * CLOCK_SECOND;
	while (w->rounds_done == before) {
		assert_true(w->now < limit);
		for (uint32_t i = 0; i < MEMBERS; i++) {
			if (rounds_ask_member(w->r, i)->state == MEMBER_away ||
				rounds_ask_member(w->r, i)->state == MEMBER_gone)
				rounds_on_linked(w->r, i, true, w->now);
			rounds_on_at_head(w->r, i, w->now);
		}
		act(w);
		for (uint32_t i = 0; i < MEMBERS; i++) {
			const struct rounds_member *m = rounds_ask_member(w->r, i);
			while (m->state == MEMBER_working &&
				rounds_on_contribution(w->r, i,
					m->shards_in ? m->sequences_in
						     : span_count(m->spans, m->n_spans),
					w->now))
				;
		}
		act(w);
		w->now += CLOCK_SECOND;
		rounds_tick(w->r, w->now);
	}
}

static void random_events_never_lose_or_double_a_number(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct spec spec = make_spec(
			seed % 2 ? SPEC_fixed : SPEC_timed, 1 + seed % 4, seed % 3 ? 1 : 0.5);
		struct world w = {.r = start(&spec), .seed = seed, .now = 1};
		for (uint32_t i = 0; i < MEMBERS; i++)
			rounds_on_joined(w.r, i, 1);
		for (int k = 0; k < 4; k++) {
			for (int i = 0; i < 1500; i++) {
				random_event(&w);
				act(&w);
			}
			must_move_on(&w);
		}
		assert_true(w.rounds_done > 4);
		rounds_free(w.r);
		free(w.credit);
	}
}

int main(void)
{
	struct why why;
	if (log_select("0", &why))
		return 1;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_events_never_lose_or_double_a_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
