#include <inttypes.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "round/ledger.h"

#define FIXED 132u
#define LISTED 44u

static size_t tail_of(enum update_kind kind)
{
	return kind == UPDATE_merged ? sizeof(struct hash) : 0;
}

void ledger_entry_release(struct ledger_entry *e)
{
	if (!e)
		return;
	free(e->accepted);
	e->accepted = NULL;
	e->count = 0;
}

enum err ledger_entry_encode(const struct ledger_entry *e, struct buf *out)
{
	size_t start = out->len, size = FIXED + (size_t)LISTED * e->count + tail_of(e->kind);
	if (e->count > LEDGER_ACCEPTED_MAX || size > out->max - out->len)
		return ERR_toobig;
	buf_put_u32(out, (uint32_t)size);
	buf_put_u16(out, LEDGER_VERSION);
	buf_put_u16(out, (uint16_t)e->kind);
	buf_put_u64(out, e->sequence);
	buf_put_u64(out, e->round);
	buf_put_u32(out, e->shard);
	buf_put_u32(out, e->part);
	buf_put(out, e->update.b, sizeof e->update.b);
	buf_put(out, e->state.b, sizeof e->state.b);
	buf_put(out, e->previous.b, sizeof e->previous.b);
	buf_put_u32(out, e->count);
	for (uint32_t i = 0; i < e->count; i++) {
		buf_put_u32(out, e->accepted[i].peer);
		buf_put_u64(out, e->accepted[i].tokens);
		buf_put(out, e->accepted[i].planes.b, sizeof e->accepted[i].planes.b);
	}
	if (e->kind == UPDATE_merged)
		buf_put(out, e->merged.b, sizeof e->merged.b);
	if (buf_ok(out))
		return ERR_OK;
	out->len = start;
	return ERR_nomem;
}

static enum err get_list(struct rd *r, struct ledger_entry *e, uint32_t count, struct why *why)
{
	if (count == 0)
		return ERR_OK;
	e->accepted = alloc_try(count, sizeof *e->accepted);
	if (!e->accepted)
		return err_why(why, ERR_nomem,
			"no memory for a ledger entry of %" PRIu32 " contributions", count);
	e->count = count;
	for (uint32_t i = 0; i < count; i++) {
		e->accepted[i].peer = rd_u32(r);
		e->accepted[i].tokens = rd_u64(r);
		rd_copy(r, e->accepted[i].planes.b, sizeof e->accepted[i].planes.b);
		if (i > 0 && e->accepted[i].peer <= e->accepted[i - 1].peer)
			return err_why(
				why, ERR_syntax, "a ledger entry lists its peers out of order");
	}
	return ERR_OK;
}

/* The bytes of one entry, no more; their size has been checked against the count's place only. */
static enum err get(struct rd *r, struct ledger_entry *e, struct why *why)
{
	uint16_t version = rd_u16(r), kind = rd_u16(r);
	if (rd_ok(r) && version != LEDGER_VERSION)
		return err_why(why, ERR_version,
			"a ledger entry is of version %u, this program reads %u", version,
			LEDGER_VERSION);
	if (rd_ok(r) && kind > UPDATE_merged)
		return err_why(why, ERR_unsupported,
			"a ledger entry has an update of kind %u: install a newer version", kind);
	e->kind = (enum update_kind)kind;
	e->sequence = rd_u64(r);
	e->round = rd_u64(r);
	e->shard = rd_u32(r);
	e->part = rd_u32(r);
	rd_copy(r, e->update.b, sizeof e->update.b);
	rd_copy(r, e->state.b, sizeof e->state.b);
	rd_copy(r, e->previous.b, sizeof e->previous.b);
	uint32_t count = rd_u32(r);
	if (!rd_ok(r) || rd_left(r) != (size_t)count * LISTED + tail_of(e->kind))
		return err_why(why, ERR_syntax,
			"a ledger entry that lists %" PRIu32 " contributions has not their size",
			count);
	enum err err = get_list(r, e, count, why);
	if (!err && e->kind == UPDATE_merged)
		rd_copy(r, e->merged.b, sizeof e->merged.b);
	return err;
}

enum err ledger_entry_decode(
	const uint8_t *bytes, size_t len, size_t *used, struct ledger_entry *out, struct why *why)
{
	*out = (struct ledger_entry){0};
	*used = 0;
	struct rd r;
	rd_init(&r, bytes, len);
	uint32_t size = rd_u32(&r);
	if (!rd_ok(&r))
		return err_why(why, ERR_truncated, "%zu bytes are no ledger entry", len);
	if (size > LEDGER_ENTRY_MAX)
		return err_why(why, ERR_toobig, "a ledger entry claims %" PRIu32 " bytes", size);
	if (size < FIXED)
		return err_why(why, ERR_syntax, "a ledger entry claims %" PRIu32 " bytes", size);
	if (size > len)
		return err_why(why, ERR_truncated,
			"%zu of the %" PRIu32 " bytes of a ledger entry are there", len, size);
	rd_init(&r, bytes + 4, size - 4);
	enum err err = get(&r, out, why);
	if (err)
		ledger_entry_release(out);
	else
		*used = size;
	return err;
}

enum err ledger_entry_hash(const struct ledger_entry *e, struct hash *out)
{
	struct buf b;
	buf_init(&b, LEDGER_ENTRY_MAX);
	enum err err = ledger_entry_encode(e, &b);
	if (!err)
		*out = hash_of(b.data, b.len);
	buf_release(&b);
	return err;
}
