#include "coordinator/api_join.h"
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "coordinator/hub.h"
#include "coordinator/invites.h"
#include "net/https_reply.h"
#include "net/signed.h"

#define BODY_MOST 8192
#define GIVERS_MOST 16u /* told to one member at once */

struct request {
	struct members_new who;
	char name[ROSTER_NAME + 1], version[STORE_NAME], invite[INVITE_TEXT];
};

/* The key stands in the body that it signs, so the body is looked at before the signature. */
static enum err find_key(
	const void *text, size_t n, uint8_t key[static SIGN_PUBLIC], struct why *why)
{
	json_t *doc = NULL;
	enum err err = json_parse(text, n, BODY_MOST, &doc, why);
	if (err)
		return err;
	const char *hex = json_string_value(json_object_get(json_object_get(doc, "body"), "sign"));
	if (!hex || text_unhex(hex, key, SIGN_PUBLIC))
		err = err_why(why, ERR_syntax,
			"a join request is a signed document of type \"join\" with the member "
			"\"sign\" in its body");
	json_decref(doc);
	return err;
}

static void copy_text(char *out, size_t room, const char *text)
{
	size_t n = strnlen(text, room - 1);
	memcpy(out, text, n);
	out[n] = 0;
}

static enum err read_body(
	const struct hub *h, const json_t *body, struct request *q, struct why *why)
{
	struct buf mistakes;
	struct json_in in;
	buf_init(&mistakes, 4096);
	json_in_init(&in, body, "", &mistakes);
	copy_text(q->invite, sizeof q->invite, json_get_text(&in, "invite", INVITE_TEXT - 1, NULL));
	copy_text(q->name, sizeof q->name, json_get_text(&in, "name", ROSTER_NAME - 1, NULL));
	copy_text(
		q->version, sizeof q->version, json_get_text(&in, "version", STORE_NAME - 1, NULL));
	const char *curve = json_get_text(&in, "curve", 2 * STORE_KEY, NULL);
	(void)json_get_text(&in, "sign", 2 * SIGN_PUBLIC, NULL); /* was read before */
	(void)json_get_int(&in, "instance", 0, INT64_MAX, NULL);
	struct hash run = json_get_hash(&in, "run", true);
	json_in_finish(&in);
	enum err err = json_verdict(&mistakes, "the join request is malformed", why);
	if (!err && text_unhex(curve, q->who.curve, STORE_KEY))
		err = err_why(why, ERR_syntax, "\"curve\" must be a key of 64 hex digits");
	if (!err && !hash_equal(&run, &h->run.spec->id))
		err = err_why(why, ERR_wrong_run,
			"this coordinator serves the run %s, which is another one than the link's",
			h->run.spec->name);
	buf_release(&mistakes);
	return err;
}

static enum err read_request(
	const struct hub *h, struct https_request *r, struct request *q, struct why *why)
{
	size_t n;
	const void *text = https_request_body(r, &n);
	json_t *body = NULL;
	enum err err = find_key(text, n, q->who.sign, why);
	if (!err)
		err = signed_open(text, n, "join", q->who.sign, &body, why);
	if (!err)
		err = read_body(h, body, q, why);
	json_decref(body);
	q->who.name = q->name;
	q->who.version = q->version;
	q->who.now_s = clock_wall_s();
	return err;
}

/* Invite and member in one transaction: an invite for one key makes one member, whatever dies. */
static enum err take_in(struct hub *h, const struct request *q, uint32_t *number, struct why *why)
{
	char id[INVITE_ID];
	const struct invites in = run_invites(&h->run);
	enum err err = invites_check(&in, q->invite, q->who.sign, id, why);
	if (err)
		return err;
	store_begin(h->run.store);
	store_invite_use(h->run.store, id, q->who.sign);
	*number = members_add(h->run.members, &q->who);
	err = store_commit(h->run.store, why);
	if (err)
		return err;
	hub_joined(h, *number, clock_now_ns());
	hub_settle(h, clock_now_ns());
	log_at(coord, 2, "member %u joins: %s", *number, q->name);
	return ERR_OK;
}

/* Members that give to others, for members only; another one is first each time, so that they share
 * the work. */
static json_t *givers(struct hub *h, uint32_t number)
{
	json_t *list = json_array();
	const uint32_t end = members_end(h->run.members), first = h->givers_told++;
	for (uint32_t i = 0; i < end && json_array_size(list) < GIVERS_MOST; i++) {
		const uint32_t n = (first + i) % end;
		if (n >= h->n_members || n == number)
			continue;
		const struct hub_member *m = &h->members[n];
		if (m->linked && m->address[0])
			json_array_append_new(list,
				json_pack("{s:i, s:s}", "member", (int)n, "address", m->address));
	}
	return list;
}

void api_join(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	struct request q = {0};
	struct why why = {0};
	uint32_t number = MEMBERS_NONE;
	enum err err = read_request(h, r, &q, &why);
	if (!err)
		err = members_find(h->run.members, &q.who, &number, &why);
	if (err == ERR_missing)
		err = take_in(h, &q, &number, &why);
	if (err) {
		const struct hub_refused refused = {.what = "join", .member = MEMBERS_NONE};
		hub_refuse(h, &refused, &why);
		https_reply_error(r, 0, &why);
		return;
	}
	https_reply_json(r, json_pack("{s:i, s:i, s:o}", "number", (int)number, "link_port",
				    (int)link_port(h->link), "givers", givers(h, number)));
}
