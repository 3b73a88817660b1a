#include <inttypes.h>
#include "round/ledger.h"

json_t *ledger_head_json(const struct ledger_head *h, const struct hash *run)
{
	char run_hex[HASH_HEX], head_hex[HASH_HEX];
	hash_hex(run, run_hex);
	hash_hex(&h->hash, head_hex);
	return json_pack("{s:s, s:I, s:I, s:s}", "run", run_hex, "sequence",
		(json_int_t)h->sequence, "round", (json_int_t)h->round, "hash", head_hex);
}

enum err ledger_head_parse(
	const json_t *body, const struct hash *run, struct ledger_head *out, struct why *why)
{
	struct buf mistakes;
	struct json_in in;
	buf_init(&mistakes, 4096);
	json_in_init(&in, body, "", &mistakes);
	struct hash of = json_get_hash(&in, "run", true);
	out->sequence = (uint64_t)json_get_int(&in, "sequence", 0, INT64_MAX, NULL);
	out->round = (uint64_t)json_get_int(&in, "round", 0, INT64_MAX, NULL);
	out->hash = json_get_hash(&in, "hash", true);
	json_in_finish(&in);
	enum err err = json_verdict(&mistakes, "a ledger head is malformed", why);
	if (!err && !hash_equal(&of, run)) {
		char theirs[HASH_HEX], ours[HASH_HEX];
		hash_hex(&of, theirs);
		hash_hex(run, ours);
		err = err_why(why, ERR_wrong_run, "a ledger head is of run %.12s, not of %.12s",
			theirs, ours);
	}
	buf_release(&mistakes);
	return err;
}
