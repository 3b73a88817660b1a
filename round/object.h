/*
 * What contributions, records and the rest travel as: kinds of net/transfer.h's objects, and what a
 * `want` says to get one.
 *
 *   record  offset: the sequence number of the last one that is there; all after it come, and from
 *           then on those of each round
 *   shelf   nothing; what the other side keeps to give, as peer/shelf.h writes it
 *   piece   name: SHA-256 of a blob on the shelf, offset: of the first byte; at most
 *           OBJECT_PIECE bytes of it, meta: name (32), u64 offset, u64 size of the whole blob
 *   chain   offset: a sequence number; the ledger's entries after it, one after another, as many
 *           as fit into OBJECT_PIECE and at least one; meta: u64 offset
 *   bundle  name: u32 shard, then zeros, offset: the round; what an aggregator's update was made of
 * update and bundle have the meta u64 round, u32 shard.
 */
#ifndef ROUND_OBJECT_H
#define ROUND_OBJECT_H

/* Numbers are on the wire: append only. */
#define OBJECT_LIST(X) \
	X(1, contribution) /* round/contribution.h; to the coordinator */ \
	X(2, record)       /* round/record.h; to a peer */ \
	X(3, shelf)        /* to a coordinator that rebuilds its folder, or to a peer */ \
	X(4, piece)        /* the same */ \
	X(5, chain)        /* both ways */ \
	X(6, update) /* round/update.h; from an aggregator to the coordinator, and on to peers */ \
	X(7, entry)  /* a ledger entry; to an aggregator, and on to peers behind its update */ \
	X(8, bundle) /* an update of kind bundle, to a witness or the coordinator */

enum object_kind {
#define X(number, name) OBJECT_##name = number,
	OBJECT_LIST(X)
#undef X
};

#define OBJECT_PIECE (1u << 20)
#define OBJECT_SHELF_MAX (4u << 20)

#endif
