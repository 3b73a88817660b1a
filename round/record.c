#include "round/record.h"

enum err record_encode(
	const struct ledger_entry *e, const uint8_t *update, size_t len, struct buf *out)
{
	enum err err = ledger_entry_encode(e, out);
	if (err)
		return err;
	buf_put(out, update, len);
	return buf_ok(out) ? ERR_OK : ERR_toobig;
}

enum err record_open(const uint8_t *bytes, size_t len, struct record *out, struct why *why)
{
	size_t used = 0;
	*out = (struct record){0};
	enum err e = ledger_entry_decode(bytes, len, &used, &out->entry, why);
	if (!e)
		e = update_open(bytes + used, len - used, &out->update, why);
	if (e)
		record_release(out);
	return e;
}

void record_release(struct record *r)
{
	if (!r)
		return;
	ledger_entry_release(&r->entry);
	update_release(&r->update);
}

enum err record_chain(const struct record *records, size_t n, const struct ledger_head *from,
	const struct ledger_head *to, struct why *why)
{
	struct ledger_head at = *from;
	for (size_t i = 0; i < n; i++) {
		const struct ledger_entry *e = &records[i].entry;
		if (e->sequence != at.sequence + 1 || !hash_equal(&e->previous, &at.hash))
			return err_why(why, ERR_fork,
				"ledger entry %llu does not follow entry %llu",
				(unsigned long long)e->sequence, (unsigned long long)at.sequence);
		at.sequence = e->sequence;
		at.round = e->round;
		enum err err = ledger_entry_hash(e, &at.hash);
		if (err)
			return err;
	}
	if (at.sequence != to->sequence || !hash_equal(&at.hash, &to->hash))
		return err_why(why, ERR_fork,
			"the entries lead to number %llu, the signed head is number %llu or "
			"another chain",
			(unsigned long long)at.sequence, (unsigned long long)to->sequence);
	return ERR_OK;
}
