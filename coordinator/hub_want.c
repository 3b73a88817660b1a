#include "coordinator/hub_want.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "coordinator/members.h"
#include "net/msg.h"
#include "round/object.h"

#define ENTRIES_MOST 4096u /* looked at for one answer */
#define OWED_RECORDS 256u  /* to one member at once; who lacks more fetches them by HTTPS */
#define OWED_BYTES (16u << 20)
#define OWED_ALL (64u << 20) /* bytes to all members at once: they are held in memory */

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

/* ---- entries */

static enum err find(struct hub *h, const shoal_want *want, struct answer *out, struct why *why)
{
	const struct store_range range = {want->offset, ENTRIES_MOST};
	if (want->offset >= run_head(&h->run).sequence)
		return err_why(why, ERR_missing, "the ledger ends at entry %llu",
			(unsigned long long)run_head(&h->run).sequence);
	enum err err = store_entry_list(h->run.store, &range, add_entry, out, why);
	return err || out->bytes.len
		       ? err
		       : err_why(why, ERR_toobig, "that ledger entry is larger than an object");
}

static enum err give_entries(
	struct hub *h, const uint8_t *key, const shoal_want *want, struct why *why)
{
	struct answer a = {0};
	struct buf meta;
	buf_init(&a.bytes, OBJECT_PIECE);
	enum err err = find(h, want, &a, why);
	if (err) {
		buf_release(&a.bytes);
		return err;
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
	return ERR_OK;
}

/* ---- records */

struct missed {
	struct hash names[OWED_RECORDS];
	uint64_t sizes[OWED_RECORDS], bytes, last;
	uint32_t n;
};

static void add_missed(void *arg, const struct store_entry *e)
{
	struct missed *s = arg;
	s->names[s->n] = e->record;
	s->sizes[s->n++] = e->bytes;
	s->bytes += e->bytes;
	s->last = e->sequence;
}

static uint64_t owed_to_all(const struct hub *h)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < h->n_members; i++)
		for (uint32_t k = 0; k < h->members[i].n_owed; k++)
			bytes += h->members[i].owed[k].bytes;
	return bytes;
}

static enum err may_be_pushed(struct hub *h, const struct hub_member *m, const struct missed *s,
	uint64_t now, struct why *why)
{
	if (!s->n || s->last != run_head(&h->run).sequence || s->bytes > OWED_BYTES)
		return err_why(why, ERR_toobig,
			"the records that are wanted are more than %u, or than %u MiB, or not kept "
			"any more: /api/v1/ledger.json lists what there is",
			OWED_RECORDS, OWED_BYTES >> 20);
	/* reading them takes time that all others wait for */
	if (m->n_owed || (m->wanted_ns && now - m->wanted_ns < CLOCK_SECOND) ||
		owed_to_all(h) + s->bytes > OWED_ALL)
		return err_why(why, ERR_busy,
			"records were asked for a moment ago, or are being sent to many");
	return ERR_OK;
}

/* The blob store is the desk's, so from the file. */
static enum err read_record(
	struct hub *h, const struct hash *name, size_t size, struct shared **out, struct why *why)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	char *path = blob_path(h->run.blobs, name);
	enum err err = file_read(path, size, &bytes, &n, why);
	free(path);
	if (err)
		return err;
	*out = shared_new(bytes, n);
	if (hash_equal(shared_name(*out), name))
		return ERR_OK;
	shared_drop(*out);
	return err_why(why, ERR_hash, "a record that is wanted is damaged on disk");
}

/* All that it lacks, or nothing; from now on every record is pushed to it. */
static enum err push_missed(struct hub *h, uint32_t number, const struct missed *s, struct why *why)
{
	struct hub_member *m = hub_member(h, number);
	enum err err = ERR_OK;
	struct shared *bytes[OWED_RECORDS];
	uint32_t n = 0;
	for (; !err && n < s->n; n += !err)
		err = read_record(h, &s->names[n], (size_t)s->sizes[n], &bytes[n], why);
	if (!err)
		m->owed = alloc_must_resize(m->owed, s->n, sizeof *m->owed);
	for (uint32_t i = 0; i < n; i++) {
		const struct link_object o = {.kind = OBJECT_record, .bytes = bytes[i]};
		if (!err)
			m->owed[m->n_owed++] = (struct hub_owed){
				link_push(h->link, members_at(h->run.members, number)->curve, &o),
				s->sizes[i]};
		shared_drop(bytes[i]);
	}
	m->following |= !err;
	return err;
}

static enum err give_records(
	struct hub *h, uint32_t number, uint64_t after, uint64_t now, struct why *why)
{
	const struct store_range range = {after, OWED_RECORDS};
	struct hub_member *m = hub_member(h, number);
	struct missed s = {0};
	uint64_t pruned = 0;
	enum err err = store_get_number(h->run.store, "pruned", 0, &pruned, why);
	if (!err && after >= pruned)
		err = store_entry_list(h->run.store, &range, add_missed, &s, why);
	if (!err)
		err = may_be_pushed(h, m, &s, now, why);
	m->wanted_ns = now;
	return err ? err : push_missed(h, number, &s, why);
}

void hub_want(struct hub *h, uint32_t number, const shoal_want *want, uint64_t now)
{
	const uint8_t *key = members_at(h->run.members, number)->curve;
	struct why why;
	enum err err;
	if (want->kind == OBJECT_chain)
		err = give_entries(h, key, want, &why);
	else if (want->kind == OBJECT_record)
		err = give_records(h, number, want->offset, now, &why);
	else
		err = err_why(&why, ERR_unsupported,
			"this coordinator gives blobs by HTTPS: /api/v1/blob/HASH");
	if (!err)
		return;
	shoal_header header = msg_refusal(MSG_want, err, why.text);
	link_send(h->link, key, &header, NULL);
}
