#include "coordinator/hub_want.h"
#include <string.h>
#include "base/buf.h"
#include "coordinator/members.h"
#include "net/msg.h"
#include "round/object.h"

#define ENTRIES_MOST 4096u /* looked at for one answer */

struct answer {
	struct buf bytes;
	bool full;
};

static void add_entry(void *arg, const struct store_entry *e)
{
	struct answer *a = arg;
	if (a->full || a->bytes.len + e->entry_len > OBJECT_PIECE) {
		a->full = true;
		return;
	}
	buf_put(&a->bytes, e->entry, e->entry_len);
}

static enum err find(struct hub *h, const shoal_want *want, struct answer *out, struct why *why)
{
	const struct store_range range = {want->offset, ENTRIES_MOST};
	if (want->kind != OBJECT_chain)
		return err_why(why, ERR_unsupported,
			"this coordinator gives blobs by HTTPS: /api/v1/blob/HASH");
	if (want->offset >= run_head(&h->run).sequence)
		return err_why(why, ERR_missing, "the ledger ends at entry %llu",
			(unsigned long long)run_head(&h->run).sequence);
	enum err err = store_entry_list(h->run.store, &range, add_entry, out, why);
	return err || out->bytes.len
		       ? err
		       : err_why(why, ERR_toobig, "that ledger entry is larger than an object");
}

void hub_want(struct hub *h, uint32_t number, const shoal_want *want)
{
	const uint8_t *key = members_at(h->run.members, number)->curve;
	struct answer a = {0};
	struct buf meta;
	struct why why;
	buf_init(&a.bytes, OBJECT_PIECE);
	enum err err = find(h, want, &a, &why);
	if (err) {
		shoal_header header = msg_refusal(MSG_want, err, why.text);
		link_send(h->link, key, &header, NULL);
		buf_release(&a.bytes);
		return;
	}
	size_t n;
	uint8_t *bytes = buf_steal(&a.bytes, &n);
	struct shared *shared = shared_new(bytes, n);
	buf_init(&meta, TRANSFER_META);
	buf_put_u64(&meta, want->offset);
	const struct link_object o = {
		.kind = OBJECT_chain, .bytes = shared, .meta = meta.data, .meta_len = meta.len};
	(void)link_push(h->link, key, &o);
	buf_release(&meta);
	shared_drop(shared);
}
