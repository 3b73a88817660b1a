/* What peers may ask of a coordinator that has no run yet. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/text.h"
#include "coordinator/rebuild_parts.h"
#include "net/https_reply.h"
#include "net/signed.h"

#define JOIN_MOST 8192

static void reply_text(struct https_request *r, const char *text)
{
	const struct https_reply_content c = {.type = "application/json"};
	https_reply_bytes(r, &c, text, strlen(text));
}

static void refuse(struct https_request *q, enum err code, const char *text)
{
	struct why why;
	(void)err_why(&why, code, "%s", text);
	https_reply_error(q, 0, &why);
}

static void get_statement(void *arg, struct https_request *q)
{
	reply_text(q, ((struct rebuild *)arg)->statement);
}

static void get_spec(void *arg, struct https_request *q)
{
	reply_text(q, ((struct rebuild *)arg)->run.spec_text);
}

static void get_roster(void *arg, struct https_request *q)
{
	struct rebuild *r = arg;
	if (r->roster)
		reply_text(q, r->roster_text);
	else
		refuse(q, ERR_busy, "this run is being rebuilt; nobody has shown its roster yet");
}

static void post_roster(void *arg, struct https_request *q)
{
	struct rebuild *r = arg;
	struct why why = {0};
	size_t n;
	const void *text = https_request_body(q, &n);
	struct sign_public key = sign_public_of(r->config->key);
	json_t *body = NULL;
	struct roster *roster = NULL;
	enum err err = signed_open(text, n, "roster", key.b, &body, &why);
	if (!err)
		err = roster_parse(body, &r->config->spec->id, &roster, &why);
	json_decref(body);
	if (err) {
		https_reply_error(q, 0, &why);
		return;
	}
	rebuild_roster(r, roster, alloc_must_printf("%.*s", (int)n, (const char *)text));
	https_reply_json(q, json_pack("{s:I}", "version", (json_int_t)roster_version(r->roster)));
}

/* The key stands in the body that it signs, so the body is looked at before the signature. */
static enum err find_member(const struct rebuild *r, const void *text, size_t n,
	const struct roster_member **out, struct why *why)
{
	json_t *doc = NULL, *body = NULL;
	uint8_t sign[SIGN_PUBLIC], curve[ROSTER_CURVE];
	enum err err = json_parse(text, n, JOIN_MOST, &doc, why);
	if (err)
		return err;
	const char *hex = json_string_value(json_object_get(json_object_get(doc, "body"), "sign"));
	if (!hex || text_unhex(hex, sign, sizeof sign))
		err = err_why(why, ERR_syntax, "the join request names no key");
	json_decref(doc);
	if (!err)
		err = signed_open(text, n, "join", sign, &body, why);
	const char *link = json_string_value(json_object_get(body, "curve"));
	if (!err && (!link || text_unhex(link, curve, sizeof curve)))
		err = err_why(why, ERR_syntax, "the join request names no link key");
	json_decref(body);
	if (err)
		return err;
	*out = r->roster ? roster_by_sign(r->roster, sign) : NULL;
	if (!*out || (*out)->removed || memcmp((*out)->curve, curve, sizeof curve))
		return err_why(why, ERR_busy,
			"this run is being rebuilt from its peers, and this one is not on the "
			"roster known so far");
	return ERR_OK;
}

static void post_join(void *arg, struct https_request *q)
{
	struct rebuild *r = arg;
	struct why why = {0};
	size_t n;
	const void *text = https_request_body(q, &n);
	const struct roster_member *m = NULL;
	if (find_member(r, text, n, &m, &why))
		https_reply_error(q, 0, &why);
	else
		https_reply_json(q, json_pack("{s:i, s:i}", "number", (int)m->number, "link_port",
					    (int)link_port(r->link)));
}

/* The data to train on: a peer that was started anew looks whether it has all of it. */
static void get_blob(void *arg, struct https_request *q)
{
	struct rebuild *r = arg;
	const struct https_reply_content c = {
		.type = "application/octet-stream", .cache = HTTPS_REPLY_FOR_EVER};
	struct hash name;
	const char *hex = https_request_rest(q);
	if (hash_parse(hex, &name)) {
		refuse(q, ERR_syntax, "a blob is named by 64 lower-case hex digits");
		return;
	}
	char *path = alloc_must_printf("%s/blobs/%s", r->config->data, hex);
	https_reply_file(q, &c, path);
	free(path);
}

static void get_rest(void *arg, struct https_request *q)
{
	(void)arg;
	refuse(q, ERR_busy, "this run is being rebuilt from its peers: try again later");
}

static const struct https_route routes[] = {
	{"GET", "/api/v1/statement", 0, get_statement},
	{"GET", "/api/v1/spec", 0, get_spec},
	{"GET", "/api/v1/roster", 0, get_roster},
	{"POST", "/api/v1/roster", SIGNED_MAX, post_roster},
	{"POST", "/api/v1/join", JOIN_MOST, post_join},
	{"GET", "/api/v1/blob/*", 0, get_blob},
	{"GET", "/*", 0, get_rest},
};

const struct https_route *rebuild_api_routes(size_t *n)
{
	*n = sizeof routes / sizeof *routes;
	return routes;
}
