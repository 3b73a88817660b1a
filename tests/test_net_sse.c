/* Server-sent events: what watchers get, catch up, and what becomes of too many and of slow ones.
 */
#include "tests/help_https.h"

#define WATCH "GET /events HTTP/1.1\r\n"

static struct help_https server;

static void on_events(void *arg, struct https_request *r)
{
	(void)arg;
	sse_open(server.sse, r);
}

static const struct https_route routes[] = {{"GET", "/events", 0, on_events}};

static int start(void **state)
{
	(void)state;
	help_https_init(&server, routes, 1, NULL);
	help_https_start(&server);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	help_https_stop(&server);
	return 0;
}

/* A watcher who has got the first lines. */
static void watch(struct help_https_raw *r, const char *request)
{
	assert_true(help_https_raw_open(r, https_server_port(server.server), TLS1_3_VERSION));
	help_https_raw_write(r, request);
	free(help_https_raw_read(r, "retry: 2000"));
}

static void test_events(void **state)
{
	struct help_https_raw r;
	(void)state;
	watch(&r, WATCH "\r\n");
	help_https_await(&server.watching, 1);
	help_https_event(&server, 41, "one\ntwo", 0);
	char *text = help_https_raw_read(&r, "two\n\n");
	assert_non_null(strstr(text, "id: 41\nevent: news\ndata: one\ndata: two\n\n"));
	free(text);
	help_https_raw_close(&r);
	help_https_await(&server.watching, 0); // its end is noticed although nothing is sent
	text = help_https_ask(&server, "HEAD /events HTTP/1.1\r\nConnection: close\r\n\r\n");
	assert_non_null(strstr(text, "text/event-stream"));
	free(text);
}

static void on_arrived(void *arg, struct sse_client *c, const uint64_t *last)
{
	(void)arg;
	for (uint64_t id = last ? *last + 1 : 100; id <= 100; id++)
		sse_tell(c, id, last ? "missed" : "first", "{}");
}

static void test_events_are_caught_up(void **state)
{
	struct help_https_raw r;
	(void)state;
	help_https_init(&server, routes, 1, NULL);
	server.sse_config.arrived = on_arrived;
	help_https_start(&server);
	assert_true(help_https_raw_open(&r, https_server_port(server.server), TLS1_3_VERSION));
	help_https_raw_write(&r, WATCH "Last-Event-ID: 98\r\n\r\n");
	char *text = help_https_raw_read(&r, "id: 100");
	assert_non_null(strstr(text, "id: 99\nevent: missed"));
	assert_null(strstr(text, "id: 98"));
	free(text);
	help_https_raw_close(&r);
	assert_true(help_https_raw_open(&r, https_server_port(server.server), TLS1_3_VERSION));
	help_https_raw_write(&r, WATCH "Last-Event-ID: 98x\r\n\r\n");
	text = help_https_raw_read(&r, "id: 100");
	assert_non_null(strstr(text, "event: first"));
	free(text);
	help_https_raw_close(&r);
	help_https_stop(&server);
}

static void test_events_have_a_limit_of_clients(void **state)
{
	struct help_https_raw r[4];
	(void)state;
	for (size_t i = 0; i < 4; i++)
		watch(&r[i], WATCH "\r\n");
	char *text = help_https_ask(&server, WATCH "Connection: close\r\n\r\n");
	assert_non_null(strstr(text, " 503 "));
	assert_non_null(strstr(text, "\"name\":\"busy\""));
	free(text);
	for (size_t i = 0; i < 4; i++)
		help_https_raw_close(&r[i]);
}

static void test_slow_watcher_is_dropped(void **state)
{
	struct help_https_raw r;
	(void)state;
	watch(&r, WATCH "\r\n");
	// The kernel's buffers take some megabytes before anything waits.
	for (uint64_t i = 0; i < 400; i++)
		help_https_event(&server, i, "x", 60000);
	help_https_await(&server.dropped, 1);
	help_https_await(&server.watching, 0);
	help_https_raw_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_events, start, stop),
		cmocka_unit_test(test_events_are_caught_up),
		cmocka_unit_test_setup_teardown(test_events_have_a_limit_of_clients, start, stop),
		cmocka_unit_test_setup_teardown(test_slow_watcher_is_dropped, start, stop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
