/*
 * Which piece is asked of whom next, when a peer takes what it lacks from others.  Pure.
 *
 * The rarest first: of what fewest of them keep, so that it is not gone when they leave; among
 * those the first in order.  It is asked of the nearest: of who has it here soonest, by round trip
 * and rate as measured and by what is asked of it already; one whose rate is not known yet is
 * tried.  A slow one is asked for nothing that the others are through with before.
 */
#ifndef PEER_PICK_H
#define PEER_PICK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pick_piece {
	uint32_t blob;
	bool taken; /* it is here, or asked for */
	uint64_t bytes;
};

struct pick_peer {
	bool open;
	const bool *keeps; /* by blob */
	uint32_t asked;    /* pieces that are on their way from it, and their bytes */
	uint64_t asked_bytes;
	uint64_t rtt_ns;
	double rate; /* bytes/s; 0: not known yet */
};

struct pick {
	const struct pick_piece *pieces;
	size_t n_pieces;
	const struct pick_peer *peers;
	size_t n_peers;
	uint32_t asked_most; /* of one peer at once */
};

struct pick_choice {
	size_t piece, peer;
};

/* false: nothing is to be asked now. */
bool pick_next(const struct pick *p, struct pick_choice *out);

#endif
