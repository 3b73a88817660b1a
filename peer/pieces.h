/*
 * A blob that comes in pieces from several places: one file, of which every piece is verified by
 * the hash that the run key signed for it before it counts.  What an earlier try left in the file
 * is looked at again and kept where it is right: also of another snapshot, as far as the two are
 * the same.  One thread.
 */
#ifndef PEER_PIECES_H
#define PEER_PIECES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"

struct pieces;

/* size: of the blob; hashes: of its pieces of OBJECT_PIECE bytes (the last may be shorter), as many
 * as that makes; borrowed.  ERR_full, ERR_io and the like. */
enum err pieces_open(const char *path, uint64_t size, const struct hash *hashes,
	struct pieces **out, struct why *why) MUST_CHECK;
void pieces_close(struct pieces *p); /* the file stays; NULL-safe */

size_t pieces_count(const struct pieces *p);
uint64_t pieces_bytes(const struct pieces *p, size_t i); /* of one piece */
bool pieces_here(const struct pieces *p, size_t i);
uint64_t pieces_have(const struct pieces *p); /* bytes of those that are here */
/* ERR_hash, ERR_shape: not that piece, and nothing is changed. */
enum err pieces_put(
	struct pieces *p, size_t i, const void *bytes, size_t n, struct why *why) MUST_CHECK;

#endif
