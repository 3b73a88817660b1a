/* The HTTPS server as a hostile or slow or plain client sees it: what it answers, what it bounds.
 * SECURITY.md, invariants 12 to 14 and 16. */
#include "tests/help_https.h"
#include <fcntl.h>
#include "base/json.h"
#include "net/https_reply.h"

#define BIG ((size_t)3 << 20)
#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

static char folder[64], big_path[96], empty_path[96];
static struct help_https server;

static void on_hello(void *arg, struct https_request *r)
{
	const char *name = https_request_query(r, "name");
	uint64_t n = 7;
	bool good = https_request_number(r, "n", 1000, &n);
	assert_ptr_equal(arg, &server);
	assert_string_equal(https_request_address(r), "127.0.0.1");
	https_reply_json(r, json_pack("{s:s, s:s, s:b, s:I}", "path", https_request_path(r), "name",
				    name ? name : "-", "good", good, "n", (json_int_t)n));
}

static void on_echo(void *arg, struct https_request *r)
{
	size_t n;
	const void *body = https_request_body(r, &n);
	struct https_reply_content content = {.type = "text/plain", .cache = "max-age=5"};
	(void)arg;
	https_reply_bytes(r, &content, body, n);
}

static void on_secret(void *arg, struct https_request *r)
{
	struct why why;
	(void)arg;
	if (https_request_bearer(r, "open sesame")) {
		https_reply_json(r, json_pack("{s:b}", "open", 1));
		return;
	}
	err_why(&why, ERR_permission, "this needs the operator's token");
	https_reply_error(r, 0, &why);
}

static void on_file(void *arg, struct https_request *r)
{
	struct https_reply_content content = {
		.type = "application/octet-stream", .cache = HTTPS_REPLY_FOR_EVER};
	char path[200];
	(void)arg;
	snprintf(path, sizeof path, "%s/%.60s", folder, https_request_rest(r));
	https_reply_file(r, &content, path);
}

static void on_mute(void *arg, struct https_request *r)
{
	(void)arg, (void)r;
}

static void on_events(void *arg, struct https_request *r)
{
	(void)arg;
	sse_open(server.sse, r);
}

static const struct https_route routes[] = {
	{"GET", "/hello", 0, on_hello},
	{"POST", "/echo", 1000, on_echo},
	{"GET", "/secret", 0, on_secret},
	{"GET", "/file/*", 0, on_file},
	{"GET", "/mute", 0, on_mute},
	{"GET", "/events", 0, on_events},
};

static void init(void)
{
	help_https_init(&server, routes, sizeof routes / sizeof routes[0], &server);
}

static int start(void **state)
{
	(void)state;
	init();
	help_https_start(&server);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	help_https_stop(&server);
	return 0;
}

static void expect(const char *request, const char *const *parts)
{
	char *reply = help_https_ask(&server, request);
	for (; *parts; parts++)
		if (!strstr(reply, *parts))
			fail_msg(
				"no \"%s\" in the reply to %.80s:\n%.600s", *parts, request, reply);
	free(reply);
}
#define EXPECT(request, ...) expect(request, (const char *const[]){__VA_ARGS__, NULL})

static void test_answers(void **state)
{
	(void)state;
	EXPECT(GET("/hello"), "HTTP/1.1 200 OK\r\n", "Content-Type: application/json\r\n",
		"{\"good\":true,\"n\":7,\"name\":\"-\",\"path\":\"/hello\"}");
	EXPECT(GET("/hello?name=a%20b&n=12"), "\"name\":\"a b\"", "\"n\":12");
	EXPECT(GET("/hello?n=1001"), "\"good\":false");
	EXPECT(GET("/hello?n=-1"), "\"good\":false");
	EXPECT(GET("/hello?n="), "\"good\":false");
	EXPECT(GET("/hello?n=99999999999999999999"), "\"good\":false");
	EXPECT("POST /echo HTTP/1.1\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhallo",
		"Cache-Control: max-age=5\r\n", "\r\n\r\nhallo");
	EXPECT("POST /echo HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
	       "3\r\nhal\r\n2\r\nlo\r\n0\r\n\r\n",
		"\r\n\r\nhallo");
	EXPECT("HEAD /hello HTTP/1.1\r\nConnection: close\r\n\r\n", "200 OK",
		"Content-Length: 46\r\n");
	EXPECT("HEAD /echo HTTP/1.1\r\nConnection: close\r\n\r\n", " 405 ");
	EXPECT(GET("/mute"), " 500 ", "\"name\":\"state\"");
}

static void test_two_on_one_connection(void **state)
{
	struct help_https_raw r;
	(void)state;
	assert_true(help_https_raw_open(&r, https_server_port(server.server), TLS1_3_VERSION));
	help_https_raw_write(&r, "GET /hello?name=one HTTP/1.1\r\n\r\n"
				 "HEAD /hello HTTP/1.1\r\n\r\n" GET("/hello?name=two"));
	char *reply = help_https_raw_read(&r, NULL);
	assert_non_null(strstr(reply, "\"one\""));
	assert_non_null(strstr(reply, "\"two\""));
	free(reply);
	help_https_raw_close(&r);
}

static void test_security_headers_are_on_every_reply(void **state)
{
	static const char *const requests[] = {GET("/hello"), GET("/nothing"), GET("/file/big"),
		GET("/file/none"), "HEAD /file/big HTTP/1.1\r\nConnection: close\r\n\r\n",
		"GET /file/big HTTP/1.1\r\nConnection: close\r\nRange: bytes=9999999-\r\n\r\n",
		"DELETE /hello HTTP/1.1\r\nConnection: close\r\n\r\n"};
	(void)state;
	for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
		EXPECT(requests[i], "Content-Security-Policy: default-src 'self'; ",
			"frame-ancestors 'none'", "X-Content-Type-Options: nosniff\r\n",
			"Referrer-Policy: no-referrer\r\n");
}

static void test_wrong_requests(void **state)
{
	char long_line[40000];
	(void)state;
	EXPECT(GET("/nothing"), " 404 ", "{\"code\":4,\"name\":\"missing\",\"text\":");
	EXPECT(GET("/hello/"), " 404 ");
	EXPECT("POST /hello HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", " 405 ",
		"Allow: GET\r\n");
	EXPECT("PUT /echo HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", " 405 ",
		"Allow: POST\r\n");
	EXPECT("GET /hello HTTP/1.1\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", " 413 ");
	EXPECT("POST /echo HTTP/1.1\r\nConnection: close\r\nContent-Length: 5\r\n"
	       "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		" 400 "); // by evhttp itself where it is patched
	EXPECT("POST /echo HTTP/1.1\r\nConnection: close\r\n"
	       "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		" 200 ");
	EXPECT(GET("/hello%00x"), " 400 ");
	EXPECT("FROB /hello HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 501 ");
	EXPECT("POST /echo HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", " 413 ");
	EXPECT("POST /echo HTTP/1.1\r\nContent-Length: -5\r\n\r\n", " 400 ");
	memset(long_line, 'a', sizeof long_line);
	memcpy(long_line, "GET /", 5);
	long_line[sizeof long_line - 1] = 0;
	EXPECT(long_line, " 400 ");
	char *reply = help_https_ask(&server, "not http at all\r\n\r\n");
	assert_null(strstr(reply, " 200 "));
	free(reply);
}

static void test_body_limit_of_a_route(void **state)
{
	char request[1200];
	(void)state;
	int n = snprintf(request, sizeof request,
		"POST /echo HTTP/1.1\r\nConnection: close\r\nContent-Length: 1001\r\n\r\n");
	memset(request + n, 'x', 1001);
	request[n + 1001] = 0;
	EXPECT(request, " 413 ", "larger than this path takes");
}

static void test_bearer(void **state)
{
	(void)state;
	EXPECT(GET("/secret"), " 403 ", "operator's token");
	EXPECT("GET /secret HTTP/1.1\r\nConnection: close\r\nAuthorization: Bearer open\r\n\r\n",
		" 403 ");
	EXPECT("GET /secret HTTP/1.1\r\nConnection: close\r\nAuthorization: open sesame\r\n\r\n",
		" 403 ");
	EXPECT("GET /secret HTTP/1.1\r\nConnection: close\r\n"
	       "Authorization: bearer open sesame\r\n\r\n",
		"{\"open\":true}");
}

static char *get_range(const char *path, const char *range)
{
	char request[300];
	snprintf(request, sizeof request,
		"GET %s HTTP/1.1\r\nConnection: close\r\nRange: %s\r\n\r\n", path, range);
	return help_https_ask(&server, request);
}

static void expect_range(const char *range, const char *head, size_t from, size_t n)
{
	char *reply = get_range("/file/big", range);
	char *body = strstr(reply, "\r\n\r\n");
	assert_non_null(body);
	if (!strstr(reply, head))
		fail_msg("no %s for %s:\n%.500s", head, range, reply);
	assert_int_equal(strlen(body + 4), n);
	for (size_t i = 0; i < n; i++)
		if (body[4 + i] != (char)('a' + (from + i) % 23))
			fail_msg("%s: wrong byte %zu", range, i);
	free(reply);
}

static void test_files_and_ranges(void **state)
{
	(void)state;
	expect_range("lines=1-2", " 200 OK\r\n", 0, BIG);
	expect_range("bytes=0-", "Content-Range: bytes 0-3145727/3145728\r\n", 0, BIG);
	expect_range("bytes=5-9", "Content-Range: bytes 5-9/3145728\r\n", 5, 5);
	expect_range("bytes=3145720-9999999999999999999999", " 206 ", BIG - 8, 8);
	expect_range("bytes=-3", "Content-Range: bytes 3145725-3145727/3145728\r\n", BIG - 3, 3);
	expect_range("bytes=-99999999", " 206 ", 0, BIG);
	expect_range("bytes=1-2,5-6", " 200 OK\r\n", 0, BIG);
	EXPECT("GET /file/big HTTP/1.1\r\nConnection: close\r\nRange: bytes=3145728-\r\n\r\n",
		" 416 ", "Content-Range: bytes */3145728\r\n", "\"name\":\"range\"");
	EXPECT("HEAD /file/big HTTP/1.1\r\nConnection: close\r\n\r\n", " 200 ",
		"Content-Length: 3145728\r\n", "Accept-Ranges: bytes\r\n", "immutable");
	EXPECT(GET("/file/empty"), " 200 ", "Content-Length: 0\r\n");
	EXPECT(GET("/file/none"), " 404 ", "\"name\":\"missing\"");
	EXPECT(GET("/file/"), " 404 ");
}

static void test_old_tls_is_refused(void **state)
{
	struct help_https_raw r;
	(void)state;
	assert_false(help_https_raw_open(&r, https_server_port(server.server), TLS1_2_VERSION));
	help_https_raw_close(&r);
}

static void test_slow_clients_are_cut(void **state)
{
	struct help_https_raw half, lazy, endless;
	char byte, digits[1 << 16];
	(void)state;
	init();
	server.config.request_ns = server.config.reply_ns = 700 * CLOCK_MS;
	help_https_start(&server);
	uint16_t port = https_server_port(server.server);
	int silent = help_https_connect(port);
	assert_int_equal(read(silent, &byte, 1), 0); // no byte of a handshake
	assert_true(help_https_raw_open(&half, port, TLS1_3_VERSION));
	help_https_raw_write(&half, "GET /hello HT");
	char *text = help_https_raw_read(&half, NULL); // half a request
	assert_string_equal(text, "");
	free(text);
	assert_true(help_https_raw_open(&lazy, port, TLS1_3_VERSION));
	help_https_raw_write(&lazy, "GET /file/huge HTTP/1.1\r\n\r\n");
	help_https_await(&server.cut, 3); // a reply that is not read
	// A chunk's length without end, of which only so much is kept.
	assert_true(help_https_raw_open(&endless, port, TLS1_3_VERSION));
	help_https_raw_write(&endless, "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
	memset(digits, '0', sizeof digits - 1);
	digits[sizeof digits - 1] = 0;
	help_https_raw_write(&endless, digits);
	help_https_await(&server.cut, 4);
	help_https_await(&server.connections, 0);
	close(silent);
	help_https_raw_close(&half);
	help_https_raw_close(&lazy);
	help_https_raw_close(&endless);
	help_https_stop(&server);
}

static void test_rate_of_an_address(void **state)
{
	struct help_https_raw r;
	(void)state;
	init();
	server.config.per_s = 1;
	server.config.burst = 3;
	help_https_start(&server);
	assert_true(help_https_raw_open(&r, https_server_port(server.server), TLS1_3_VERSION));
	// All at once, so that no machine is so slow that they are within the rate.
	help_https_raw_write(&r, "GET /hello HTTP/1.1\r\n\r\nGET /hello HTTP/1.1\r\n\r\n"
				 "GET /hello HTTP/1.1\r\n\r\nGET /hello HTTP/1.1\r\n\r\n"
				 "GET /hello HTTP/1.1\r\n\r\nGET /hello HTTP/1.1\r\n\r\n"
				 "GET /hello HTTP/1.1\r\n\r\n" GET("/hello"));
	char *reply = help_https_raw_read(&r, NULL);
	assert_non_null(strstr(reply, " 200 "));
	assert_non_null(strstr(reply, " 429 "));
	assert_non_null(strstr(reply, "Retry-After: 2\r\n"));
	assert_non_null(strstr(reply, "\"name\":\"busy\""));
	free(reply);
	help_https_raw_close(&r);
	help_https_await(&server.refused_rate, 1);
	help_https_stop(&server);
}

static void test_connections_of_an_address(void **state)
{
	struct help_https_raw r[3], more;
	int silent[2];
	char byte;
	(void)state;
	init();
	server.config.connections_each = 3;
	help_https_start(&server);
	uint16_t port = https_server_port(server.server);
	for (int i = 0; i < 3; i++)
		assert_true(help_https_raw_open(&r[i], port, TLS1_3_VERSION));
	assert_false(help_https_raw_open(&more, port, TLS1_3_VERSION));
	help_https_raw_close(&more);
	silent[0] = help_https_connect(port);
	silent[1] = help_https_connect(port);
	assert_int_equal(read(silent[0], &byte, 1), 0);
	assert_int_equal(read(silent[1], &byte, 1), 0);
	close(silent[0]);
	close(silent[1]);
	for (int i = 0; i < 3; i++)
		help_https_raw_close(&r[i]);
	help_https_await(&server.connections, 0);
	EXPECT(GET("/hello"), " 200 ");
	help_https_stop(&server);
}

static void test_connections_in_all(void **state)
{
	struct help_https_raw r[3];
	(void)state;
	init();
	server.config.connections_most = 3;
	help_https_start(&server);
	uint16_t port = https_server_port(server.server);
	for (int i = 0; i < 3; i++)
		assert_true(help_https_raw_open(&r[i], port, TLS1_3_VERSION));
	int waiting = help_https_connect(port); // in the kernel's queue
	for (int i = 0; i < 3; i++)
		help_https_raw_close(&r[i]);
	close(waiting);
	EXPECT(GET("/hello"), " 200 ");
	help_https_stop(&server);
}

static void stop_with_open_streams(bool keep_sse)
{
	struct help_https_raw r[2];
	init();
	server.keep_sse = keep_sse;
	help_https_start(&server);
	uint16_t port = https_server_port(server.server);
	for (int i = 0; i < 2; i++) {
		assert_true(help_https_raw_open(&r[i], port, TLS1_3_VERSION));
		help_https_raw_write(&r[i],
			i ? "GET /events HTTP/1.1\r\n\r\n" : "GET /file/huge HTTP/1.1\r\n\r\n");
	}
	help_https_await(&server.watching, 1);
	help_https_stop(&server);
	for (int i = 0; i < 2; i++)
		help_https_raw_close(&r[i]);
}

static void test_stop_with_open_streams(void **state)
{
	(void)state;
	stop_with_open_streams(false);
	stop_with_open_streams(true);
}

static void refuse_bind(const char *bind, enum err code, const char *says)
{
	struct why why = {0};
	struct https_server *s;
	struct https_server_config c = server.config;
	struct event_base *base = event_base_new();
	c.bind = bind;
	assert_int_equal(https_server_new(base, &c, &s, &why), code);
	assert_null(s);
	if (!strstr(why.text, says))
		fail_msg("%s: %s", bind, why.text);
	event_base_free(base);
}

static void test_where_it_cannot_listen(void **state)
{
	char taken[40];
	uint16_t port = https_server_port(server.server);
	(void)state;
	snprintf(taken, sizeof taken, "127.0.0.1:%u", port);
	refuse_bind(taken, ERR_busy, strchr(taken, ':') + 1);
	refuse_bind(taken, ERR_busy, "choose another port");
	refuse_bind("127.0.0.1", ERR_syntax, "HOST:PORT");
	refuse_bind("127.0.0.1:", ERR_syntax, "HOST:PORT");
	refuse_bind("127.0.0.1:65536", ERR_syntax, "65535");
	refuse_bind("::1:80", ERR_syntax, "[IPv6]:PORT");
	refuse_bind(":80", ERR_syntax, "HOST:PORT");
	refuse_bind("192.0.2.1:0", ERR_network, "no address of this machine");
	refuse_bind("no.such.name.invalid:0", ERR_network, "no.such.name.invalid");
}

static void test_every_address(void **state)
{
	(void)state;
	init();
	server.config.bind = "*:0";
	help_https_start(&server);
	assert_int_not_equal(https_server_port(server.server), 0);
	EXPECT(GET("/hello"), " 200 "); // IPv4, whose address is shown as such
	help_https_stop(&server);
}

static void write_file(const char *path, size_t n)
{
	FILE *f = fopen(path, "we");
	for (size_t i = 0; i < n; i++)
		putc((int)('a' + i % 23), f);
	assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
	char huge[96];
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/shoal-https.XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(big_path, sizeof big_path, "%s/big", folder);
	snprintf(empty_path, sizeof empty_path, "%s/empty", folder);
	snprintf(huge, sizeof huge, "%s/huge", folder);
	write_file(big_path, BIG);
	write_file(empty_path, 0);
	write_file(huge, 0);
	return truncate(huge, 64 << 20); // more than the kernel's buffers take
}

static int teardown(void **state)
{
	char huge[96];
	(void)state;
	snprintf(huge, sizeof huge, "%s/huge", folder);
	unlink(huge);
	unlink(big_path);
	unlink(empty_path);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers, start, stop),
		cmocka_unit_test_setup_teardown(test_two_on_one_connection, start, stop),
		cmocka_unit_test_setup_teardown(
			test_security_headers_are_on_every_reply, start, stop),
		cmocka_unit_test_setup_teardown(test_wrong_requests, start, stop),
		cmocka_unit_test_setup_teardown(test_body_limit_of_a_route, start, stop),
		cmocka_unit_test_setup_teardown(test_bearer, start, stop),
		cmocka_unit_test_setup_teardown(test_files_and_ranges, start, stop),
		cmocka_unit_test_setup_teardown(test_old_tls_is_refused, start, stop),
		cmocka_unit_test(test_slow_clients_are_cut),
		cmocka_unit_test(test_rate_of_an_address),
		cmocka_unit_test(test_connections_of_an_address),
		cmocka_unit_test(test_connections_in_all),
		cmocka_unit_test(test_stop_with_open_streams),
		cmocka_unit_test_setup_teardown(test_where_it_cannot_listen, start, stop),
		cmocka_unit_test(test_every_address),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
