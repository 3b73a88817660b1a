#include "coordinator/stream.h"
#include "coordinator/budget.h"
#include "round/turns.h"

/* Rounds' worth that is added at once: whoever claims more than it can have done gets no more than
 * so many times its part in the long run. */
#define PIECE 2

uint64_t stream_ahead(const struct rounds_member *m)
{
	return span_count(m->spans, m->n_spans) - turns_most(m->listed);
}

void stream_fill(const struct spec *s, struct spanpool *pool, struct rounds_member *m)
{
	uint64_t have = stream_ahead(m), want = budget_sequences(s, m->steps);
	if (s->round.overlap) {
		uint64_t most = budget_reserve(s, m->steps),
			 more = have ? PIECE * turns_fragments(&s->round) * want : most;
		if (have >= want &&
			have >= most / 2) /* in few large pieces: a stream has not many spans */
			return;
		want = have + more < most ? have + more : most;
	}
	if (want > have)
		m->n_spans = spanpool_take(pool, want - have, m->spans, m->n_spans);
}

void stream_return(struct spanpool *pool, const struct rounds_member *m, uint64_t after)
{
	struct span rest[SPAN_MAX];
	uint64_t most = turns_most(m->listed);
	uint32_t n = span_tail(m->spans, m->n_spans, after > most ? after : most, rest);
	for (uint32_t i = 0; i < n; i++)
		spanpool_return(pool, rest[i]);
}

void stream_rest(const struct spec_round *r, uint64_t round, const struct rounds_member *m,
	struct rounds_member *out)
{
	*out = *m;
	if (m->assigned)
		out->listed[turns_fragment(r, round)] += m->sequences_in;
	out->n_spans = turns_settle(r, out->spans, out->n_spans, out->listed);
}
