/* The stream of events: what a page hears, and what it gets when it comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <event2/event.h>
#include <pthread.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/clock.h"
#include "coordinator/feed.h"
#include "net/https_server.h"

static struct feed *feed;
static uint64_t first_id;

static void get_events(void *arg, struct https_request *r)
{
	(void)arg;
	feed_open(feed, r);
}

static const struct https_route routes[] = {{"GET", "/events", 0, get_events}};

/* A page, as a libcurl transfer on the test's own loop turns: it reads until a text has come. */
struct page {
	struct buf got;
	const char *until;
};

static size_t collect(char *bytes, size_t one, size_t n, void *arg)
{
	struct page *p = arg;
	(void)one;
	buf_put(&p->got, bytes, n);
	buf_printf(&p->got, "%s", "");
	return strstr((const char *)p->got.data, p->until) ? 0 : n;
}

struct world {
	struct event_base *base;
	struct https_server *server;
};

static void visit(struct world *w, struct page *p, uint64_t last, const char *until)
{
	char url[64], header[64];
	CURL *c = curl_easy_init();
	CURLM *m = curl_multi_init();
	struct curl_slist *headers = NULL;
	int running = 1;
	uint64_t end = clock_now_ns() + 20 * CLOCK_SECOND;
	buf_init(&p->got, 8u << 20);
	p->until = until;
	snprintf(url, sizeof url, "https://127.0.0.1:%u/events", https_server_port(w->server));
	if (last) {
		snprintf(header, sizeof header, "Last-Event-ID: %llu", (unsigned long long)last);
		headers = curl_slist_append(headers, header);
	}
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
	curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, collect);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, p);
	curl_multi_add_handle(m, c);
	while (running) {
		curl_multi_perform(m, &running);
		event_base_loop(w->base, EVLOOP_NONBLOCK);
		if (running)
			curl_multi_poll(m, NULL, 0, 1, NULL);
		if (clock_now_ns() > end)
			fail_msg("%s did not come; this did: %s", until, (const char *)p->got.data);
	}
	curl_multi_remove_handle(m, c);
	curl_easy_cleanup(c);
	curl_multi_cleanup(m);
	curl_slist_free_all(headers);
}

static bool has(const struct page *p, const char *text)
{
	return strstr((const char *)p->got.data, text);
}

static int setup(void **state)
{
	static struct world w;
	static const char *const names[] = {"localhost"};
	struct https_server_config c;
	struct tls_pair *tls = tls_make(names, 1);
	struct why why;
	https_server_config_init(&c);
	w.base = event_base_new();
	c.bind = "127.0.0.1:0";
	c.tls = tls;
	c.routes = routes;
	c.n_routes = 1;
	assert_int_equal(https_server_new(w.base, &c, &w.server, &why), ERR_OK);
	tls_free(tls);
	feed = feed_new(w.base, 5000);
	first_id = 5000 * 1000;
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	feed_free(feed);
	https_server_free(w->server);
	event_base_free(w->base);
	return 0;
}

static void tell(int n)
{
	feed_tell(feed, "round", json_pack("{s:i}", "n", n));
}

static void what_was_missed_is_told(void **state)
{
	struct world *w = *state;
	struct page p;
	for (int i = 0; i < 5; i++)
		tell(i);
	feed_now(feed, "overview", json_pack("{s:s}", "now", "newest"));
	visit(w, &p, first_id + 1, "newest");
	assert_false(has(&p, "{\"n\":1}"));
	assert_true(has(&p, "{\"n\":2}"));
	assert_true(has(&p, "{\"n\":4}"));
	assert_true(has(&p, "event: overview"));
	assert_false(has(&p, "reset"));
	buf_release(&p.got);
	/* nothing missed: only how things are now, under the number that it has */
	visit(w, &p, first_id + 4, "newest");
	assert_false(has(&p, "round"));
	assert_true(has(&p, "id: 5000004"));
	buf_release(&p.got);
	/* at its first visit a page loads everything itself */
	visit(w, &p, 0, "newest");
	assert_false(has(&p, "round"));
	assert_false(has(&p, "reset"));
	buf_release(&p.got);
}

static void what_is_too_old_or_from_elsewhere_is_a_reset(void **state)
{
	struct world *w = *state;
	struct page p;
	for (int i = 0; i < FEED_KEPT + 10; i++)
		tell(i);
	visit(w, &p, first_id + 2, "reset");
	assert_false(has(&p, "{\"n\":3}"));
	buf_release(&p.got);
	visit(w, &p, first_id - 100, "reset"); /* another process's number */
	buf_release(&p.got);
	visit(w, &p, first_id + 100000, "reset"); /* a clock that was set back */
	buf_release(&p.got);
	visit(w, &p, first_id + 500, "{\"n\":521}");
	assert_false(has(&p, "reset"));
	assert_true(has(&p, "{\"n\":501}"));
	buf_release(&p.got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_missed_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_is_too_old_or_from_elsewhere_is_a_reset, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
