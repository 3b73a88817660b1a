/*
 * What a process sends, counted, and bounded where it is told so: links and HTTPS share one bucket
 * of bytes.  Bulk (chunks of objects, bodies of replies) goes, piece by piece, while the bucket is
 * open.  What must not wait (heartbeats, plans, heads, small answers) goes always and is owed: bulk
 * waits until it is paid for.  So in any t seconds at most rate x t, EGRESS_BURST_S more and one
 * piece of each sender go, unless what must not wait is more than that by itself.  Bytes are those
 * of messages and bodies: what TCP/IP, TLS and CURVE add is not in them.
 *
 * Any thread; decides with the times that it is given.
 */
#ifndef NET_EGRESS_H
#define NET_EGRESS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EGRESS_BURST_S 0.1  /* of the rate; what may go at once after a rest */
#define EGRESS_OWED_S 10.   /* more is not owed */
#define EGRESS_WINDOW_S 10u /* over which rates are measured */
#define EGRESS_PIECE_LEAST 16384u

enum egress_kind { EGRESS_control, EGRESS_bulk };

struct egress;
/* 0: no limit, all is counted. */
struct egress *egress_new(uint64_t bits_per_s);
void egress_free(struct egress *e);

bool egress_is_bounded(const struct egress *e); /* e may be NULL: no */

/* Until a piece of bulk may go; 0: now.  e may be NULL: always 0. */
uint64_t egress_wait_ns(struct egress *e, uint64_t now_ns);
/* So much goes now.  e may be NULL: nothing. */
void egress_count(struct egress *e, enum egress_kind kind, size_t bytes, uint64_t now_ns);
/* A piece should not have more bytes than this; most, or less where the rate is low. */
size_t egress_piece(const struct egress *e, size_t most);

struct egress_figures {
	uint64_t max_bits_per_s; /* 0: no limit */
	uint64_t bytes[2];       /* of each kind, since the beginning */
	double bits_per_s[2];    /* of each kind, over the last whole seconds */
};
void egress_figures(struct egress *e, uint64_t now_ns, struct egress_figures *out);

#endif
