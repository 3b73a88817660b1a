/* Log lines and traces, as somebody reads them: from the descriptor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/trace.h"
#include "tests/help_base.h"

static int real_stderr = -1;

/* Standard error goes to the file "err" until restore. */
static void capture(void)
{
	int fd = open(
		help_base_path("err"), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	real_stderr = dup(STDERR_FILENO);
	assert_true(dup2(fd, STDERR_FILENO) >= 0);
	close(fd);
}

static void restore(void)
{
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
}

static int setup(void **state)
{
	if (log_select("1", NULL) != ERR_OK)
		return -1;
	log_json(false);
	return help_base_setup(state);
}

static void lines_are_plain_text(void **state)
{
	(void)state;
	capture();
	errno = EPIPE;
	log_at(round, 1, "round %d opened", 7);
	assert_int_equal(errno, EPIPE);
	log_at(round, 2, "not wanted");
	log_warn(net, "bad \x1b[2J\nthing %s", "here");
	restore();
	const char *text = help_base_read("err", NULL);
	// "12:03:04 round: ..."
	static const char shape[] = "00:00:00 ";
	for (size_t i = 0; i < sizeof shape - 1; i++)
		assert_true(
			shape[i] == '0' ? text[i] >= '0' && text[i] <= '9' : text[i] == shape[i]);
	assert_memory_equal(text + 9, "round: round 7 opened\n", 22);
	assert_string_equal(text + 9 + 22 + 9, "net: bad ?[2J?thing here\n");
}

static void levels_are_selected(void **state)
{
	(void)state;
	struct why why;
	assert_true(log_wants(LOG_net, 1) && !log_wants(LOG_net, 2));
	assert_int_equal(log_select("net:3,round:0", &why), ERR_OK);
	assert_true(log_wants(LOG_net, 3) && !log_wants(LOG_net, 4));
	assert_true(log_wants(LOG_round, 0) && !log_wants(LOG_round, 1));
	assert_true(log_wants(LOG_page, 1) && !log_wants(LOG_page, 2));
	assert_int_equal(log_select("2,net:5", &why), ERR_OK);
	assert_true(log_wants(LOG_net, 5) && log_wants(LOG_page, 2) && !log_wants(LOG_page, 3));
	assert_int_equal(log_select("", &why), ERR_OK);
	assert_true(log_wants(LOG_net, 5));

	static const char *const bad[] = {"nets:3", "net", "net:", "net:6", "net:-1", "6", "x", ":",
		":3", ",", "net:3,,page:1", "net:3 ", "1,zzz:2", "3net:3"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(log_select(bad[i], &why), ERR_syntax);
		assert_non_null(strstr(why.text, "names are base, model,"));
		assert_non_null(strstr(why.text, "page"));
	}
	// A mistake changes nothing.
	assert_int_equal(log_select("0,zzz:2", &why), ERR_syntax);
	assert_true(log_wants(LOG_net, 5) && log_wants(LOG_page, 2));
}

static void json_lines_can_be_read(void **state)
{
	(void)state;
	static char big[10000];
	memset(big, '"', sizeof big - 1);
	log_json(true);
	capture();
	log_warn(store, "a \"quoted\" \\ back\tslash \xff\xc3\xa9");
	log_warn(store, "%s", big);
	restore();
	const char *text = help_base_read("err", NULL);
	json_error_t e;
	json_t *line = json_loads(text, JSON_DISABLE_EOF_CHECK, &e);
	assert_non_null(line);
	assert_string_equal(json_string_value(json_object_get(line, "text")),
		"a \"quoted\" \\ back?slash ?\xc3\xa9");
	assert_string_equal(json_string_value(json_object_get(line, "subsystem")), "store");
	assert_int_equal(json_integer_value(json_object_get(line, "level")), 0);
	const char *time = json_string_value(json_object_get(line, "time"));
	assert_int_equal(strlen(time), strlen("2026-01-02T03:04:05.678Z"));
	json_decref(line);
	const char *second = strchr(text, '\n') + 1;
	line = json_loads(second, 0, &e);
	assert_non_null(line);
	assert_true(json_string_length(json_object_get(line, "text")) > 1000);
	json_decref(line);
}

static void *log_often(void *arg)
{
	for (int i = 0; i < 200; i++) {
		log_warn(peer, "thread %d says %d", *(int *)arg, i);
		if (trace_on())
			trace_event("often", "{s:i,s:i}", "thread", *(int *)arg, "i", i);
	}
	return NULL;
}

static void run_threads(void)
{
	pthread_t t[4];
	int number[4] = {0, 1, 2, 3};
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, log_often, &number[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static void lines_of_threads_stay_whole(void **state)
{
	(void)state;
	capture();
	run_threads();
	restore();
	int next[4] = {0};
	const char *at = help_base_read("err", NULL);
	for (int n = 0; n < 800; n++) {
		int thread, i, used = 0;
		assert_int_equal(
			sscanf(at, "%*d:%*d:%*d peer: thread %d says %d\n%n", &thread, &i, &used),
			2);
		assert_int_equal(i, next[thread]++);
		at = strchr(at, '\n') + 1;
	}
	assert_string_equal(at, "");
}

static void events_are_traced(void **state)
{
	(void)state;
	struct why why;
	trace_event("nobody", "{s:i}", "n", 1); // closed: nothing
	assert_false(trace_on());
	assert_int_equal(trace_open(help_base_path("none/trace"), &why), ERR_missing);
	assert_non_null(strstr(why.text, "none/trace"));
	assert_false(trace_on());
	assert_int_equal(trace_open(help_base_path("trace"), &why), ERR_OK);
	assert_true(trace_on());
	trace_event("cut", "{s:i,s:s}", "round", 3, "t", "must not hide the time");
	trace_event("bad", "{s:s}", "text", "\xff");
	capture();
	run_threads();
	restore();
	trace_close();
	assert_false(trace_on());
	trace_event("late", "{s:i}", "n", 1);

	static const char *const first[] = {"begin", "cut", "bad"};
	const char *at = help_base_read("trace", NULL);
	double last = 0;
	int n = 0;
	for (; *at; n++) {
		json_t *line = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
		assert_non_null(line);
		assert_memory_equal(at, "{\"t\":", 5);
		double t = json_real_value(json_object_get(line, "t"));
		assert_true(t >= last);
		last = t;
		const char *event = json_string_value(json_object_get(line, "event"));
		assert_string_equal(event, n < 3 ? first[n] : "often");
		if (n == 0)
			assert_true(json_number_value(json_object_get(line, "clock")) > 0);
		if (n == 1)
			assert_int_equal(json_integer_value(json_object_get(line, "round")), 3);
		if (n == 2)
			assert_non_null(json_object_get(line, "not_packed"));
		json_decref(line);
		at = strchr(at, '\n') + 1;
	}
	assert_int_equal(n, 803);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lines_are_plain_text, setup, help_base_teardown),
		cmocka_unit_test_setup_teardown(levels_are_selected, setup, help_base_teardown),
		cmocka_unit_test_setup_teardown(json_lines_can_be_read, setup, help_base_teardown),
		cmocka_unit_test_setup_teardown(
			lines_of_threads_stay_whole, setup, help_base_teardown),
		cmocka_unit_test_setup_teardown(events_are_traced, setup, help_base_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
