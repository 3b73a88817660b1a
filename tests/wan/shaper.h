/*
 * One direction of one link: a queue that drops at its tail, a line that sends bit after bit, a way
 * that takes its time and loses some.  Decides with the times that it is given and reads no clock.
 * Settings are read from the topology for every packet, so that a change counts at once for those
 * that come after it; a cut also takes what is on its way.
 */
#ifndef TESTS_WAN_SHAPER_H
#define TESTS_WAN_SHAPER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tests/wan/bed.h"

struct packet {
	struct packet *next;
	uint64_t due_ns;
	uint32_t len;
	uint8_t from, to, stage; /* indices of nodes; how many shapers it has passed */
	uint8_t bytes[];
};

struct shaper {
	const struct bed_way *way;    /* borrowed */
	bool down;                    /* which of its two rates */
	uint64_t seed, stream, draws; /* randomness: a value for each draw */
	uint64_t line_free_ns;        /* when the last bit of what was taken has been sent */
	uint64_t last_due_ns;
	struct packet *head, *tail;
	size_t waiting;
	uint64_t passed, passed_bytes, lost, dropped; /* dropped: the queue was full, or cut */
};

/* Takes the packet, or frees it and counts it.  now_ns must not go back by more than rounding. */
void shaper_put(struct shaper *s, struct packet *p, uint64_t now_ns);
/* The next packet that is due by now_ns (its due_ns tells since when), or NULL; the caller owns it.
 */
struct packet *shaper_take(struct shaper *s, uint64_t now_ns);
uint64_t shaper_due(const struct shaper *s); /* UINT64_MAX when empty */
void shaper_release(struct shaper *s);

#endif
