/* A coordinator whose uplink is bounded: what leaves it stays within the bound, measured by who
 * receives it, while rounds go on and no link is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <curl/curl.h>
#include "base/clock.h"
#include "tests/help_swarm.h"

#define WAIT 90
#define RATE 1000000 /* bits/s */
#define AT_ONCE 4
/* Bytes: what may go at once, a piece of each of two threads, and what was on its way before. */
#define SLACK (RATE / 8 / 10 + 2 * 16384 + 16384)

static const char *const timed[] = {"timed", NULL};

static size_t collect(char *bytes, size_t one, size_t n, void *arg)
{
	(void)bytes;
	*(uint64_t *)arg += one * n;
	return one * n;
}

static CURL *begin(const struct swarm *s, const char *path, uint64_t *got)
{
	CURL *c = curl_easy_init();
	curl_easy_setopt(c, CURLOPT_URL, proc_text("https://%s:%u%s", s->host, s->port, path));
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L); /* the test knows whom it started */
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
	curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)WAIT);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, collect);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, got);
	return c;
}

/* Several at once, to their ends; the bytes of all their bodies. */
static uint64_t download(const struct swarm *s, const char *path)
{
	CURLM *all = curl_multi_init();
	CURL *each[AT_ONCE];
	uint64_t got[AT_ONCE] = {0};
	int running = AT_ONCE, left;
	for (int i = 0; i < AT_ONCE; i++)
		curl_multi_add_handle(all, each[i] = begin(s, path, &got[i]));
	for (uint64_t end = clock_now_ns() + WAIT * CLOCK_SECOND; running;) {
		curl_multi_perform(all, &running);
		curl_multi_poll(all, NULL, 0, 50, NULL);
		(void)proc_out(s->coordinator); /* keeps its pipes empty */
		if (clock_now_ns() > end)
			fail_msg("%s does not come", path);
	}
	for (CURLMsg *m; (m = curl_multi_info_read(all, &left));)
		if (m->data.result)
			fail_msg("%s: %s", path, curl_easy_strerror(m->data.result));
	for (int i = 0; i < AT_ONCE; i++) {
		curl_multi_remove_handle(all, each[i]);
		curl_easy_cleanup(each[i]);
		assert_int_equal(got[i], got[0]);
	}
	curl_multi_cleanup(all);
	return AT_ONCE * got[0];
}

struct seen {
	double uptime_s, bytes;
};

static double number(const json_t *o, const char *name)
{
	return json_number_value(json_object_get(o, name));
}

static struct seen look(const struct swarm *s)
{
	json_t *o = help_swarm_get(s, "/api/v1/overview.json");
	const json_t *egress = json_object_get(o, "egress");
	assert_non_null(egress);
	assert_true(number(egress, "max_bits_per_s") == RATE);
	assert_true(number(egress, "control_bits_per_s") > 0);
	assert_true(number(json_object_get(o, "members"), "away") == 0);
	struct seen seen = {number(o, "uptime_s"), number(egress, "bytes")};
	json_decref(o);
	return seen;
}

static void within(double bytes, double seconds)
{
	const double most = RATE / 8. * seconds + SLACK;
	if (bytes > most)
		fail_msg("%.0f bytes in %.2f s, at most %.0f", bytes, seconds, most);
}

static void what_leaves_stays_within_the_bound(void **state)
{
	(void)state;
	struct swarm s;
	setenv("SHOAL_MAX_UP", "1M", 1);
	help_swarm_start(&s, timed);
	unsetenv("SHOAL_MAX_UP");
	help_swarm_peer(&s, "one");
	help_swarm_peer(&s, "two");
	help_swarm_goes_on(&s, "one", 0, WAIT);
	help_swarm_goes_on(&s, "two", 0, WAIT);
	const uint64_t round = help_swarm_at(&s), one = help_swarm_tokens(&s, "one");
	const struct seen before = look(&s);
	const uint64_t begin_ns = clock_now_ns();
	const uint64_t got = download(&s, "/chart.js");
	within((double)got, clock_seconds(clock_now_ns() - begin_ns));
	const struct seen after = look(&s);
	within(after.bytes - before.bytes, after.uptime_s - before.uptime_s);
	assert_true(after.bytes - before.bytes >= (double)got);
	assert_true(got > 10 * SLACK); /* or nothing was shown */
	assert_true(help_swarm_at(&s) > round + 1);
	help_swarm_goes_on(&s, "one", one, WAIT);
	const char *says = proc_out(PROC_RUN(0, WAIT, "shoal-coordinator", "status", s.link));
	if (!strstr(says, "of at most 1.00 Mbit/s"))
		fail_msg("%s", says);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void too_little_is_refused(void **state)
{
	(void)state;
	struct proc *p = PROC_RUN(2, WAIT, "shoal-coordinator", "serve", "configs/demo.json",
		"--data", "none", "--dir", "none", "--max-up", "9600");
	assert_non_null(strstr(proc_err(p), "--max-up must be at least 64k"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_leaves_stays_within_the_bound, proc_teardown),
		cmocka_unit_test_teardown(too_little_is_refused, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
