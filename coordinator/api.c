#include "coordinator/api.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "coordinator/api_control.h"
#include "coordinator/api_join.h"
#include "coordinator/api_view.h"
#include "coordinator/assets.h"
#include "coordinator/feed.h"
#include "coordinator/hub.h"
#include "coordinator/piecelist.h"
#include "net/https_reply.h"
#include "net/signed.h"

#define JOIN_MOST 8192
#define CONTROL_MOST 4096

/* ---- documents */

static void reply_text(struct https_request *r, const char *text)
{
	const struct https_reply_content c = {.type = "application/json"};
	https_reply_bytes(r, &c, text, strlen(text));
}

static void get_statement(void *arg, struct https_request *r)
{
	reply_text(r, hub_statement(arg));
}

static void get_spec(void *arg, struct https_request *r)
{
	reply_text(r, ((struct hub *)arg)->run.spec_text);
}

static void get_roster(void *arg, struct https_request *r)
{
	reply_text(r, members_text(((struct hub *)arg)->run.members));
}

static void get_head(void *arg, struct https_request *r)
{
	reply_text(r, ((struct hub *)arg)->run.head_text);
}

static void first_snapshot(void *arg, const struct store_snapshot *s)
{
	struct store_snapshot *newest = arg;
	if (!newest->bytes)
		*newest = *s;
}

static void get_state(void *arg, struct https_request *r)
{
	struct hub *h = arg;
	struct store_snapshot s = {0};
	struct why why;
	if (store_snapshot_list(h->run.store, first_snapshot, &s, &why)) {
		https_reply_error(r, 0, &why);
		return;
	}
	char blob[HASH_HEX], at[HASH_HEX], run[HASH_HEX], hash[HASH_HEX];
	struct ledger_head head = run_head(&h->run);
	hash_hex(&s.blob, blob);
	hash_hex(&s.head, at);
	hash_hex(&h->run.spec->id, run);
	hash_hex(&head.hash, hash);
	json_t *body = json_pack("{s:s, s:{s:I, s:I, s:s, s:s, s:I}, s:{s:I, s:I, s:s}, s:i}",
		"run", run, "snapshot", "round", (json_int_t)s.round, "sequence",
		(json_int_t)s.sequence, "head", at, "blob", blob, "bytes", (json_int_t)s.bytes,
		"head", "sequence", (json_int_t)head.sequence, "round", (json_int_t)head.round,
		"hash", hash, "link_port", (int)link_port(h->link));
	char *pieces = piecelist_read(h->config.dir, s.round, s.bytes);
	if (pieces) /* else it is fetched whole */
		json_object_set_new(body, "pieces", json_string(pieces));
	free(pieces);
	char *text = signed_make("state", body, h->run.keys.run);
	json_decref(body);
	reply_text(r, text);
	free(text);
}

/* ---- blobs: the run's own first, then the data to train on */

static void get_blob(void *arg, struct https_request *r)
{
	struct hub *h = arg;
	const struct https_reply_content c = {
		.type = "application/octet-stream", .cache = HTTPS_REPLY_FOR_EVER};
	struct hash name;
	struct why why;
	const char *hex = https_request_rest(r);
	if (hash_parse(hex, &name)) {
		err_why(&why, ERR_syntax, "a blob is named by 64 lower-case hex digits");
		https_reply_error(r, 0, &why);
		return;
	}
	char *path = alloc_must_printf("%s/blobs/%s", h->config.dir, hex);
	if (!file_exists(path)) {
		free(path);
		path = alloc_must_printf("%s/blobs/%s", h->config.data, hex);
	}
	https_reply_file(r, &c, path);
	free(path);
}

/* ---- the page */

static void get_asset(void *arg, struct https_request *r)
{
	(void)arg;
	const struct asset *f = assets_find(https_request_path(r));
	struct why why;
	if (!f) {
		err_why(&why, ERR_missing, "there is nothing at this address");
		https_reply_error(r, 0, &why);
		return;
	}
	const struct https_reply_content c = {.type = f->type, .cache = f->cache};
	https_reply_bytes(r, &c, f->bytes, (size_t)(f->end - f->bytes));
}

static void get_events(void *arg, struct https_request *r)
{
	feed_open(((struct hub *)arg)->feed, r);
}

static const struct https_route routes[] = {
	{"GET", "/api/v1/statement", 0, get_statement},
	{"GET", "/api/v1/spec", 0, get_spec},
	{"GET", "/api/v1/roster", 0, get_roster},
	{"GET", "/api/v1/state", 0, get_state},
	{"GET", "/api/v1/head", 0, get_head},
	{"GET", "/api/v1/blob/*", 0, get_blob},
	{"POST", "/api/v1/join", JOIN_MOST, api_join},
	{"GET", "/api/v1/ledger.json", 0, api_view_ledger},
	{"GET", "/api/v1/records", 0, api_view_records},
	{"GET", "/api/v1/overview.json", 0, api_view_overview},
	{"GET", "/api/v1/peers.json", 0, api_view_peers},
	{"GET", "/api/v1/rounds.json", 0, api_view_rounds},
	{"GET", "/api/v1/topology.json", 0, api_view_topology},
	{"GET", "/api/v1/refusals.json", 0, api_view_refusals},
	{"GET", "/api/v1/loss.json", 0, api_view_loss},
	{"GET", "/api/v1/loss.csv", 0, api_view_loss_csv},
	{"GET", "/api/v1/events", 0, get_events},
	{"GET", "/api/v1/invites.json", 0, api_control_invites},
	{"POST", "/api/v1/control/check", CONTROL_MOST, api_control_check},
	{"POST", "/api/v1/control/pause", CONTROL_MOST, api_control_pause},
	{"POST", "/api/v1/control/resume", CONTROL_MOST, api_control_resume},
	{"POST", "/api/v1/control/kick", CONTROL_MOST, api_control_kick},
	{"POST", "/api/v1/control/stop", CONTROL_MOST, api_control_stop},
	{"POST", "/api/v1/control/invite", CONTROL_MOST, api_control_invite},
	{"POST", "/api/v1/control/revoke", CONTROL_MOST, api_control_revoke},
	{"GET", "/metrics", 0, api_view_metrics},
	{"GET", "/health", 0, api_view_health},
	{"GET", "/*", 0, get_asset},
};

const struct https_route *api_routes(size_t *n)
{
	*n = sizeof routes / sizeof *routes;
	return routes;
}
