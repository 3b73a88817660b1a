#include "net/https_client.h"
#include <arpa/inet.h>
#include <curl/curl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/version.h"
#include "net/address.h"
#include "net/https_fault.h"
#include "net/tls.h"

#define ERROR_BODY_MOST ((size_t)8192) /* of a reply that says what went wrong */
#define PIN_TEXT 64                    /* "sha256//" and 44 characters */
#define SPEED_LEAST 500L               /* bytes/s; what drips more slowly counts as stalled */
#define STATEMENT_PATH "/api/v1/statement"

enum trust { TRUST_nobody, TRUST_pin, TRUST_public };

struct https_client {
	struct https_client_config config;
	CURL *curl;
	enum trust trust;
	char pin[PIN_TEXT];
	char detail[CURL_ERROR_SIZE];
};

/* One transfer. */
struct call {
	struct https_client *client;
	enum trust trust;
	const char *path, *post;        // post: a body in JSON; NULL: GET
	struct buf body;                // the reply, or what a failed download has to say
	size_t most;                    // bytes of body that are welcome
	struct https_client_sink *sink; // NULL: into body
	bool sinking;                   // its first bytes have come
	uint64_t skip;                  // bytes that a server without Range sends again
	bool whole;                     // of the sink, though a part was asked for
	bool enough;                    // what is wanted is there, the rest is not
	struct hash *spki;              // NULL, or to be set to the server's key
	uint64_t counted;               // bytes of bodies that the traffic knows of
	struct why *why;
	enum err failed; // in a callback, which has set why
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_started;

static void curl_start(void)
{
	curl_started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

void https_client_config_init(struct https_client_config *c, const struct joinlink *l)
{
	*c = (struct https_client_config){
		.host = l->host,
		.port = l->port,
		.connect_ns = 10 * CLOCK_SECOND,
		.stall_ns = 20 * CLOCK_SECOND,
		.total_ns = 60 * CLOCK_SECOND,
	};
}

enum err https_client_start(struct why *why)
{
	pthread_once(&curl_once, curl_start);
	if (curl_started == CURLE_OK)
		return ERR_OK;
	return err_why(why, ERR_nomem, "libcurl cannot be started");
}

enum err https_client_new(
	const struct https_client_config *config, struct https_client **out, struct why *why)
{
	*out = NULL;
	enum err e = https_client_start(why);
	if (e)
		return e;
	CURL *curl = curl_easy_init();
	if (!curl)
		return err_why(why, ERR_nomem, "libcurl cannot be started");
	struct https_client *c = alloc_must_zero(1, sizeof *c);
	c->config = *config;
	c->config.host = alloc_must_strdup(config->host);
	if (config->ca_file)
		c->config.ca_file = alloc_must_strdup(config->ca_file);
	c->curl = curl;
	*out = c;
	return ERR_OK;
}

void https_client_free(struct https_client *c)
{
	if (!c)
		return;
	curl_easy_cleanup(c->curl);
	free((char *)(uintptr_t)c->config.host);
	free((char *)(uintptr_t)c->config.ca_file);
	free(c);
}

static long status_of(const struct call *k)
{
	long status = 0;
	curl_easy_getinfo(k->client->curl, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

/* So many bytes of both bodies have gone by now. */
static void count(struct call *k, curl_off_t down, curl_off_t up)
{
	const uint64_t all = (uint64_t)down + (uint64_t)up;
	if (all <= k->counted)
		return;
	traffic_add(k->client->config.traffic, all - k->counted);
	k->counted = all;
}

static void count_rest(struct call *k)
{
	curl_off_t down = 0, up = 0;
	long sent = 0, got = 0;
	CURL *curl = k->client->curl;
	curl_easy_getinfo(curl, CURLINFO_SIZE_DOWNLOAD_T, &down);
	curl_easy_getinfo(curl, CURLINFO_SIZE_UPLOAD_T, &up);
	curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &sent); // its headers
	curl_easy_getinfo(curl, CURLINFO_HEADER_SIZE, &got);
	count(k, down, up);
	traffic_add(k->client->config.traffic, (uint64_t)sent + (uint64_t)got);
}

static int on_progress(void *arg, curl_off_t a, curl_off_t down, curl_off_t b, curl_off_t up)
{
	struct call *k = arg;
	const atomic_bool *cancel = k->client->config.cancel;
	(void)a, (void)b;
	count(k, down, up);
	return cancel && atomic_load(cancel);
}

static uint64_t stop_of(const struct https_client_sink *s)
{
	return s->stop ? s->stop : s->size;
}

/* Whether what begins to come is as long as it must be. */
static enum err sink_begin(struct call *k)
{
	curl_off_t length = -1;
	k->sinking = true;
	k->whole = status_of(k) != 206;
	k->skip = k->whole ? k->sink->have : 0;
	curl_easy_getinfo(k->client->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	uint64_t expected = k->whole ? k->sink->size : stop_of(k->sink) - k->sink->have;
	if (length < 0 || (uint64_t)length == expected)
		return ERR_OK;
	return err_why(k->why, ERR_shape,
		"%s has %" PRIu64 " bytes more where %" PRIu64 " were announced", k->path,
		(uint64_t)length, expected);
}

static enum err sink_bytes(struct call *k, const char *bytes, size_t n)
{
	struct https_client_sink *s = k->sink;
	enum err e = k->sinking ? ERR_OK : sink_begin(k);
	if (e)
		return e;
	size_t again = n < k->skip ? n : (size_t)k->skip;
	k->skip -= again;
	bytes += again;
	n -= again;
	if (k->whole && n > stop_of(s) - s->have && stop_of(s) < s->size) {
		n = (size_t)(stop_of(s) - s->have);
		k->enough = true;
	}
	if (n > stop_of(s) - s->have)
		return err_why(k->why, ERR_shape,
			"%s is longer than the %" PRIu64 " bytes announced", k->path, s->size);
	if (n > 0)
		e = s->put(s->arg, bytes, n, k->why);
	if (e || n == 0)
		return e;
	s->have += n;
	if (s->progress)
		s->progress(s->arg, s->have, s->size);
	return ERR_OK;
}

static size_t on_bytes(char *bytes, size_t one, size_t n, void *arg)
{
	struct call *k = arg;
	n *= one;
	if (k->sink && status_of(k) < 300) {
		k->failed = sink_bytes(k, bytes, n);
	} else if (status_of(k) >= 300) {
		// Of a page that is somebody else's, the beginning is enough.
		size_t room = ERROR_BODY_MOST - k->body.len;
		buf_put(&k->body, bytes, n < room ? n : room);
		k->enough = n > room;
	} else {
		buf_put(&k->body, bytes, n);
		if (!buf_ok(&k->body))
			k->failed = err_why(k->why, ERR_toobig,
				"the reply to %s is larger than the %zu bytes allowed", k->path,
				k->body.max);
	}
	return k->failed || k->enough ? 0 : n;
}

static long ms(uint64_t ns)
{
	return (long)(ns / CLOCK_MS) + 1;
}

/* No proxy leads to this machine, whatever the environment says for the world outside. */
static bool is_here(const char *host)
{
	struct in_addr v4;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return strcmp(host, "::1") == 0 || strcasecmp(host, "localhost") == 0;
}

static void set_limits(CURL *curl, struct call *k)
{
	const struct https_client_config *c = &k->client->config;
	if (c->proxy)
		proxy_apply(c->proxy, curl);
	else if (is_here(c->host))
		curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, ms(c->connect_ns));
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, SPEED_LEAST);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, ms(c->stall_ns) / 1000 + 1);
	if (!k->sink)
		curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, ms(c->total_ns));
	curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(curl, CURLOPT_XFERINFODATA, k);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, k);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, k->client->detail);
}

static void set_trust(CURL *curl, const struct call *k)
{
	bool public_ca = k->trust == TRUST_public;
	// A proxy in front may be older than our own server.
	curl_easy_setopt(curl, CURLOPT_SSLVERSION,
		(long)(k->trust == TRUST_pin ? CURL_SSLVERSION_TLSv1_3 : CURL_SSLVERSION_TLSv1_2));
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, public_ca ? 1L : 0L);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, public_ca ? 2L : 0L);
	// A resumed session would show no certificate to look at.
	curl_easy_setopt(curl, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	if (k->trust == TRUST_pin)
		curl_easy_setopt(curl, CURLOPT_PINNEDPUBLICKEY, k->client->pin);
	if (public_ca && k->client->config.ca_file)
		curl_easy_setopt(curl, CURLOPT_CAINFO, k->client->config.ca_file);
	if (k->spki) {
		curl_easy_setopt(curl, CURLOPT_CERTINFO, 1L);
		curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
		curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
	}
}

static enum err read_spki(CURL *curl, struct hash *out)
{
	const struct curl_certinfo *info = NULL;
	curl_easy_getinfo(curl, CURLINFO_CERTINFO, &info);
	for (const struct curl_slist *l = info && info->num_of_certs > 0 ? info->certinfo[0] : NULL;
		l; l = l->next)
		if (strncmp(l->data, "Cert:", 5) == 0)
			return tls_spki_pem(l->data + 5, out);
	return ERR_syntax;
}

/* What came of a transfer. */
static enum err outcome(struct call *k, CURLcode code)
{
	struct https_client *c = k->client;
	struct https_fault f = {
		c->curl, code, c->detail, c->config.host, c->config.port, c->config.proxy};
	long status = status_of(k);
	if (k->failed)
		return k->failed;
	if (code == CURLE_ABORTED_BY_CALLBACK)
		return err_why(k->why, ERR_interrupted, "interrupted");
	if (code != CURLE_OK && !k->enough)
		return https_fault_explain(&f, k->why);
	if (k->spki && read_spki(c->curl, k->spki) != ERR_OK)
		return err_why(k->why, ERR_network,
			"%s port %u showed no certificate that can be read", c->config.host,
			c->config.port);
	if (status >= 300)
		return https_fault_status(&f, status, k->body.data, k->body.len, k->why);
	if (!k->sink && k->body.len > k->most)
		return err_why(k->why, ERR_toobig,
			"the reply to %s is larger than the %zu bytes allowed", k->path, k->most);
	if (k->sink && k->sink->have < stop_of(k->sink))
		return err_why(k->why, ERR_truncated,
			"%s ended after %" PRIu64 " of %" PRIu64 " bytes", k->path, k->sink->have,
			stop_of(k->sink));
	return ERR_OK;
}

/* k->body is the caller's to release in any case. */
static enum err perform(struct call *k)
{
	struct https_client *c = k->client;
	CURL *curl = c->curl;
	char range[48];
	char where[JOINLINK_HOST + 8];
	address_join(c->config.host, c->config.port, where, sizeof where);
	char *url = alloc_must_printf("https://%s%s", where, k->path);
	char *agent = alloc_must_printf("User-Agent: shoal/%s", version_text());
	struct curl_slist *headers = curl_slist_append(NULL, agent);
	curl_easy_reset(curl); // keeps the connections
	c->detail[0] = 0;
	// Not CURLOPT_RESUME_FROM, which gives up on servers that send the whole again.
	if (k->sink && k->sink->stop)
		snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, k->sink->have,
			k->sink->stop - 1);
	else
		snprintf(range, sizeof range, "%" PRIu64 "-", k->sink ? k->sink->have : 0);
	buf_init(&k->body, k->most < ERROR_BODY_MOST ? ERROR_BODY_MOST : k->most);
	set_limits(curl, k);
	set_trust(curl, k);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	if (k->post) {
		headers = curl_slist_append(headers, "Content-Type: application/json");
		headers = curl_slist_append(headers, "Expect:");
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, k->post);
	}
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	if (k->sink && (k->sink->have > 0 || k->sink->stop))
		curl_easy_setopt(curl, CURLOPT_RANGE, range);
	const CURLcode code = curl_easy_perform(curl);
	count_rest(k);
	enum err e = outcome(k, code);
	curl_slist_free_all(headers);
	free(agent);
	free(url);
	return e;
}

static enum err trusted(const struct https_client *c, struct why *why)
{
	if (c->trust != TRUST_nobody)
		return ERR_OK;
	return err_why(why, ERR_state, "the coordinator at %s port %u was not identified yet",
		c->config.host, c->config.port);
}

static enum err get(struct call *k, uint8_t **bytes, size_t *n)
{
	enum err e = perform(k);
	*bytes = NULL;
	*n = 0;
	if (!e) {
		k->body.max = SIZE_MAX / 2;
		buf_put_u8(&k->body, 0);
		*bytes = buf_steal(&k->body, n);
		e = *bytes ? ERR_OK : err_why(k->why, ERR_nomem, "out of memory");
		*n -= *bytes != NULL;
	}
	buf_release(&k->body);
	return e;
}

enum err https_client_get(struct https_client *c, const char *path, size_t most, uint8_t **bytes,
	size_t *n, struct why *why)
{
	struct call k = {.client = c, .trust = c->trust, .path = path, .most = most, .why = why};
	*bytes = NULL;
	*n = 0;
	enum err e = trusted(c, why);
	return e ? e : get(&k, bytes, n);
}

static enum err get_json(struct call *k, json_t **out)
{
	uint8_t *bytes = NULL;
	size_t n;
	*out = NULL;
	enum err e = trusted(k->client, k->why);
	if (!e)
		e = get(k, &bytes, &n);
	if (!e)
		e = json_parse(bytes, n, k->most, out, k->why);
	free(bytes);
	return e;
}

enum err https_client_get_json(
	struct https_client *c, const char *path, size_t most, json_t **out, struct why *why)
{
	struct call k = {.client = c, .trust = c->trust, .path = path, .most = most, .why = why};
	return get_json(&k, out);
}

enum err https_client_post_json(struct https_client *c, const char *path, const json_t *body,
	size_t most, json_t **out, struct why *why)
{
	struct call k = {.client = c, .trust = c->trust, .path = path, .most = most, .why = why};
	char *text = json_canonical(body);
	*out = NULL;
	if (!text)
		return err_why(why, ERR_nomem, "out of memory");
	k.post = text;
	enum err e = get_json(&k, out);
	free(text);
	return e;
}

enum err https_client_download(
	struct https_client *c, const char *path, struct https_client_sink *sink, struct why *why)
{
	struct call k = {.client = c, .trust = c->trust, .path = path, .sink = sink, .why = why};
	enum err e = trusted(c, why);
	if (e)
		return e;
	if (sink->have > sink->size)
		return err_why(why, ERR_shape, "more of %s is here than its %" PRIu64 " bytes",
			path, sink->size);
	if (sink->have >= stop_of(sink))
		return ERR_OK;
	e = perform(&k);
	buf_release(&k.body);
	return e;
}

void https_client_trust(struct https_client *c, const struct statement *s, bool public_ca)
{
	memcpy(c->pin, "sha256//", 8);
	EVP_EncodeBlock((unsigned char *)c->pin + 8, s->spki.b, sizeof s->spki.b);
	c->trust = public_ca ? TRUST_public : TRUST_pin;
}

bool https_client_public(const struct https_client *c)
{
	return c->trust == TRUST_public;
}

/* Fetch and check the statement; spki, when wanted, is that of whoever sent it. */
static enum err fetch_statement(
	struct call *k, const struct joinlink *l, uint64_t now_s, struct statement *out)
{
	struct statement expected = {.run = l->run, .key = l->key};
	uint8_t *bytes;
	size_t n;
	enum err e = get(k, &bytes, &n);
	if (e)
		return e;
	e = statement_open(bytes, n, &expected, now_s, out, k->why);
	free(bytes);
	if (e == ERR_signature)
		return err_why(k->why, e,
			"what answers at %s port %u does not hold the run key that the link names: "
			"it is another run's coordinator, or somebody stands in between",
			l->host, l->port);
	if (e == ERR_syntax || e == ERR_magic)
		return err_why(k->why, e,
			"what answers at %s port %u is no coordinator: is it another program's "
			"port?",
			l->host, l->port);
	return e;
}

enum err https_client_contact(struct https_client *c, const struct joinlink *l, uint64_t now_s,
	struct statement *out, struct why *why)
{
	struct hash spki;
	struct call k = {.client = c,
		.trust = TRUST_nobody,
		.path = STATEMENT_PATH,
		.most = STATEMENT_MAX,
		.spki = &spki,
		.why = why};
	enum err e = fetch_statement(&k, l, now_s, out);
	if (e)
		return e;
	if (hash_equal(&spki, &out->spki)) {
		https_client_trust(c, out, false);
		return ERR_OK;
	}
	struct call again = {.client = c,
		.trust = TRUST_public,
		.path = STATEMENT_PATH,
		.most = STATEMENT_MAX,
		.why = why};
	e = fetch_statement(&again, l, now_s, out);
	if (e == ERR_signature)
		return err_why(why, e,
			"somebody stands between this machine and %s port %u: the connection's key "
			"is not the one that the run key vouches for, nor is there a certificate "
			"that this system trusts; try another network, and tell the operator",
			l->host, l->port);
	if (!e)
		https_client_trust(c, out, true);
	return e;
}
