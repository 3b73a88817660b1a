#include "coordinator/reason.h"
#include <stdio.h>
#include "base/clock.h"

/* The members of the open round, counted for the sentence. */
struct tally {
	uint32_t assigned, in, away, slowest;
	uint64_t done, steps;
};

static struct tally count(const struct rounds *r)
{
	struct tally t = {.slowest = UINT32_MAX};
	for (uint32_t i = 0; i < rounds_ask_members(r); i++) {
		const struct rounds_member *m = rounds_ask_member(r, i);
		if (!m || !m->assigned)
			continue;
		t.assigned++;
		if (m->state == MEMBER_in) {
			t.in++;
			continue;
		}
		t.away += m->state == MEMBER_away;
		if (t.slowest == UINT32_MAX || m->steps_done < t.done) {
			t.slowest = i;
			t.done = m->steps_done;
			t.steps = m->steps;
		}
	}
	return t;
}

static void open_reason(const struct rounds *r, char out[static REASON_TEXT])
{
	struct tally t = count(r);
	unsigned long long round = rounds_ask_round(r);
	char away[40] = "";
	if (t.away)
		snprintf(away, sizeof away, ", %u lost their link", t.away);
	if (t.slowest == UINT32_MAX)
		snprintf(out, REASON_TEXT, "round %llu: all %u members are in", round, t.assigned);
	else
		snprintf(out, REASON_TEXT,
			"round %llu: %u of %u members are in%s; member %u is at step %llu of %llu",
			round, t.in, t.assigned, away, t.slowest, (unsigned long long)t.done,
			(unsigned long long)t.steps);
}

static void waiting_reason(
	const struct rounds *r, const struct spec *spec, uint64_t now, char out[static REASON_TEXT])
{
	uint64_t until;
	uint32_t ready = rounds_ask_count(r, MEMBER_ready), least = spec->round.peers_min;
	uint32_t applying = rounds_ask_applying(r, &until);
	if (rounds_ask_paused(r))
		snprintf(out, REASON_TEXT, "paused by the operator");
	else if (ready < least)
		snprintf(out, REASON_TEXT,
			"waiting for %u more peer%s: %u of at least %u ready, %u syncing, %u away",
			least - ready, least - ready == 1 ? "" : "s", ready, least,
			rounds_ask_count(r, MEMBER_syncing), rounds_ask_count(r, MEMBER_away));
	else
		snprintf(out, REASON_TEXT,
			"waiting for %u peer%s to apply the last round, at most %.0f s more",
			applying, applying == 1 ? "" : "s",
			until > now ? clock_seconds(until - now) : 0.0);
}

void reason_text(
	const struct rounds *r, const struct spec *spec, uint64_t now, char out[static REASON_TEXT])
{
	switch (rounds_ask_state(r)) {
	case ROUNDS_waiting: waiting_reason(r, spec, now, out); return;
	case ROUNDS_open: open_reason(r, out); return;
	case ROUNDS_closing:
		snprintf(out, REASON_TEXT, "applying round %llu",
			(unsigned long long)rounds_ask_round(r));
		return;
	case ROUNDS_finishing:
		snprintf(out, REASON_TEXT, "%s",
			rounds_ask_asked_last(r) ? "waiting for the final model's loss from a peer"
						 : "all tokens are trained; waiting for a peer to "
						   "measure the final loss");
		return;
	case ROUNDS_finished:
		snprintf(out, REASON_TEXT, "finished: all tokens are trained");
		return;
	}
}
