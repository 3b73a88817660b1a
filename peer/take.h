/*
 * Taking pieces of blobs from other peers (peer/give.h): what is missing is asked of up to
 * TAKE_PEERS of them at once as peer/pick.h says, and whoever lies, stalls or goes is left for the
 * next one.  Nothing is believed: keys are those of the signed roster, and every piece is looked at
 * by the caller before it counts.  What nobody gives is the caller's to get from the coordinator.
 */
#ifndef PEER_TAKE_H
#define PEER_TAKE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "net/address.h"
#include "net/identity.h"
#include "net/roster.h"
#include "net/traffic.h"

#define TAKE_PEERS 4u                /* links at once */
#define TAKE_FROM 16u                /* addresses known */
#define TAKE_PIECE_MOST (8ull << 20) /* bytes; larger ones are the coordinator's to give */

struct take_from { /* as the coordinator says: a hint, no more */
	uint32_t member;
	char address[ADDRESS_MAX];
};

struct take_piece {
	uint32_t blob;
	uint64_t offset, bytes; /* in the blob */
	bool here;              /* in and out */
};

struct take {
	const struct identity_peer *identity; /* borrowed, as all here */
	const struct proxy *proxy;            /* NULL: directly */
	struct traffic *traffic;              /* NULL: nobody counts */
	const struct hash *run;
	const struct roster *roster;
	uint32_t member; /* own number */
	const struct take_from *from;
	size_t n_from;
	const struct hash *blobs; /* names */
	uint32_t n_blobs;
	struct take_piece *pieces;
	size_t n_pieces;
	/* A piece came: ERR_hash and ERR_shape when it is not the right one, another code to end
	 * all. */
	enum err (*put)(void *arg, size_t piece, const uint8_t *bytes, size_t n, struct why *why);
	void *arg;
	const atomic_bool *stop;
};

struct take_outcome {
	uint64_t bytes;      /* that came and were right */
	uint32_t used, left; /* peers that gave something; that were left */
};

/* Until all is here or nobody gives any more (both ERR_OK).  ERR_interrupted, and what put says.
 * Blocks. */
enum err take_run(struct take *t, struct take_outcome *out, struct why *why) MUST_CHECK;

/* The list of what a peer keeps, as peer/shelf.h writes it: which of the blobs are on it. */
enum err take_list(const void *text, size_t n, const struct hash *blobs, uint32_t n_blobs,
	bool *keeps, struct why *why) MUST_CHECK;

#endif
