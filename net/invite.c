#include "net/invite.h"
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/text.h"
#include "net/base64.h"

#define PURPOSE "shoal invite 1"
#define VERSION 1
#define TAG 4 /* first bytes of the run's id, to tell another run's invite from a forged one */
#define ID 8
#define BODY (ID + 8 + 4) /* id, expires, uses */
#define BYTES (1 + TAG + BODY + SIGN_BYTES)
#define SIGNED (32 + BODY) /* the whole run id and the body */

_Static_assert(BASE64_TEXT(BYTES) == INVITE_TEXT, "length of an invite");
_Static_assert(2 * ID + 1 == INVITE_ID, "length of its id");

void invite_make(uint64_t expires_s, uint32_t uses, struct invite *out)
{
	uint8_t id[ID];
	rng_secret(id, sizeof id);
	*out = (struct invite){.expires_s = expires_s, .uses = uses};
	text_hex(id, sizeof id, out->id);
}

static void signed_part(
	const struct hash *run, const uint8_t body[static BODY], uint8_t out[static SIGNED])
{
	memcpy(out, run->b, 32);
	memcpy(out + 32, body, BODY);
}

static void put_le(uint8_t *to, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)(v >> 8 * i);
}

void invite_text(const struct invite *i, const struct hash *run, const struct sign_key *run_key,
	char out[static INVITE_TEXT])
{
	uint8_t bytes[BYTES] = {VERSION}, part[SIGNED], *body = bytes + 1 + TAG;
	memcpy(bytes + 1, run->b, TAG);
	if (text_unhex(i->id, body, ID) != ERR_OK)
		memset(body, 0, ID);
	put_le(body + ID, i->expires_s, 8);
	put_le(body + ID + 8, i->uses, 4);
	signed_part(run, body, part);
	sign_bytes(run_key, PURPOSE, part, sizeof part, body + BODY);
	base64_encode(bytes, sizeof bytes, out);
}

static enum err decode(const char *text, uint8_t bytes[static BYTES], struct why *why)
{
	size_t n = strlen(text), good = base64_span(text);
	if (good < n)
		return err_why(why, ERR_syntax,
			"the invite has a character that cannot be in one, after \"%.*s\"; copy it "
			"again",
			(int)(good < 12 ? good : 12), text + (good < 12 ? 0 : good - 12));
	if (n != INVITE_TEXT - 1)
		return err_why(why, ERR_syntax,
			"the invite has %zu characters instead of %d: it was cut off or doubled; "
			"copy the whole link again",
			n, INVITE_TEXT - 1);
	if (base64_decode(text, n, bytes, BYTES) != ERR_OK)
		return err_why(why, ERR_syntax, "the invite was altered; copy it again");
	if (bytes[0] != VERSION)
		return err_why(why, ERR_syntax,
			"the invite is of version %u, this program knows version %d: use the "
			"operator's version of shoal",
			bytes[0], VERSION);
	return ERR_OK;
}

enum err invite_form(const char *text, struct why *why)
{
	uint8_t bytes[BYTES];
	return decode(text, bytes, why);
}

enum err invite_open(const char *text, const struct hash *run, const struct sign_public *run_key,
	uint64_t now_s, struct invite *out, struct why *why)
{
	uint8_t bytes[BYTES], part[SIGNED];
	struct rd r;
	enum err e = decode(text, bytes, why);
	if (e)
		return e;
	if (memcmp(bytes + 1, run->b, TAG) != 0)
		return err_why(why, ERR_wrong_run,
			"the invite is for another run; ask for a link to this one");
	signed_part(run, bytes + 1 + TAG, part);
	if (sign_verify(run_key->b, PURPOSE, part, sizeof part, bytes + 1 + TAG + BODY) != ERR_OK)
		return err_why(why, ERR_signature,
			"the invite was not signed by this run's key; ask the operator for a new "
			"link");
	*out = (struct invite){0};
	rd_init(&r, bytes + 1 + TAG + ID, BODY - ID);
	text_hex(bytes + 1 + TAG, ID, out->id);
	out->expires_s = rd_u64(&r);
	out->uses = rd_u32(&r);
	if (out->expires_s && now_s > out->expires_s && now_s - out->expires_s > INVITE_SLACK_S) {
		char ago[24];
		uint64_t s = now_s - out->expires_s;
		clock_text((s < 1000000000u ? s : 1000000000u) * CLOCK_SECOND, ago);
		return err_why(why, ERR_invite,
			"the invite expired %s ago; ask the operator for a new link", ago);
	}
	return ERR_OK;
}
