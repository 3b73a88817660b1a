#include "net/statement.h"
#include <inttypes.h>
#include <string.h>
#include "base/json.h"
#include "base/text.h"
#include "net/signed.h"

#define TYPE "statement"
#define MISTAKES_MOST 4096
#define DAY_S 86400u

char *statement_make(const struct statement *s, const struct sign_key *run_key)
{
	struct sign_public key = sign_public_of(run_key);
	char run[HASH_HEX], spki[HASH_HEX], pub[2 * SIGN_PUBLIC + 1], curve[2 * 32 + 1];
	hash_hex(&s->run, run);
	hash_hex(&s->spki, spki);
	text_hex(key.b, sizeof key.b, pub);
	text_hex(s->curve, sizeof s->curve, curve);
	json_t *body = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "run", run, "key", pub, "curve",
		curve, "spki", spki, "from", (json_int_t)s->from_s, "to", (json_int_t)s->to_s);
	char *text = signed_make(TYPE, body, run_key);
	json_decref(body);
	return text;
}

static void read_key(struct json_in *in, const char *name, uint8_t out[static 32])
{
	const char *hex = json_get_text(in, name, 64, NULL);
	if (text_unhex(hex, out, 32) != ERR_OK)
		json_mistake(in, name, "must be 64 hex digits");
}

static enum err parse(const json_t *body, struct statement *out, struct why *why)
{
	struct buf mistakes;
	struct json_in in;
	buf_init(&mistakes, MISTAKES_MOST);
	json_in_init(&in, body, "", &mistakes);
	*out = (struct statement){0};
	out->run = json_get_hash(&in, "run", true);
	out->spki = json_get_hash(&in, "spki", true);
	read_key(&in, "key", out->key.b);
	read_key(&in, "curve", out->curve);
	out->from_s = (uint64_t)json_get_int(&in, "from", 0, INT64_MAX, NULL);
	out->to_s = (uint64_t)json_get_int(&in, "to", 0, INT64_MAX, NULL);
	json_in_finish(&in);
	enum err e = json_verdict(&mistakes, "the statement is not well formed", why);
	buf_release(&mistakes);
	return e;
}

/* A clock that is wrong is likelier than a coordinator that serves an old statement. */
static enum err check_dates(const struct statement *s, uint64_t now_s, struct why *why)
{
	if (now_s + STATEMENT_SLACK_S < s->from_s)
		return err_why(why, ERR_range,
			"the coordinator's statement begins to hold in %" PRIu64
			" days by this machine's clock; the clock is probably wrong: set it",
			(s->from_s - now_s) / DAY_S);
	if (now_s > s->to_s && now_s - s->to_s > STATEMENT_SLACK_S)
		return err_why(why, ERR_range,
			"the coordinator's statement ended %" PRIu64
			" days ago by this machine's clock; set the clock if it is wrong, else ask "
			"the operator to restart the coordinator, which renews the statement",
			(now_s - s->to_s) / DAY_S);
	return ERR_OK;
}

enum err statement_open(const void *text, size_t n, const struct statement *expected,
	uint64_t now_s, struct statement *out, struct why *why)
{
	json_t *body;
	if (n > STATEMENT_MAX)
		return err_why(why, ERR_syntax, "a statement has at most %u bytes, this has %zu",
			STATEMENT_MAX, n);
	enum err e = signed_open(text, n, TYPE, expected->key.b, &body, why);
	if (e)
		return e;
	e = parse(body, out, why);
	json_decref(body);
	if (e)
		return e;
	if (!hash_equal(&out->run, &expected->run))
		return err_why(why, ERR_wrong_run,
			"this coordinator serves another run of the same operator; ask for a new "
			"join link");
	if (memcmp(out->key.b, expected->key.b, sizeof out->key.b) != 0)
		return err_why(why, ERR_signature,
			"the statement names another run key than the one that signed it");
	return check_dates(out, now_s, why);
}
