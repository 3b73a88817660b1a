/*
 * Records as they are pushed: kept by sequence number until those from our head to a signed head
 * are all there.  Bounded in number and bytes; what does not fit is dropped and fetched later.
 * Pure.
 */
#ifndef PEER_INBOX_H
#define PEER_INBOX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "peer/standing.h"

#define INBOX_RECORDS 4096u
#define INBOX_BYTES (1ull << 30)

struct inbox {
	struct inbox_item {
		uint64_t sequence;
		uint8_t *bytes;
		size_t len;
	} * items; /* ascending */
	size_t n, cap;
	uint64_t bytes;
};

void inbox_release(struct inbox *in);
/* Takes bytes; one that is there already, older than `after`, or beyond the bounds is freed.
 * Returns whether it was kept. */
bool inbox_put(struct inbox *in, uint64_t sequence, uint8_t *bytes, size_t len, uint64_t after);
/* Forget everything up to and with this sequence number. */
void inbox_drop(struct inbox *in, uint64_t upto);
/* The last sequence number without a gap from after. */
uint64_t inbox_reaches(const struct inbox *in, uint64_t after);
/* If (after, upto] is complete: hands it over as an array (caller frees it and the bytes) and
 * returns true. */
bool inbox_take(
	struct inbox *in, uint64_t after, uint64_t upto, struct standing_record **out, size_t *n);

#endif
