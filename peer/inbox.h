/*
 * Records as they come, pushed or fetched: kept by sequence number until those from our head on are
 * there without a gap.  Bounded in number and bytes; what does not fit is left out and fetched when
 * there is room.  Pure.
 */
#ifndef PEER_INBOX_H
#define PEER_INBOX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "peer/standing.h"

#define INBOX_RECORDS 4096u
#define INBOX_BYTES (1ull << 30)

struct inbox {
	struct inbox_item {
		uint64_t sequence;
		uint8_t *bytes;
		size_t len;
	} * items; /* ascending */
	size_t n, cap, most;
	uint64_t bytes, bytes_most;
};

void inbox_init(struct inbox *in); /* with the bounds above */
void inbox_release(struct inbox *in);
/* Takes bytes (from malloc).  ERR_duplicate: there already, or not after `after`; ERR_full: no
 * room; both free them. */
enum err inbox_put(
	struct inbox *in, uint64_t sequence, uint8_t *bytes, size_t len, uint64_t after) MUST_CHECK;
/* Forget everything up to and with this sequence number. */
void inbox_drop(struct inbox *in, uint64_t upto);
/* The last sequence number without a gap from after. */
uint64_t inbox_reaches(const struct inbox *in, uint64_t after);
/* If (after, upto] is complete: hands it over as an array (caller frees it and the bytes) and
 * returns true.  What is not after `after` is forgotten in any case. */
bool inbox_take(
	struct inbox *in, uint64_t after, uint64_t upto, struct standing_record **out, size_t *n);

#endif
