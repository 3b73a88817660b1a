#include "coordinator/waits.h"
#include "base/clock.h"

#define LOST_GRACE (3 * CLOCK_SECOND) /* a link that is down may come back for so long */
/* The same after this process was away: back-off has grown meanwhile. */
#define RESTART_GRACE (30 * CLOCK_SECOND)
#define SETTLE_FLOOR (2 * CLOCK_SECOND)
/* An answering member that does not finish is given up after so many expected times. */
#define BOUND_FACTOR 10
#define BOUND_FLOOR (60 * CLOCK_SECOND)
/* The expected length of a fixed-step round before any was seen. */
#define FIRST_ROUND (600 * CLOCK_SECOND)

uint64_t waits_length(const struct waits *w)
{
	bool fixed = w->spec->mode == SPEC_fixed;
	uint64_t first =
		fixed ? FIRST_ROUND : (uint64_t)(1.5 * w->spec->seconds * (double)CLOCK_SECOND);
	return arrivals_expected(&w->finished, first, CLOCK_SECOND);
}

double waits_left(const struct waits *w, uint64_t now)
{
	return 1 - clock_seconds(now - w->opened_ns) / w->spec->seconds;
}

/* How long a lost link may stay lost. */
static uint64_t link_back(const struct waits *w, uint64_t since_ns)
{
	uint64_t usual = since_ns + LOST_GRACE,
		 restart = w->restarted_ns ? w->restarted_ns + RESTART_GRACE : 0;
	return usual > restart ? usual : restart;
}

/* Once enough are in; before three arrivals were ever seen, the rest may take as long again as the
 * quorum took. */
static uint64_t grace(const struct waits *w, uint64_t length)
{
	uint64_t until =
		w->opened_ns + (w->finished.n >= 3 ? length : 2 * (w->quorum_ns - w->opened_ns));
	return until > w->quorum_ns ? until : w->quorum_ns;
}

uint64_t waits_member(
	const struct waits *w, enum member_state state, uint64_t since_ns, uint64_t length)
{
	if (state == MEMBER_gone)
		return 0;
	uint64_t until = w->opened_ns + BOUND_FACTOR * length + BOUND_FLOOR;
	if (state == MEMBER_away && link_back(w, since_ns) < until)
		until = link_back(w, since_ns);
	if (w->quorum_ns && grace(w, length) < until)
		until = grace(w, length);
	return until;
}

uint64_t waits_settle(const struct waits *w)
{
	bool all = w->spec->quorum >= 1;
	uint64_t expected = arrivals_expected(&w->applied, 5 * SETTLE_FLOOR, SETTLE_FLOOR);
	return w->closed_ns + (all ? BOUND_FACTOR * expected + BOUND_FLOOR : expected);
}

uint64_t waits_welcome(const struct waits *w)
{
	return w->closed_ns + arrivals_expected(&w->applied, SETTLE_FLOOR, SETTLE_FLOOR);
}

uint64_t waits_answer(const struct waits *w)
{
	return w->asked_ns + BOUND_FACTOR * waits_length(w) + BOUND_FLOOR;
}
