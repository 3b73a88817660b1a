/*
 * The hashes of a snapshot's pieces, by which peers may fetch it from each other: beside it in the
 * run's folder as DIR/snapshot-ROUND.pieces, made when the snapshot is.  Without it (an older
 * folder, one that was restored or rebuilt) peers fetch that snapshot from the coordinator alone.
 */
#ifndef COORDINATOR_PIECELIST_H
#define COORDINATOR_PIECELIST_H
#include <stdint.h>
#include "round/blob.h"

/* A failure is logged.  The desk's thread, since it reads the whole snapshot. */
void piecelist_write(
	const struct blob_store *blobs, const char *dir, const struct hash *blob, uint64_t round);
/* 64 hex digits for each OBJECT_PIECE bytes of a snapshot of this size; NULL: there is no such
 * list.  Caller frees. */
char *piecelist_read(const char *dir, uint64_t round, uint64_t size);
void piecelist_remove(const char *dir, uint64_t round);

#endif
