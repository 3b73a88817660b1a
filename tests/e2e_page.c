/* The page as people see it: a real coordinator, real peers, a real browser.  Pictures for a person
 * to look at are left under build/. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/file.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"
#include "tests/help_webdriver.h"

#define WAIT 60
#define HOSTILE "<img src=x onerror=\"window.owned=1\"><b>x"

/* One run for all tests, in their order: each goes on where the one before has stopped. */
static struct swarm swarm;
static struct webdriver *browser;

static int start_all(void **state)
{
	/* Rounds long enough to be watched, a run that does not end meanwhile. */
	static const char *const changes[] = {"round.peers_min=2", "round.steps=30",
		"round.validate_every=2", "train.total_tokens=100000000", NULL};
	(void)state;
	if (!webdriver_installed())
		return 0;
	setenv("SHOAL_PLAN", "random", 1); /* whoever is reached aggregates */
	help_swarm_start(&swarm, changes);
	browser = webdriver_start();
	webdriver_window(browser, 1280, 900, false);
	return 0;
}

static int stop_all(void **state)
{
	webdriver_stop(browser);
	browser = NULL;
	return proc_teardown(state);
}

static void need_browser(void)
{
	if (!browser) {
		fprintf(stderr, "SKIP: chromium and chromium-driver are not installed\n");
		skip();
	}
}

/* ---- what the page and the API say */

static double number_on_page(const char *expression)
{
	json_t *v = webdriver_value(browser, proc_text("Number(%s)", expression));
	double n = json_number_value(v);
	json_decref(v);
	return n;
}

static double tile(const char *name)
{
	return number_on_page(proc_text(
		"document.querySelector('#tile-%s .figure span').dataset.value || NaN", name));
}

static const char *text_of(const char *id)
{
	return webdriver_text(browser, proc_text("document.getElementById('%s').innerText", id));
}

static void click(const char *id)
{
	json_t *v = webdriver_value(
		browser, proc_text("(document.getElementById('%s').click(), true)", id));
	json_decref(v);
}

static void wait_for(const char *expression)
{
	webdriver_until(browser, expression, WAIT);
}

/* Paused, and the peers have told all that they had to tell. */
static void wait_until_quiet(void)
{
	wait_for("document.getElementById('state').dataset.state === 'paused'");
	wait_for("document.querySelectorAll('.state[data-state=ready]').length === 2");
}

static json_t *api(const char *view)
{
	json_t *doc = help_swarm_get(&swarm, proc_text("/api/v1/%s", view));
	assert_non_null(doc);
	return doc;
}

static double at(const json_t *doc, const char *name)
{
	const json_t *v = json_object_get(doc, name);
	if (!json_is_number(v))
		fail_msg("the API gives no %s", name);
	return json_number_value(v);
}

static void same(const char *what, double page, double expected)
{
	/* Events carry nine digits. */
	double slack = 1e-8 * (1 + expected);
	if (!(page - expected < slack && expected - page < slack))
		fail_msg("%s: %.17g on the page, %.17g in the API", what, page, expected);
}

/* Errors in the console, but those that hold allowed. */
static void no_console_errors(const char *allowed)
{
	json_t *log = webdriver_log(browser, "browser"), *entry;
	size_t i;
	json_array_foreach(log, i, entry)
	{
		const char *level = json_string_value(json_object_get(entry, "level"));
		const char *message = json_string_value(json_object_get(entry, "message"));
		if (strcmp(level, "SEVERE") && strcmp(level, "WARNING"))
			continue;
		if (!allowed || !strstr(message, allowed))
			fail_msg("the browser's console: %s %s", level, message);
	}
	json_decref(log);
}

/* ---- the tests */

static void says_why_nothing_happens(void **state)
{
	(void)state;
	need_browser();
	webdriver_open(browser, proc_text("https://127.0.0.1:%u/", swarm.port));
	wait_for("document.body.className === 'connected'");
	wait_for("document.getElementById('run-name').innerText === 'tiny'");
	json_t *overview = api("overview.json");
	assert_string_equal(text_of("state"), "Waiting");
	assert_non_null(strstr(text_of("reason"), "2 more peers"));
	assert_string_equal(
		webdriver_text(browser, "document.getElementById('reason').textContent"),
		json_string_value(json_object_get(overview, "reason")));
	same("tokens", tile("tokens"), 0);
	assert_non_null(strstr(text_of("peers-table"), "Nobody has joined yet"));
	assert_non_null(strstr(text_of("chart-empty"), "No loss has been measured"));
	json_decref(overview);
	no_console_errors(NULL);
}

static void shows_what_happens_as_it_happens(void **state)
{
	(void)state;
	need_browser();
	json_decref(webdriver_value(browser, "window.marker = 1"));
	setenv("SHOAL_LISTEN", "127.0.0.1:0", 1);
	help_swarm_peer(&swarm, "alice");
	unsetenv("SHOAL_LISTEN");
	help_swarm_peer(&swarm, HOSTILE);
	wait_for("document.querySelectorAll('#peers-table tbody tr[data-key]').length === 2");
	wait_for("document.getElementById('state').dataset.state === 'open'");
	wait_for("document.querySelector('#tile-tokens .figure span').dataset.value > 0");
	double before = tile("tokens");
	wait_for(proc_text(
		"document.querySelector('#tile-tokens .figure span').dataset.value > %.0f",
		before));
	wait_for("document.querySelectorAll('#rounds-table tbody tr[data-key]').length > 3");
	wait_for("document.querySelectorAll('#ledger-table tbody tr[data-key]').length > 3");
	wait_for("document.getElementById('chart').dataset.points > 1");
	same("marker", number_on_page("window.marker"), 1); /* the page was not loaded again */
	no_console_errors(NULL);
}

static void keeps_names_harmless(void **state)
{
	(void)state;
	need_browser();
	assert_non_null(
		strstr(webdriver_text(browser, "[...document.querySelectorAll('#peers-table bdi')]"
					       ".map(e => e.textContent).join('\\n')"),
			HOSTILE));
	same("owned", number_on_page("window.owned === undefined"), 1);
	same("images", number_on_page("document.querySelectorAll('main img, main b').length"), 0);
	no_console_errors(NULL);
}

static void shows_who_aggregates(void **state)
{
	(void)state;
	need_browser();
	wait_for("document.querySelectorAll('#topology-members tbody tr[data-key]').length === 2");
	wait_for("document.querySelectorAll('#topology-map .aggregator').length === 1");
	wait_for("document.querySelectorAll('#topology-rounds tbody tr[data-key]').length > 1");
	json_t *t = api("topology.json");
	const json_t *plan = json_object_get(t, "plan");
	assert_string_equal(
		text_of("topology-reason"), json_string_value(json_object_get(plan, "reason")));
	assert_non_null(strstr(text_of("topology-members"), "aggregator of shards 0 to 1"));
	assert_non_null(strstr(text_of("topology-members"), "alice"));
	assert_true(at(t, "aggregated") > 0);
	json_decref(t);
	no_console_errors(NULL);
}

static void lets_only_the_operator_control(void **state)
{
	(void)state;
	need_browser();
	const char *token = help_run_read(proc_text("%s/keys/operator.token", swarm.dir));
	same("hidden", number_on_page("document.getElementById('controls').hidden"), 1);
	same("buttons",
		number_on_page("document.querySelectorAll('#peers-table td button').length"), 0);
	json_decref(webdriver_value(browser, "document.getElementById('token').value = 'wrong'"));
	json_decref(webdriver_value(browser, "document.getElementById('unlock').requestSubmit()"));
	wait_for("document.getElementById('said').innerText.includes('operator')");
	same("still hidden", number_on_page("document.getElementById('controls').hidden"), 1);
	no_console_errors("403");

	json_decref(webdriver_value(
		browser, proc_text("document.getElementById('token').value = '%.*s'",
				 (int)strcspn(token, "\r\n"), token)));
	json_decref(webdriver_value(browser, "document.getElementById('unlock').requestSubmit()"));
	wait_for("!document.getElementById('controls').hidden");
	same("stored", number_on_page("localStorage.length + sessionStorage.length"), 0);
	click("pause");
	wait_until_quiet();
	assert_string_equal(text_of("state"), "Paused");
	no_console_errors(NULL);
}

static void compare_tiles(const json_t *overview)
{
	static const char *const names[][2] = {{"tokens", "tokens"}, {"speed", "tokens_per_s"},
		{"round", "round"}, {"up", "bits_per_param_up"}, {"down", "bits_per_param_down"},
		{"refusals", "refusals"}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		same(names[i][0], tile(names[i][0]), at(overview, names[i][1]));
	same("loss", tile("loss"), at(json_object_get(overview, "loss"), "nats_per_byte"));
	same("progress", number_on_page("document.getElementById('progress').value"),
		at(overview, "tokens"));
	assert_string_equal(
		webdriver_text(browser, "document.querySelector('#ledger-head .hash').title"),
		json_string_value(json_object_get(json_object_get(overview, "head"), "hash")));
}

/* A peer's row follows its next heartbeat, so it is waited for. */
static void compare_peers(void)
{
	json_t *doc = api("peers.json"), *peer;
	size_t i;
	json_array_foreach(json_object_get(doc, "peers"), i, peer)
	{
		const char *row =
			proc_text("document.querySelector('#peers-table tr[data-key=\"%d\"]')",
				(int)at(peer, "number"));
		assert_string_equal(webdriver_text(browser,
					    proc_text("%s.querySelector('bdi').textContent", row)),
			json_string_value(json_object_get(peer, "name")));
		wait_for(proc_text("%s.querySelector('.state').textContent === '%s'", row,
			json_string_value(json_object_get(peer, "state"))));
		wait_for(proc_text("%s.querySelector('[data-value]').dataset.value === '%.0f'", row,
			at(peer, "tokens")));
		wait_for(proc_text(
			"%s.querySelector('[data-label=Share]').textContent === '%.1f %%'", row,
			100 * at(peer, "share")));
	}
	json_decref(doc);
}

static void compare_lists(void)
{
	json_t *doc = api("rounds.json?limit=1");
	const json_t *row = json_array_get(json_object_get(doc, "rounds"), 0);
	same("newest round",
		number_on_page("document.querySelector('#rounds-table tbody tr').dataset.key"),
		at(row, "round"));
	same("tokens of a round",
		number_on_page("document.querySelector('#rounds-table tbody [data-label=Tokens]')"
			       ".textContent.replaceAll(',', '')"),
		at(row, "tokens"));
	json_decref(doc);
	doc = api("ledger.json?full=1&limit=1");
	row = json_array_get(json_object_get(doc, "records"), 0);
	same("newest entry",
		number_on_page("document.querySelector('#ledger-table tbody tr').dataset.key"),
		at(row, "sequence"));
	assert_string_equal(
		webdriver_text(browser,
			"document.querySelector('#ledger-table [data-label=State] .hash').title"),
		json_string_value(json_object_get(row, "state")));
	json_decref(doc);
	doc = api("loss.json");
	same("points", number_on_page("document.getElementById('chart').dataset.points"),
		(double)json_array_size(json_object_get(doc, "points")));
	json_decref(doc);
	doc = api("refusals.json"); /* the wrong token was one */
	assert_non_null(strstr(text_of("refusals-table"), "operator's token"));
	same("kinds of refusals",
		number_on_page(
			"document.querySelectorAll('#counts-table tbody tr[data-key]').length"),
		(double)json_array_size(json_object_get(doc, "counts")));
	json_decref(doc);
}

/* While nothing moves. */
static void compare_all(void)
{
	json_t *overview = api("overview.json");
	wait_for(
		proc_text("document.querySelector('#ledger-table tbody tr').dataset.key === '%.0f'",
			at(json_object_get(overview, "head"), "sequence")));
	compare_tiles(overview);
	json_decref(overview);
	compare_peers();
	compare_lists();
}

static void shows_the_figures_of_the_api(void **state)
{
	(void)state;
	need_browser();
	compare_all();
	no_console_errors(NULL);
}

static void comes_back_after_the_coordinator(void **state)
{
	(void)state;
	need_browser();
	proc_signal(swarm.coordinator, SIGKILL);
	assert_int_equal(proc_wait(swarm.coordinator, WAIT), 128 + SIGKILL);
	wait_for("document.body.className === 'stale'");
	assert_non_null(strstr(text_of("banner"), "Disconnected: "));
	wait_for("document.getElementById('banner').innerText.includes('does not answer')");
	wait_for("/Trying again in \\d+ s/.test(document.getElementById('banner').innerText)");
	assert_non_null(strstr(text_of("banner"), "The figures are from "));
	json_t *grey = webdriver_value(
		browser, "getComputedStyle(document.getElementById('overview')).filter");
	assert_string_equal(json_string_value(grey), "grayscale(1)");
	json_decref(grey);

	help_swarm_coordinator(&swarm);
	click("banner-now");
	wait_for("document.body.className === 'connected'");
	same("banner hidden", number_on_page("document.getElementById('banner').hidden"), 1);
	same("marker", number_on_page("window.marker"), 1);
	wait_until_quiet();
	no_console_errors("net::ERR_");

	/* The token is still in memory, the run still paused. */
	double round = tile("round");
	click("resume");
	wait_for(
		proc_text("document.querySelector('#tile-round .figure span').dataset.value > %.0f",
			round + 1));
	click("pause");
	wait_until_quiet();
	compare_all();
	no_console_errors(NULL);
}

/* Nothing reaches beyond the right edge. */
static void fits(unsigned width)
{
	same("width", number_on_page("document.documentElement.scrollWidth"), width);
	assert_string_equal(
		webdriver_text(browser,
			"[...document.querySelectorAll('body *')].filter(e => e.offsetParent && "
			"e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('thead'))"
			".map(e => e.outerHTML.slice(0, 200)).join('\\n')"),
		"");
}

static void fits_any_screen(void **state)
{
	static const struct {
		unsigned width, height;
		bool dark;
		const char *path;
	} screens[] = {{1280, 900, false, "build/page-wide.png"},
		{1280, 900, true, "build/page-dark.png"},
		{360, 740, false, "build/page-phone.png"}};
	struct why why = {0};
	(void)state;
	need_browser();
	assert_int_equal(file_mkdirs("build", 0755, &why), ERR_OK);
	click("resume");
	wait_for("document.getElementById('state').dataset.state === 'open'");
	for (size_t i = 0; i < sizeof screens / sizeof *screens; i++) {
		webdriver_window(browser, screens[i].width, screens[i].height, screens[i].dark);
		wait_for(proc_text("innerWidth === %u", screens[i].width));
		fits(screens[i].width);
		webdriver_picture(browser, screens[i].path);
	}
	webdriver_window(browser, 1280, 900, false);
	no_console_errors(NULL);
}

static void has_a_name_for_everything(void **state)
{
	(void)state;
	need_browser();
	same("inputs without a label",
		number_on_page("[...document.querySelectorAll('input')].filter("
			       "e => !e.labels.length).length"),
		0);
	same("buttons without words",
		number_on_page("[...document.querySelectorAll('button')].filter("
			       "e => !e.hidden && !e.textContent.trim()).length"),
		0);
	same("figures without an explanation",
		number_on_page("[...document.querySelectorAll('.tile')].filter("
			       "e => e.title.length < 20).length"),
		0);
	same("headers without scope",
		number_on_page("[...document.querySelectorAll('th')].filter("
			       "e => !e.getAttribute('scope')).length"),
		0);
	same("inline styles or scripts",
		number_on_page("document.querySelectorAll('head style, script:not([src])').length"),
		0);
}

static void lets_the_operator_invite_and_remove(void **state)
{
	(void)state;
	need_browser();
	json_decref(webdriver_value(browser, "document.getElementById('invite').requestSubmit()"));
	wait_for("document.getElementById('invite-link').innerText.startsWith('shoal://"
		 "127.0.0.1:')");
	json_decref(webdriver_value(browser,
		"[...document.querySelectorAll('#peers-table tr[data-key]')].find("
		"tr => tr.innerText.includes('<img')).querySelector('td button').click()"));
	wait_for("document.getElementById('sure').open");
	json_decref(webdriver_value(
		browser, "document.querySelector('#sure button[value=yes]').click()"));
	wait_for("document.querySelectorAll('.state[data-state=removed]').length === 1");
	wait_for("document.getElementById('reason').innerText.includes('1 more peer')");
	assert_string_equal(text_of("state"), "Waiting");
	no_console_errors(NULL);
}

/* Of everything that the browser asked for since it was started. */
static void asks_nobody_else(void **state)
{
	(void)state;
	need_browser();
	json_t *log = webdriver_log(browser, "performance"), *entry;
	const char *origin = proc_text("https://127.0.0.1:%u/", swarm.port);
	size_t i, requests = 0;
	json_array_foreach(log, i, entry)
	{
		const char *text = json_string_value(json_object_get(entry, "message"));
		json_t *doc = json_loads(text ? text : "", 0, NULL);
		const json_t *message = json_object_get(doc, "message");
		const char *method = json_string_value(json_object_get(message, "method"));
		if (method && !strcmp(method, "Network.requestWillBeSent")) {
			const json_t *params = json_object_get(message, "params");
			const char *url = json_string_value(
				json_object_get(json_object_get(params, "request"), "url"));
			const char *by = json_string_value(json_object_get(params, "documentURL"));
			bool ours = !strncmp(
				by, origin, strlen(origin)); /* the browser's own pages are not */
			if (ours && strncmp(url, origin, strlen(origin)))
				fail_msg("the page asked for %s", url);
			requests += ours;
		}
		json_decref(doc);
	}
	json_decref(log);
	assert_true(requests > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_why_nothing_happens),
		cmocka_unit_test(shows_what_happens_as_it_happens),
		cmocka_unit_test(keeps_names_harmless),
		cmocka_unit_test(shows_who_aggregates),
		cmocka_unit_test(lets_only_the_operator_control),
		cmocka_unit_test(shows_the_figures_of_the_api),
		cmocka_unit_test(comes_back_after_the_coordinator),
		cmocka_unit_test(fits_any_screen),
		cmocka_unit_test(has_a_name_for_everything),
		cmocka_unit_test(lets_the_operator_invite_and_remove),
		cmocka_unit_test(asks_nobody_else),
	};
	return cmocka_run_group_tests(tests, start_all, stop_all);
}
