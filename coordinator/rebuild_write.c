#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "coordinator/rebuild_parts.h"

static void put_members(const struct rebuild *r)
{
	for (size_t i = 0; i < roster_count(r->roster); i++) {
		const struct roster_member *m = roster_at(r->roster, i);
		struct store_member row = {
			.number = m->number, .joined_s = clock_wall_s(), .removed = m->removed};
		memcpy(row.sign, m->sign.b, sizeof row.sign);
		memcpy(row.curve, m->curve, sizeof row.curve);
		memcpy(row.name, m->name, strnlen(m->name, sizeof row.name - 1));
		store_member_put(r->run.store, &row);
	}
	store_put_number(r->run.store, "roster_version", roster_version(r->roster));
}

/* Records from before the snapshot are not kept, as in any run. */
static enum err put_entries(const struct rebuild *r, struct why *why)
{
	enum err err = ERR_OK;
	for (size_t i = 0; !err && i < r->n_entries; i++) {
		struct ledger_entry e = {0};
		size_t used;
		err = ledger_entry_decode(r->entries[i].bytes, r->entries[i].len, &used, &e, why);
		if (err)
			break;
		struct store_entry row = {.sequence = e.sequence,
			.round = e.round,
			.shard = e.shard,
			.count = e.count,
			.state = e.state,
			.entry = r->entries[i].bytes,
			.entry_len = r->entries[i].len};
		(void)ledger_hash_at(r->ledger, e.sequence, &row.hash);
		if (e.sequence > r->snapshot.sequence) {
			const struct rebuild_blob *b =
				&r->from->list.records[r->first_record + e.sequence -
						       r->snapshot.sequence - 1];
			row.record = b->name;
			row.bytes = b->bytes;
		}
		store_entry_add(r->run.store, &row);
		ledger_entry_release(&e);
	}
	return err;
}

/* Sequence numbers below it were handed out, for all that is known: what the peers were told, what
 * the ledger counts, and two rounds' worth for a peer that did not come. */
static uint64_t cursor(const struct rebuild *r)
{
	const struct spec *spec = r->config->spec;
	uint64_t round = ledger_at(r->ledger).round,
		 most = ledger_tokens(r->ledger) / (spec_step_tokens(spec) / spec->train.batch);
	for (uint32_t i = 0; i < r->n_sources; i++)
		if (r->sources[i].list.taken > most)
			most = r->sources[i].list.taken;
	return most + 2 * (most / (round + 1) + 1);
}

enum err rebuild_write(struct rebuild *r, struct why *why)
{
	struct store *s = r->run.store;
	const struct ledger_head head = ledger_at(r->ledger);
	char *text = run_sign_head(&r->run, &head);
	store_begin(s);
	put_members(r);
	enum err err = put_entries(r, why);
	store_snapshot_remove(s, 0);
	store_snapshot_add(s, &r->snapshot);
	store_put_number(s, "pruned", r->snapshot.sequence);
	store_put_number(s, "cursor", cursor(r));
	store_put(s, "head", text, strlen(text));
	free(text);
	if (err)
		store_rollback(s);
	else
		err = store_commit(s, why);
	run_release(&r->run);
	const struct run_config c = {.dir = r->work, .spec = r->config->spec, .serving = true};
	r->run = (struct run){.lock = -1};
	return err ? err : run_open(&c, &r->run, why);
}
