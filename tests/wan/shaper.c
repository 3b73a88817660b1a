#include "tests/wan/shaper.h"
#include "base/clock.h"
#include "base/rng.h"
#include <stdlib.h>

/* Where no rate bounds a queue: about 100 MB of whole packets. */
#define WAITING_MOST 65536

static uint64_t ns_of_ms(double ms)
{
	return (uint64_t)(ms * (double)CLOCK_MS);
}

static double draw(struct shaper *s)
{
	return rng_unit(s->seed, s->stream, s->draws++);
}

/* When the last bit is on the way; UINT64_MAX: the queue is full. */
static uint64_t send(struct shaper *s, const struct packet *p, uint64_t now_ns)
{
	double mbit = s->down ? s->way->down : s->way->up;
	uint64_t begin = s->line_free_ns > now_ns ? s->line_free_ns : now_ns;
	if (s->waiting >= WAITING_MOST || begin - now_ns > ns_of_ms(s->way->queue))
		return UINT64_MAX;
	/* bits / (Mbit/s) are microseconds */
	uint64_t takes = mbit > 0 ? (uint64_t)((double)p->len * 8 / mbit * 1000) : 0;
	s->line_free_ns = begin + takes;
	return s->line_free_ns;
}

void shaper_put(struct shaper *s, struct packet *p, uint64_t now_ns)
{
	const struct bed_way *way = s->way;
	uint64_t due = way->cut ? UINT64_MAX : send(s, p, now_ns);
	bool lost = due != UINT64_MAX && way->loss > 0 && draw(s) < way->loss;
	if (due == UINT64_MAX || lost) {
		s->lost += lost;
		s->dropped += !lost;
		free(p);
		return;
	}
	due += ns_of_ms(way->delay);
	if (way->jitter > 0)
		due += ns_of_ms(way->jitter * draw(s));
	if (due < s->last_due_ns)
		due = s->last_due_ns; /* order is kept */
	s->last_due_ns = p->due_ns = due;
	p->next = NULL;
	if (s->head)
		s->tail->next = p;
	else
		s->head = p;
	s->tail = p;
	s->waiting++;
}

static struct packet *pop(struct shaper *s)
{
	struct packet *p = s->head;
	s->head = p->next;
	s->waiting--;
	return p;
}

struct packet *shaper_take(struct shaper *s, uint64_t now_ns)
{
	while (s->head && s->head->due_ns <= now_ns) {
		struct packet *p = pop(s);
		if (!s->way->cut) {
			s->passed++;
			s->passed_bytes += p->len;
			return p;
		}
		s->dropped++;
		free(p);
	}
	return NULL;
}

uint64_t shaper_due(const struct shaper *s)
{
	return s->head ? s->head->due_ns : UINT64_MAX;
}

void shaper_release(struct shaper *s)
{
	while (s->head)
		free(pop(s));
}
