/* What will happen next in virtual time: a heap of events, by their time and, at one time, by the
 * order in which they were put, so that a run can be repeated.  Pure. */
#ifndef SIM_EVENTS_H
#define SIM_EVENTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct letter;

enum event_kind {
	EVENT_start,   /* a member's process begins */
	EVENT_die,     /* it ends, as if it were killed */
	EVENT_trained, /* the steps of its plan are done */
	EVENT_reach,   /* the first byte of something is there */
	EVENT_letter,  /* all of it is */
	EVENT_lost,    /* the coordinator has heard nothing of it for too long */
	EVENT_tick     /* of the round machine */
};

struct event {
	uint64_t at_ns, order; /* order: filled in by events_put */
	enum event_kind kind;
	uint32_t member;
	uint64_t instance;     /* of its process; of another one the event means nothing */
	struct letter *letter; /* owned by the event */
};

struct events {
	struct event *heap;
	size_t n, cap;
	uint64_t order;
};

void events_put(struct events *e, struct event event);
bool events_next(struct events *e, struct event *out); /* false: there is none */
void events_release(struct events *e);                 /* with the letters in it */

#endif
