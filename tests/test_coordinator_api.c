/* The control plane over real HTTPS: documents, views, joining, what the token allows, the stream.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <curl/curl.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "coordinator/invites.h"
#include "net/https_server.h"
#include "net/signed.h"
#include "tests/help_coordinator.h"

/* The hub on a thread of its own; the test asks it over HTTPS only, until it is stopped. */
static struct hub hub;
static struct spec *spec;
static pthread_t thread;
static uint16_t port;
static char token[65];

static void *run_hub(void *arg)
{
	struct why why;
	(void)arg;
	return hub_run(&hub, &why) ? (void *)"failed" : NULL;
}

static void start(void)
{
	port = https_server_port(hub.https);
	memcpy(token, hub.token, sizeof token);
	assert_int_equal(pthread_create(&thread, NULL, run_hub, NULL), 0);
}

/* ---- asking */

struct reply {
	long status;
	struct buf body;
};

static size_t collect(char *bytes, size_t one, size_t n, void *arg)
{
	(void)one;
	buf_put(arg, bytes, n);
	return n;
}

struct ask {
	const char *path, *post, *token, *range, *header;
};

static void ask(const struct ask *a, struct reply *r)
{
	char url[512], header[128];
	CURL *c = curl_easy_init();
	struct curl_slist *headers = NULL;
	snprintf(url, sizeof url, "https://127.0.0.1:%u%s", port, a->path);
	buf_init(&r->body, 16u << 20);
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
	curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c, CURLOPT_TIMEOUT, 20L);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, collect);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, &r->body);
	if (a->post)
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, a->post);
	if (a->range)
		curl_easy_setopt(c, CURLOPT_RANGE, a->range);
	if (a->token) {
		snprintf(header, sizeof header, "Authorization: Bearer %s", a->token);
		headers = curl_slist_append(headers, header);
	}
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	assert_int_equal(curl_easy_perform(c), CURLE_OK);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &r->status);
	curl_slist_free_all(headers);
	curl_easy_cleanup(c);
	buf_printf(&r->body, "%s", "");
}

static json_t *ask_json(const struct ask *a, long status)
{
	struct reply r;
	ask(a, &r);
	if (r.status != status)
		fail_msg("%s: status %ld: %s", a->path, r.status, (const char *)r.body.data);
	json_t *doc = json_loadb((const char *)r.body.data, r.body.len, 0, NULL);
	assert_non_null(doc);
	buf_release(&r.body);
	return doc;
}

static json_t *get(const char *path)
{
	return ask_json(&(struct ask){.path = path}, 200);
}

/* Refused with this status and code. */
static void refused(const struct ask *a, long status, enum err code)
{
	json_t *doc = ask_json(a, status);
	assert_int_equal(json_integer_value(json_object_get(doc, "code")), code);
	assert_string_equal(json_string_value(json_object_get(doc, "name")), err_name(code));
	assert_true(strlen(json_string_value(json_object_get(doc, "text"))) > 20);
	json_decref(doc);
}

static void stop(void)
{
	void *failed;
	json_decref(ask_json(
		&(struct ask){.path = "/api/v1/control/stop", .post = "{}", .token = token}, 200));
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	hub_close(&hub);
	spec_free(spec);
}

/* ---- reading */

static json_t *signed_doc(const char *path, const char *type)
{
	struct reply r;
	struct why why;
	json_t *body = NULL;
	struct sign_public key = sign_public_of(hub.run.keys.run);
	ask(&(struct ask){.path = path}, &r);
	assert_int_equal(r.status, 200);
	if (signed_open(r.body.data, r.body.len, type, key.b, &body, &why))
		fail_msg("%s: %s", path, why.text);
	buf_release(&r.body);
	return body;
}

static uint64_t number(const json_t *doc, const char *name)
{
	assert_true(json_is_integer(json_object_get(doc, name)));
	return (uint64_t)json_integer_value(json_object_get(doc, name));
}

static void played(uint64_t rounds)
{
	spec = help_coordinator_spec();
	help_coordinator_open(&hub, spec);
	if (rounds)
		help_coordinator_play(&hub, rounds);
}

static void documents_are_signed_and_blobs_are_there(void **state)
{
	(void)state;
	char path[128];
	struct reply r;
	struct hash hash;
	played(4);
	start();
	json_t *body = signed_doc("/api/v1/state", "state");
	const json_t *snapshot = json_object_get(body, "snapshot");
	assert_int_equal(number(json_object_get(body, "head"), "sequence"), 8);
	assert_int_equal(number(snapshot, "round"), 3);
	const char *hex = json_string_value(json_object_get(snapshot, "blob"));
	snprintf(path, sizeof path, "/api/v1/blob/%s", hex);
	ask(&(struct ask){.path = path}, &r);
	assert_int_equal(r.body.len, number(snapshot, "bytes"));
	hash = hash_of(r.body.data, r.body.len);
	char got[HASH_HEX];
	hash_hex(&hash, got);
	assert_string_equal(got, hex);
	buf_release(&r.body);
	ask(&(struct ask){.path = path, .range = "0-99"}, &r);
	assert_int_equal(r.status, 206);
	assert_int_equal(r.body.len, 100);
	buf_release(&r.body);
	json_decref(body);
	json_decref(signed_doc("/api/v1/roster", "roster"));
	json_decref(signed_doc("/api/v1/head", "head"));
	json_decref(signed_doc("/api/v1/spec", "spec"));

	/* the data too; nothing else */
	char manifest[HASH_HEX];
	hash_hex(&spec->manifest, manifest);
	snprintf(path, sizeof path, "/api/v1/blob/%s", manifest);
	json_decref(get(path));
	refused(&(struct ask){.path = "/api/v1/blob/..%2F..%2Fkeys%2Frun.key"}, 400, ERR_syntax);
	refused(
		&(struct ask){
			.path = "/api/v1/blob/"
				"0000000000000000000000000000000000000000000000000000000000000000"},
		404, ERR_missing);

	/* catching up: the records after the second newest snapshot (round 0's was the first) */
	body = get("/api/v1/ledger.json?from=6");
	const json_t *records = json_object_get(body, "records");
	assert_int_equal(json_array_size(records), 2);
	snprintf(path, sizeof path, "/api/v1/blob/%s",
		json_string_value(json_object_get(json_array_get(records, 0), "blob")));
	ask(&(struct ask){.path = path}, &r);
	assert_int_equal(r.status, 200);
	const size_t first = r.body.len;
	buf_release(&r.body);
	ask(&(struct ask){.path = "/api/v1/records?from=6&limit=1"}, &r);
	assert_int_equal(r.body.len, first);
	buf_release(&r.body);
	ask(&(struct ask){.path = "/api/v1/records?from=6"}, &r);
	assert_int_equal(r.body.len, number(json_array_get(records, 0), "bytes") +
					     number(json_array_get(records, 1), "bytes"));
	buf_release(&r.body);
	json_decref(body);
	refused(&(struct ask){.path = "/api/v1/records?from=8"}, 404, ERR_missing);
	refused(&(struct ask){.path = "/api/v1/records?from=x"}, 400, ERR_syntax);
	refused(&(struct ask){.path = "/api/v1/ledger.json?from=x"}, 400, ERR_syntax);
	stop();
}

static void views_agree_with_each_other(void **state)
{
	(void)state;
	struct reply r;
	played(5);
	start();
	json_t *o = get("/api/v1/overview.json"), *peers = get("/api/v1/peers.json"),
	       *rounds = get("/api/v1/rounds.json"), *loss = get("/api/v1/loss.json"),
	       *ledger = get("/api/v1/ledger.json?full=1&limit=3");
	assert_int_equal(number(o, "tokens"), 5 * 96);
	assert_int_equal(number(json_object_get(o, "members"), "total"), 3);
	uint64_t sum = 0;
	const json_t *list = json_object_get(peers, "peers");
	assert_int_equal(json_array_size(list), 3);
	for (size_t i = 0; i < 3; i++)
		sum += number(json_array_get(list, i), "tokens");
	assert_int_equal(sum, number(o, "tokens"));
	list = json_object_get(rounds, "rounds");
	assert_int_equal(json_array_size(list), 5);
	assert_int_equal(number(json_array_get(list, 4), "total_tokens"), sum);
	assert_int_equal(json_array_size(json_object_get(loss, "points")), 2); /* rounds 0, 4 */
	list = json_object_get(ledger, "records");
	assert_int_equal(json_array_size(list), 3);
	assert_int_equal(number(json_array_get(list, 0), "sequence"), 10);
	assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "hash")),
		json_string_value(json_object_get(json_object_get(o, "head"), "hash")));
	assert_int_equal(
		json_array_size(json_object_get(json_array_get(list, 0), "contributions")), 3);
	json_decref(o);
	json_decref(peers);
	json_decref(rounds);
	json_decref(loss);
	json_decref(ledger);
	peers = get("/api/v1/peers.json?from=2&limit=1");
	assert_int_equal(json_array_size(json_object_get(peers, "peers")), 1);
	assert_int_equal(number(peers, "next"), 3);
	json_decref(peers);
	json_decref(get("/api/v1/refusals.json"));
	json_decref(get("/health"));
	ask(&(struct ask){.path = "/api/v1/loss.csv"}, &r);
	assert_non_null(strstr((const char *)r.body.data, "round,tokens,"));
	assert_non_null(strstr((const char *)r.body.data, "\n4,384,"));
	buf_release(&r.body);
	ask(&(struct ask){.path = "/metrics"}, &r);
	assert_non_null(strstr((const char *)r.body.data, "\nshoal_ledger_tokens_total 480\n"));
	assert_non_null(
		strstr((const char *)r.body.data, "shoal_member_tokens_total{member=\"1\"} 160"));
	buf_release(&r.body);
	ask(&(struct ask){.path = "/"}, &r);
	assert_non_null(strstr((const char *)r.body.data, "<html"));
	buf_release(&r.body);
	refused(&(struct ask){.path = "/nowhere"}, 404, ERR_missing);
	stop();
}

/* ---- joining */

struct joiner {
	struct sign_key *key;
	uint8_t curve[32];
};

static char *request(const struct joiner *j, const char *invite, const char *name)
{
	char sign[65], curve[65], run[HASH_HEX];
	struct sign_public key = sign_public_of(j->key);
	text_hex(key.b, sizeof key.b, sign);
	text_hex(j->curve, sizeof j->curve, curve);
	hash_hex(&spec->id, run);
	json_t *body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:s}", "invite", invite, "name",
		name, "version", "test", "sign", sign, "curve", curve, "instance", 1, "run", run);
	char *text = signed_make("join", body, j->key);
	json_decref(body);
	return text;
}

/* What comes of it: a number, or a refusal with this code. */
static uint64_t join(const struct joiner *j, const char *invite, const char *name, enum err code)
{
	char *text = request(j, invite, name);
	const struct ask a = {.path = "/api/v1/join", .post = text};
	struct reply r;
	ask(&a, &r);
	json_t *doc = json_loadb((const char *)r.body.data, r.body.len, 0, NULL);
	if ((uint64_t)json_integer_value(json_object_get(doc, "code")) != code)
		fail_msg("join: %s", (const char *)r.body.data);
	uint64_t n = code ? 0 : number(doc, "number");
	json_decref(doc);
	buf_release(&r.body);
	free(text);
	return n;
}

static const char *make_invite(uint32_t uses, uint64_t expires_s)
{
	static char invite[INVITE_TEXT];
	char link[JOINLINK_MAX];
	struct why why;
	struct joinlink l;
	const struct invites_wish w = {
		.uses = uses, .expires_s = expires_s, .host = "h", .port = 1};
	struct store *s = NULL; /* as `invite create` does beside a running coordinator */
	assert_int_equal(store_open(help_coordinator_path("run/store.sqlite"), &s, &why), ERR_OK);
	const struct invites in = {s, &spec->id, hub.run.keys.run};
	assert_int_equal(invites_make(&in, &w, link, &why), ERR_OK);
	store_close(s);
	assert_int_equal(joinlink_parse(link, &l, &why), ERR_OK);
	memcpy(invite, l.invite, sizeof invite);
	return invite;
}

static void an_invite_lets_its_number_in(void **state)
{
	(void)state;
	struct joiner one = {sign_make(), {1}}, two = {sign_make(), {2}}, half = {sign_make(), {1}};
	char invite[INVITE_TEXT];
	played(0);
	start();
	memcpy(invite, make_invite(1, 0), sizeof invite);
	join(&one, "", "one", ERR_syntax);
	join(&one, invite, "", ERR_syntax);
	assert_int_equal(join(&one, invite, "one", ERR_OK), 4); /* after the three */
	assert_int_equal(join(&one, invite, "one", ERR_OK), 4); /* again: the same */
	assert_int_equal(join(&one, "", "one", ERR_OK), 4);     /* and needs none any more */
	join(&two, invite, "two", ERR_invite);                  /* used up */
	join(&half, invite, "half", ERR_exists);                /* half of somebody's folder */
	join(&two, make_invite(1, 1000), "two", ERR_invite);    /* expired long ago */

	memcpy(invite, make_invite(5, 0), sizeof invite);
	json_t *list = ask_json(&(struct ask){.path = "/api/v1/invites.json", .token = token}, 200);
	const json_t *invites = json_object_get(list, "invites");
	const char *id = json_string_value(
		json_object_get(json_array_get(invites, json_array_size(invites) - 1), "id"));
	char *revoke = alloc_must_printf("{\"id\": \"%s\"}", id);
	/* made in the same second as others: the order is by id then, so revoke them all */
	for (size_t i = 0; i < json_array_size(invites); i++) {
		free(revoke);
		revoke = alloc_must_printf("{\"id\": \"%s\"}",
			json_string_value(json_object_get(json_array_get(invites, i), "id")));
		json_decref(ask_json(
			&(struct ask){
				.path = "/api/v1/control/revoke", .post = revoke, .token = token},
			200));
	}
	free(revoke);
	json_decref(list);
	join(&two, invite, "two", ERR_invite);

	char *text = request(&two, invite, "two");
	char *at = strstr(text, "\"two\"");
	memcpy(at, "\"owt\"", 5); /* altered on the way */
	refused(&(struct ask){.path = "/api/v1/join", .post = text}, 403, ERR_signature);
	free(text);
	refused(&(struct ask){.path = "/api/v1/join", .post = "{"}, 400, ERR_truncated);
	refused(&(struct ask){.path = "/api/v1/join", .post = "[]"}, 400, ERR_syntax);

	/* removed by the operator: not even with its key */
	json_decref(ask_json(
		&(struct ask){
			.path = "/api/v1/control/kick", .post = "{\"member\": 4}", .token = token},
		200));
	join(&one, invite, "one", ERR_unknown_peer);
	json_t *r = get("/api/v1/refusals.json");
	assert_true(number(r, "total") >= 8);
	json_decref(r);
	stop();
	sign_free(one.key);
	sign_free(two.key);
	sign_free(half.key);
}

static void control_needs_the_token(void **state)
{
	(void)state;
	static const char *const paths[] = {
		"check", "pause", "resume", "kick", "stop", "invite", "revoke"};
	char path[64], wrong[65];
	played(0);
	start();
	memset(wrong, 'a', 64);
	wrong[64] = 0;
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		snprintf(path, sizeof path, "/api/v1/control/%s", paths[i]);
		refused(&(struct ask){.path = path, .post = "{}"}, 403, ERR_permission);
		refused(&(struct ask){.path = path, .post = "{}", .token = wrong}, 403,
			ERR_permission);
	}
	refused(&(struct ask){.path = "/api/v1/invites.json"}, 403, ERR_permission);
	json_decref(ask_json(
		&(struct ask){.path = "/api/v1/control/check", .post = "{}", .token = token}, 200));
	json_decref(ask_json(
		&(struct ask){.path = "/api/v1/control/pause", .post = "{}", .token = token}, 200));
	json_t *o = get("/api/v1/overview.json");
	assert_true(json_is_true(json_object_get(o, "paused")));
	json_decref(o);
	json_decref(ask_json(
		&(struct ask){.path = "/api/v1/control/resume", .post = "", .token = token}, 200));
	refused(
		&(struct ask){
			.path = "/api/v1/control/kick", .post = "{\"member\": 99}", .token = token},
		404, ERR_missing);
	refused(
		&(struct ask){
			.path = "/api/v1/control/kick", .post = "{\"membre\": 1}", .token = token},
		400, ERR_syntax);
	o = ask_json(
		&(struct ask){
			.path = "/api/v1/control/invite", .post = "{\"uses\": 2}", .token = token},
		200);
	assert_non_null(
		strstr(json_string_value(json_object_get(o, "link")), "shoal://127.0.0.1:"));
	json_decref(o);
	stop();
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, help_coordinator_setup, help_coordinator_teardown)

int main(void)
{
	struct why why;
	if (log_select("0", &why))
		return 1;
	const struct CMUnitTest tests[] = {
		TEST(documents_are_signed_and_blobs_are_there),
		TEST(views_agree_with_each_other),
		TEST(an_invite_lets_its_number_in),
		TEST(control_needs_the_token),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
