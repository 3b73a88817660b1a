/*
 * How far members are from each other, and how fast the ways between them are: what they measured,
 * with its age, and an estimate for pairs that nobody measured.  A measurement counts for the pair
 * of who reports it and whom it names, never for others.
 *
 * The estimate is by network coordinates (Dabek, Cox, Kaashoek and Morris, "Vivaldi", SIGCOMM
 * 2004): a place in three dimensions and a height, for the access line, that each new measurement
 * pulls to where it fits, the less the surer the place is already.  The coordinator stands still at
 * the origin, so that nobody's word moves it.  Directions that no measurement gives are taken from
 * a hash: same calls, same bits.  Pure; times are nanoseconds of any monotonic clock.
 */
#ifndef COORDINATOR_DISTANCE_H
#define COORDINATOR_DISTANCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define DISTANCE_COORDINATOR UINT32_MAX /* in place of a member's number */
#define DISTANCE_MEMBERS_MAX 16384u
#define DISTANCE_PAIRS 64u     /* kept of each member: the newest */
#define DISTANCE_ITEM 24u      /* bytes of one in a message "links" (net/PROTOCOL.md) */
#define DISTANCE_RTT_MAX 60.0  /* seconds; more is not believed, */
#define DISTANCE_RATE_MAX 1e11 /* nor more bytes/s */

struct distance_pair {
	uint32_t to;
	double rtt_s;    /* 0: not known */
	double up, down; /* bytes/s towards it and from it; 0: not known */
	uint64_t at_ns;  /* when it was measured */
	bool reached;    /* by connecting to its address */
	bool together;   /* up and down were measured while others so marked were busy too */
};

struct distance_place {
	double at[3], height; /* seconds of round trip */
	double error;         /* relative, 0 to 1; 1: nothing is known */
};

struct distance;

struct distance *distance_new(void);
void distance_free(struct distance *d); /* NULL-safe */

/* What `from` says of its way to p->to.  Passed over: numbers and figures out of bounds, itself. A
 * figure that is 0 leaves what was known of it. */
void distance_note(struct distance *d, uint32_t from, const struct distance_pair *p);
/* After some of those: its place, from all that is kept of it. */
void distance_settle(struct distance *d, uint32_t member);

/* What `from` said; NULL: nothing.  Valid until the next note. */
const struct distance_pair *distance_said(const struct distance *d, uint32_t from, uint32_t to);
/* All that it said, in no order. */
const struct distance_pair *distance_pairs(const struct distance *d, uint32_t from, size_t *n);
/* Error 1 for who never measured anything. */
struct distance_place distance_place(const struct distance *d, uint32_t member);
/* By the places alone; 0 where one of them is not known. */
double distance_guess_s(const struct distance_place *a, const struct distance_place *b);
/* The larger of what both said, else the guess. */
double distance_rtt_s(const struct distance *d, uint32_t a, uint32_t b);

/* One item of a message "links"; at_ns is now less its age.  ERR_syntax: figures that are no such.
 */
enum err distance_item_read(const uint8_t bytes[static DISTANCE_ITEM], uint64_t now,
	struct distance_pair *out) MUST_CHECK;

#endif
