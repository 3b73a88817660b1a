#include "coordinator/stream.h"
#include "coordinator/budget.h"

/* Rounds' worth that is added at once: whoever claims more than it can have done gets no more than
 * so many times its part in the long run. */
#define PIECE 2

void stream_fill(const struct spec *s, struct spanpool *pool, struct rounds_member *m)
{
	uint64_t have = span_count(m->spans, m->n_spans), want = budget_sequences(s, m->steps);
	if (s->round.overlap) {
		uint64_t most = budget_reserve(s, m->steps), more = have ? PIECE * want : most;
		if (have >= want && have >= most / 2) /* in few large pieces: a stream has not many spans */
			return;
		want = have + more < most ? have + more : most;
	}
	if (want > have)
		m->n_spans = spanpool_take(pool, want - have, m->spans, m->n_spans);
}

void stream_return(struct spanpool *pool, const struct rounds_member *m, uint64_t after)
{
	struct span rest[SPAN_MAX];
	uint32_t n = span_tail(m->spans, m->n_spans, after, rest);
	for (uint32_t i = 0; i < n; i++)
		spanpool_return(pool, rest[i]);
}

uint32_t stream_rest(const struct rounds_member *m, struct span out[static SPAN_MAX])
{
	return span_tail(m->spans, m->n_spans, m->assigned ? m->sequences_in : 0, out);
}
