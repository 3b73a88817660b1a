/* Ledger entries in a row are refused with a sentence, or are written again with the same bytes;
 * whether or not the chain takes them, it stays a chain.  What begins with { is a head. */
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "round/ledger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void head(const uint8_t *data, size_t size)
{
	struct hash run = {{1}};
	struct ledger_head h;
	struct why why = {0};
	json_t *body;
	if (json_parse(data, size, 1 << 16, &body, &why))
		return;
	if (ledger_head_parse(body, &run, &h, &why) && !why.text[0])
		abort();
	json_decref(body);
}

static void check(struct ledger *l, const struct ledger_entry *e, const uint8_t *data, size_t used)
{
	struct buf again;
	struct why why = {0};
	buf_init(&again, used);
	if (ledger_entry_encode(e, &again) || again.len != used ||
		memcmp(again.data, data, used) != 0)
		abort();
	buf_release(&again);
	struct ledger_head before = ledger_at(l);
	enum err err = ledger_append(l, e, &why);
	struct ledger_head after = ledger_at(l);
	if (after.sequence != before.sequence + !err || (err && why.code != err))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0 && data[0] == '{') {
		head(data, size);
		return 0;
	}
	struct hash run = {{1}}, states[2] = {{{2}}, {{3}}};
	struct ledger *l = ledger_new(&run, states, 2);
	struct ledger_entry e;
	struct why why = {0};
	for (size_t at = 0, used; at < size; at += used) {
		enum err err = ledger_entry_decode(data + at, size - at, &used, &e, &why);
		if (err) {
			if (used || e.accepted || why.code != err || !why.text[0])
				abort();
			break;
		}
		check(l, &e, data + at, used);
		ledger_entry_release(&e);
	}
	ledger_free(l);
	return 0;
}
