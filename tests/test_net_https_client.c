/* The HTTPS client against a real server and over a cut network.
 * SECURITY.md, invariants 5 and 6. */
#include "tests/help_https.h"
#include "tests/help_net.h"
#include "base/file.h"
#include "net/https_answer.h"
#include "net/https_client.h"
#include "net/https_reply.h"
#include "net/signed.h"

#define NOW 2000000000u
#define BIG ((size_t)5 << 20)

static char folder[64], big_path[96], cert_path[96];
static uint8_t *big;
static struct sign_key *run_key;
static struct help_https server;
static char *statement_text;
static struct statement genuine;

static void on_statement(void *arg, struct https_request *r)
{
	struct https_reply_content content = {.type = "application/json"};
	(void)arg;
	https_reply_bytes(r, &content, statement_text, strlen(statement_text));
}

static void on_echo(void *arg, struct https_request *r)
{
	struct why why = {0};
	json_t *doc;
	size_t n;
	const void *body = https_request_body(r, &n);
	(void)arg;
	if (json_parse(body, n, 1000, &doc, &why))
		https_reply_error(r, 0, &why);
	else
		https_reply_json(r, doc);
}

static void on_error(void *arg, struct https_request *r)
{
	struct why why;
	(void)arg;
	err_why(&why, ERR_invite, "the invite expired 3h ago");
	https_reply_error(r, 0, &why);
}

/* Somebody else's page for an error, longer than any that is read. */
static void on_page(void *arg, struct https_request *r)
{
	struct https_reply_content content = {.type = "text/html"};
	(void)arg;
	https_answer_headers(r, &content);
	struct evbuffer *body = evbuffer_new();
	evbuffer_add(body, big, 100000);
	https_answer_send(r, 502, body);
	evbuffer_free(body);
}

static void on_teapot(void *arg, struct https_request *r)
{
	struct why why = {.code = (enum err)999};
	(void)arg;
	snprintf(why.text, sizeof why.text, "a code of a later version");
	https_reply_error(r, 418, &why);
}

static void on_file(void *arg, struct https_request *r)
{
	struct https_reply_content content = {.type = "application/octet-stream"};
	(void)arg;
	https_reply_file(r, &content, big_path);
}

/* As a server or a cache that knows no ranges. */
static void on_whole(void *arg, struct https_request *r)
{
	struct https_reply_content content = {.type = "application/octet-stream"};
	(void)arg;
	https_reply_bytes(r, &content, big, BIG);
}

static void on_events(void *arg, struct https_request *r)
{
	(void)arg;
	sse_open(server.sse, r);
}

static const struct https_route routes[] = {
	{"GET", "/api/v1/statement", 0, on_statement},
	{"POST", "/echo", 1000, on_echo},
	{"GET", "/error", 0, on_error},
	{"GET", "/teapot", 0, on_teapot},
	{"GET", "/page", 0, on_page},
	{"GET", "/file", 0, on_file},
	{"GET", "/whole", 0, on_whole},
	{"GET", "/events", 0, on_events},
};

static struct hash run_id(uint8_t c)
{
	return hash_of(&c, 1);
}

static struct joinlink link_to(const char *host, uint16_t port)
{
	struct joinlink l = {.port = port, .run = run_id(1), .key = sign_public_of(run_key)};
	snprintf(l.host, sizeof l.host, "%s", host);
	return l;
}

static void make_statement(void)
{
	free(statement_text);
	statement_text = statement_make(&genuine, run_key);
}

static int start(void **state)
{
	(void)state;
	help_https_init(&server, routes, sizeof routes / sizeof routes[0], NULL);
	server.config.bind = "*:0";
	server.sse_config.ping_ns = 3600 * CLOCK_SECOND;
	genuine = (struct statement){.run = run_id(1),
		.spki = tls_spki(server.tls),
		.from_s = NOW - 1000,
		.to_s = NOW + 1000000};
	memset(genuine.curve, 5, sizeof genuine.curve);
	make_statement();
	help_https_start(&server);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	help_https_stop(&server);
	return 0;
}

static struct https_client *client_of(const struct https_client_config *c)
{
	struct https_client *out;
	struct why why = {0};
	if (https_client_new(c, &out, &why))
		fail_msg("%s", why.text);
	return out;
}

static struct https_client_config config_to(const char *host, uint16_t port)
{
	static struct joinlink l;
	struct https_client_config c;
	l = link_to(host, port);
	https_client_config_init(&c, &l);
	return c;
}

/* A client that knows the server already. */
static struct https_client *trusting(uint16_t port)
{
	struct https_client_config config = config_to("127.0.0.1", port);
	struct https_client *c = client_of(&config);
	https_client_trust(c, &genuine, false);
	return c;
}

static uint16_t port(void)
{
	return https_server_port(server.server);
}

static void says(const struct why *why, enum err code, const char *text)
{
	if (why->code != code || !strstr(why->text, text))
		fail_msg("%s is not in: %d %s", text, (int)why->code, why->text);
}

static void test_first_contact(void **state)
{
	struct https_client_config config = config_to("127.0.0.1", port());
	struct joinlink l = link_to("127.0.0.1", port());
	struct https_client *c = client_of(&config);
	struct statement s;
	struct why why = {0};
	uint8_t *bytes;
	size_t n;
	(void)state;
	assert_int_equal(https_client_get(c, "/file", BIG, &bytes, &n, &why), ERR_state);
	if (https_client_contact(c, &l, NOW, &s, &why))
		fail_msg("%s", why.text);
	assert_memory_equal(s.curve, genuine.curve, sizeof s.curve);
	assert_false(https_client_public(c));
	assert_int_equal(https_client_get(c, "/whole", BIG, &bytes, &n, &why), ERR_OK);
	assert_int_equal(n, BIG);
	assert_memory_equal(bytes, big, BIG);
	free(bytes);
	https_client_free(c);
}

static void contact_fails(const struct joinlink *l, uint64_t now, enum err code, const char *text)
{
	struct https_client_config config = config_to("127.0.0.1", port());
	struct https_client *c = client_of(&config);
	struct statement s;
	struct why why = {0};
	uint8_t *bytes;
	size_t n;
	assert_int_equal(https_client_contact(c, l, now, &s, &why), code);
	says(&why, code, text);
	// Nothing is trusted after that.
	assert_int_equal(https_client_get(c, "/file", BIG, &bytes, &n, &why), ERR_state);
	https_client_free(c);
}

static void test_contact_with_somebody_else(void **state)
{
	struct joinlink l = link_to("127.0.0.1", port()), other = l;
	struct sign_key *stranger = sign_make();
	(void)state;
	other.key = sign_public_of(stranger);
	sign_free(stranger);
	contact_fails(&other, NOW, ERR_signature, "does not hold the run key");
	other = l;
	other.run = run_id(2);
	contact_fails(&other, NOW, ERR_wrong_run, "another run");
	contact_fails(&l, NOW - 90000, ERR_range, "set it");
	contact_fails(&l, NOW + 1100000, ERR_range, "ended");
	statement_text[12] ^= 1;
	contact_fails(&l, NOW, ERR_signature, "run key");
	snprintf(statement_text, 20, "<html>hello</html>");
	contact_fails(&l, NOW, ERR_syntax, "no coordinator");
}

static void test_somebody_in_between(void **state)
{
	struct joinlink l = link_to("127.0.0.1", port());
	(void)state;
	genuine.spki = run_id(9); // the true coordinator's, whose statement is passed on
	make_statement();
	contact_fails(&l, NOW, ERR_signature, "stands between this machine and 127.0.0.1");
}

static void test_proxy_with_a_public_certificate(void **state)
{
	struct https_client_config config = config_to("localhost", port());
	struct joinlink l = link_to("localhost", port());
	struct statement s;
	struct why why = {0};
	json_t *in = json_pack("{s:i}", "x", 1), *out;
	(void)state;
	genuine.spki = run_id(9);
	make_statement();
	config.ca_file = cert_path;
	char *pem = tls_cert_pem(server.tls);
	assert_int_equal(file_write(cert_path, pem, strlen(pem), 0644, &why), ERR_OK);
	free(pem);
	struct https_client *c = client_of(&config);
	if (https_client_contact(c, &l, NOW, &s, &why))
		fail_msg("%s", why.text);
	assert_true(https_client_public(c));
	assert_int_equal(https_client_post_json(c, "/echo", in, 100, &out, &why), ERR_OK);
	assert_true(json_equal(in, out));
	json_decref(out);
	https_client_free(c);
	// The certificate must be for the name that was asked for.
	config.host = "127.0.0.2";
	c = client_of(&config);
	https_client_trust(c, &genuine, true);
	assert_int_equal(https_client_post_json(c, "/echo", in, 100, &out, &why), ERR_signature);
	https_client_free(c);
	json_decref(in);
}

static void test_another_key_later(void **state)
{
	struct why why = {0};
	json_t *out;
	(void)state;
	genuine.spki = run_id(9);
	struct https_client *c = trusting(port());
	assert_int_equal(https_client_get_json(c, "/error", 100, &out, &why), ERR_signature);
	says(&why, ERR_signature, "another key");
	https_client_free(c);
}

static void test_json(void **state)
{
	struct why why = {0};
	json_t *in = json_pack("{s:s, s:[i,i]}", "name", "x y", "list", 1, 2), *out;
	struct https_client *c = trusting(port());
	(void)state;
	assert_int_equal(https_client_post_json(c, "/echo", in, 100, &out, &why), ERR_OK);
	assert_true(json_equal(in, out));
	json_decref(out);
	assert_int_equal(https_client_post_json(c, "/echo", in, 10, &out, &why), ERR_toobig);
	says(&why, ERR_toobig, "10 bytes");
	assert_int_equal(https_client_get_json(c, "/error", 100, &out, &why), ERR_invite);
	says(&why, ERR_invite, "the invite expired 3h ago");
	assert_null(out);
	assert_int_equal(https_client_get_json(c, "/teapot", 100, &out, &why), ERR_refused);
	says(&why, ERR_refused, "a code of a later version");
	assert_int_equal(https_client_get_json(c, "/page", 100, &out, &why), ERR_network);
	says(&why, ERR_network, "HTTP status 502");
	assert_int_equal(https_client_get_json(c, "/nothing", 100, &out, &why), ERR_missing);
	assert_int_equal(https_client_get_json(c, "/whole", BIG - 1, &out, &why), ERR_toobig);
	assert_int_equal(https_client_get_json(c, "/whole", BIG, &out, &why), ERR_truncated);
	json_decref(in);
	https_client_free(c);
}

/* ---- downloads */
struct file {
	uint8_t *bytes;
	size_t n, fail_at;
	uint64_t last_progress;
};

static enum err put(void *arg, const void *bytes, size_t n, struct why *why)
{
	struct file *f = arg;
	if (f->n + n > f->fail_at)
		return err_why(why, ERR_full, "no space left");
	memcpy(f->bytes + f->n, bytes, n);
	f->n += n;
	return ERR_OK;
}

static void progress(void *arg, uint64_t have, uint64_t size)
{
	struct file *f = arg;
	assert_true(have > f->last_progress && have <= size);
	f->last_progress = have;
}

static void file_init(struct file *f, struct https_client_sink *s)
{
	*f = (struct file){.bytes = alloc_must(BIG), .fail_at = BIG};
	*s = (struct https_client_sink){.arg = f, .size = BIG, .put = put, .progress = progress};
}

static void resume(const char *path)
{
	struct https_client *c = trusting(port());
	struct https_client_sink s;
	struct file f;
	struct why why = {0};
	file_init(&f, &s);
	f.fail_at = BIG / 3;
	assert_int_equal(https_client_download(c, path, &s, &why), ERR_full);
	says(&why, ERR_full, "no space left");
	assert_int_equal(s.have, f.n);
	assert_true(f.n > 0);
	f.fail_at = BIG;
	assert_int_equal(https_client_download(c, path, &s, &why), ERR_OK);
	assert_int_equal(f.n, BIG);
	assert_int_equal(f.last_progress, BIG);
	assert_memory_equal(f.bytes, big, BIG);
	assert_int_equal(https_client_download(c, path, &s, &why), ERR_OK); // nothing to do
	free(f.bytes);
	https_client_free(c);
}

static void test_download_goes_on(void **state)
{
	(void)state;
	resume("/file");
	resume("/whole");
}

/* Only a part is wanted, also of a server that sends the whole. */
static void part(const char *path)
{
	struct https_client *c = trusting(port());
	struct https_client_sink s;
	struct file f;
	struct why why = {0};
	const uint64_t from = BIG / 4, to = BIG / 2 + 3;
	file_init(&f, &s);
	s.have = from;
	s.stop = to;
	assert_int_equal(https_client_download(c, path, &s, &why), ERR_OK);
	assert_int_equal(s.have, to);
	assert_int_equal(f.n, to - from);
	assert_memory_equal(f.bytes, big + from, to - from);
	assert_int_equal(https_client_download(c, path, &s, &why), ERR_OK); // nothing to do
	assert_int_equal(f.n, to - from);
	s.stop = BIG;
	f.n = 0;
	assert_int_equal(https_client_download(c, path, &s, &why), ERR_OK);
	assert_memory_equal(f.bytes, big + to, BIG - to);
	free(f.bytes);
	https_client_free(c);
}

static void test_download_of_a_part(void **state)
{
	(void)state;
	part("/file");
	part("/whole");
}

static void test_download_over_a_cut_line(void **state)
{
	uint16_t relay_port;
	struct help_net_relay *relay = help_net_relay_new(port(), &relay_port);
	struct https_client *c = trusting(relay_port);
	struct https_client_sink s;
	struct file f;
	struct why why = {0};
	(void)state;
	file_init(&f, &s);
	for (int i = 0; i < 2; i++) {
		uint64_t had = s.have;
		help_net_relay_cut_after(relay, 1500000);
		assert_int_equal(https_client_download(c, "/file", &s, &why), ERR_network);
		assert_true(s.have > had && s.have < BIG);
	}
	assert_int_equal(https_client_download(c, "/file", &s, &why), ERR_OK);
	assert_memory_equal(f.bytes, big, BIG);
	free(f.bytes);
	https_client_free(c);
	help_net_relay_free(relay);
}

static void test_download_of_another_size(void **state)
{
	struct https_client *c = trusting(port());
	struct https_client_sink s;
	struct file f;
	struct why why = {0};
	(void)state;
	for (int i = 0; i < 4; i++) {
		file_init(&f, &s);
		s.size = i % 2 ? BIG - 1 : BIG + 1;
		s.have = i / 2 ? BIG - 2 : 0;
		assert_int_equal(https_client_download(c, "/file", &s, &why), ERR_shape);
		assert_int_equal(f.n, 0);
		free(f.bytes);
	}
	file_init(&f, &s);
	s.have = BIG + 5;
	assert_int_equal(https_client_download(c, "/file", &s, &why), ERR_shape);
	s.size = BIG + 10;
	assert_int_equal(https_client_download(c, "/file", &s, &why), ERR_range); // 416
	s.have = 0;
	assert_int_equal(https_client_download(c, "/nothing", &s, &why), ERR_missing);
	free(f.bytes);
	https_client_free(c);
}

/* ---- limits and patience */
static void test_too_many_requests(void **state)
{
	struct why why = {0};
	json_t *out;
	(void)state;
	stop(NULL);
	help_https_init(&server, routes, sizeof routes / sizeof routes[0], NULL);
	server.config.per_s = server.config.burst = 1;
	server.config.connections_each = 1;
	genuine.spki = tls_spki(server.tls);
	help_https_start(&server);
	struct https_client *c = trusting(port());
	assert_int_equal(https_client_get_json(c, "/nothing", 100, &out, &why), ERR_missing);
	for (int i = 0; i < 100 && why.code != ERR_busy; i++)
		assert_int_not_equal(https_client_get_json(c, "/nothing", 100, &out, &why), ERR_OK);
	says(&why, ERR_busy, "too many requests");
	struct https_client *second = trusting(port());
	assert_int_equal(https_client_get_json(second, "/nothing", 100, &out, &why), ERR_busy);
	says(&why, ERR_busy, "no more connections");
	https_client_free(second);
	https_client_free(c);
}

static void *cancel_when_watching(void *arg)
{
	help_https_await(&server.watching, 1);
	atomic_store((atomic_bool *)arg, true);
	return NULL;
}

static void test_cancel_and_stall(void **state)
{
	struct https_client_config config = config_to("127.0.0.1", port());
	struct why why = {0};
	atomic_bool cancel = false;
	pthread_t thread;
	uint8_t *bytes;
	size_t n;
	(void)state;
	config.cancel = &cancel;
	struct https_client *c = client_of(&config);
	https_client_trust(c, &genuine, false);
	assert_int_equal(pthread_create(&thread, NULL, cancel_when_watching, &cancel), 0);
	assert_int_equal(https_client_get(c, "/events", 100, &bytes, &n, &why), ERR_interrupted);
	assert_null(bytes);
	pthread_join(thread, NULL);
	https_client_free(c);
	config.cancel = NULL;
	config.total_ns = CLOCK_SECOND;
	c = client_of(&config);
	https_client_trust(c, &genuine, false);
	assert_int_equal(https_client_get(c, "/events", 100, &bytes, &n, &why), ERR_timeout);
	says(&why, ERR_timeout, "in the middle of a reply");
	https_client_free(c);
}

static int setup(void **state)
{
	struct why why;
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/shoal-client.XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(big_path, sizeof big_path, "%s/big", folder);
	snprintf(cert_path, sizeof cert_path, "%s/cert", folder);
	big = alloc_must(BIG);
	for (size_t i = 0; i < BIG; i++)
		big[i] = (uint8_t)(i * 2654435761u >> 13);
	run_key = sign_make();
	setenv("https_proxy", "http://127.0.0.1:1", 1); // for the world outside, not for loopback
	return file_write(big_path, big, BIG, 0600, &why);
}

static int teardown(void **state)
{
	(void)state;
	sign_free(run_key);
	free(statement_text);
	free(big);
	unlink(big_path);
	unlink(cert_path);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first_contact, start, stop),
		cmocka_unit_test_setup_teardown(test_contact_with_somebody_else, start, stop),
		cmocka_unit_test_setup_teardown(test_somebody_in_between, start, stop),
		cmocka_unit_test_setup_teardown(test_proxy_with_a_public_certificate, start, stop),
		cmocka_unit_test_setup_teardown(test_another_key_later, start, stop),
		cmocka_unit_test_setup_teardown(test_json, start, stop),
		cmocka_unit_test_setup_teardown(test_download_goes_on, start, stop),
		cmocka_unit_test_setup_teardown(test_download_of_a_part, start, stop),
		cmocka_unit_test_setup_teardown(test_download_over_a_cut_line, start, stop),
		cmocka_unit_test_setup_teardown(test_download_of_another_size, start, stop),
		cmocka_unit_test_setup_teardown(test_too_many_requests, start, stop),
		cmocka_unit_test_setup_teardown(test_cancel_and_stall, start, stop),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
