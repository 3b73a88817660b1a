#include "coordinator/api_control.h"
#include <event2/event.h>
#include "base/clock.h"
#include "base/log.h"
#include "coordinator/hub.h"
#include "coordinator/hub_invite.h"
#include "net/https_reply.h"

#define BODY_MOST 4096
#define EXPIRES_MOST ((int64_t)10 * 366 * 24 * 3600)

static bool allowed(struct hub *h, struct https_request *r)
{
	struct why why;
	if (https_request_bearer(r, h->token))
		return true;
	err_why(&why, ERR_permission,
		"this needs the operator's token: Authorization: Bearer, then what stands in "
		"keys/operator.token of the coordinator's folder");
	const struct hub_refused refused = {.what = "control", .member = MEMBERS_NONE};
	hub_refuse(h, &refused, &why);
	https_reply_error(r, 0, &why);
	return false;
}

static void reply_ok(struct https_request *r)
{
	https_reply_json(r, json_pack("{s:b}", "ok", 1));
}

void api_control_check(void *hub, struct https_request *r)
{
	if (allowed(hub, r))
		reply_ok(r);
}

static void set_pause(struct hub *h, struct https_request *r, bool paused)
{
	if (!allowed(h, r))
		return;
	hub_pause(h, paused, clock_now_ns());
	hub_settle(h, clock_now_ns());
	h->changed = true;
	reply_ok(r);
}

void api_control_pause(void *hub, struct https_request *r)
{
	set_pause(hub, r, true);
}

void api_control_resume(void *hub, struct https_request *r)
{
	set_pause(hub, r, false);
}

void api_control_stop(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	const struct timeval soon = {.tv_usec = 200000}; /* for the reply to leave */
	if (!allowed(h, r))
		return;
	log_at(coord, 1, "the operator asks to stop");
	event_base_loopexit(h->base, &soon);
	reply_ok(r);
}

/* ---- with a body */

struct wish {
	int64_t member, uses, expires_s;
	char id[STORE_NAME];
};

/* Every member is optional here; who needs one checks for it. */
static enum err read_wish(struct https_request *r, struct wish *w, struct why *why)
{
	size_t n;
	const void *text = https_request_body(r, &n);
	const int64_t none = -1, zero = 0;
	json_t *doc = NULL;
	struct buf mistakes;
	struct json_in in;
	enum err err = json_parse(n ? text : "{}", n ? n : 2, BODY_MOST, &doc, why);
	if (err)
		return err;
	buf_init(&mistakes, BODY_MOST);
	json_in_init(&in, doc, "", &mistakes);
	w->member = json_get_int(&in, "member", 0, ROSTER_MAX, &none);
	w->uses = json_get_int(&in, "uses", 0, ROSTER_MAX, &zero);
	w->expires_s = json_get_int(&in, "expires_s", 0, EXPIRES_MOST, &zero);
	const char *id = json_get_text(&in, "id", sizeof w->id - 1, "");
	snprintf(w->id, sizeof w->id, "%s", id);
	json_in_finish(&in);
	err = json_verdict(&mistakes, "the request is malformed", why);
	buf_release(&mistakes);
	json_decref(doc);
	return err;
}

void api_control_kick(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	struct wish w;
	struct why why;
	if (!allowed(h, r))
		return;
	enum err err = read_wish(r, &w, &why);
	if (!err && (w.member < 0 || hub_kick(h, (uint32_t)w.member, clock_now_ns())))
		err = err_why(&why, ERR_missing,
			"there is no such member: give its number as \"member\"");
	if (err) {
		https_reply_error(r, 0, &why);
		return;
	}
	hub_settle(h, clock_now_ns());
	reply_ok(r);
}

void api_control_invite(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	struct wish w;
	struct why why;
	char host[JOINLINK_HOST], link[JOINLINK_MAX];
	struct invites_wish wish = {0};
	const struct invites in = run_invites(&h->run);
	if (!allowed(h, r))
		return;
	enum err err = read_wish(r, &w, &why);
	if (!err) {
		wish.uses = (uint32_t)w.uses;
		wish.expires_s = w.expires_s ? clock_wall_s() + (uint64_t)w.expires_s : 0;
		hub_invite_where(h, &wish, host);
		err = invites_make(&in, &wish, link, &why);
	}
	if (err)
		https_reply_error(r, 0, &why);
	else
		https_reply_json(r, json_pack("{s:s}", "link", link));
}

void api_control_revoke(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	struct wish w;
	struct why why;
	struct store_invite row;
	if (!allowed(h, r))
		return;
	enum err err = read_wish(r, &w, &why);
	if (!err && (err = store_invite_find(h->run.store, w.id, &row, &why)) == ERR_missing)
		err_why(&why, err, "there is no invite \"%s\"", w.id);
	if (!err) {
		store_begin(h->run.store);
		store_invite_revoke(h->run.store, w.id);
		err = store_commit(h->run.store, &why);
	}
	if (err)
		https_reply_error(r, 0, &why);
	else
		reply_ok(r);
}

static void add_invite(void *arg, const struct store_invite *i)
{
	json_array_append_new(
		arg, json_pack("{s:s, s:I, s:I, s:i, s:i, s:b}", "id", i->id, "created_s",
			     (json_int_t)i->created_s, "expires_s", (json_int_t)i->expires_s,
			     "uses", (int)i->uses, "used", (int)i->used, "revoked", i->revoked));
}

void api_control_invites(void *hub, struct https_request *r)
{
	struct hub *h = hub;
	struct why why;
	if (!allowed(h, r))
		return;
	json_t *list = json_array();
	if (store_invite_list(h->run.store, add_invite, list, &why)) {
		json_decref(list);
		https_reply_error(r, 0, &why);
		return;
	}
	https_reply_json(r, json_pack("{s:o}", "invites", list));
}
