/*
 * A record: one ledger entry with the update it lists, as one string of bytes: the entry (which
 * knows its own length), then the update to the end.  Stored as a blob, pushed to peers when a
 * round closes, fetched by those who missed it.
 */
#ifndef ROUND_RECORD_H
#define ROUND_RECORD_H
#include "base/buf.h"
#include "base/err.h"
#include "round/ledger.h"
#include "round/update.h"

#define RECORD_MAX ((size_t)1 << 32) /* bytes; whoever reads one holds it in memory */

struct record {
	struct ledger_entry entry;
	struct update update; /* borrows the bytes it was opened from */
};

/* Appends; update as update_encode or update_merge made it. */
enum err record_encode(const struct ledger_entry *e, const uint8_t *update, size_t len,
	struct buf *out) MUST_CHECK;
/* Form of both parts only; update_verify and update_matches tell the truth.  bytes outlive out. */
enum err record_open(
	const uint8_t *bytes, size_t len, struct record *out, struct why *why) MUST_CHECK;
void record_release(struct record *r); /* NULL-safe, idempotent */

/* Whether the entries of n records, in order, lead from the head `from` to exactly the head `to`:
 * ERR_fork if not. Nothing need be applied to know. */
enum err record_chain(const struct record *records, size_t n, const struct ledger_head *from,
	const struct ledger_head *to, struct why *why) MUST_CHECK;

#endif
