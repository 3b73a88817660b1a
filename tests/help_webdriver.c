#include "tests/help_webdriver.h"
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <curl/curl.h>
#include <openssl/evp.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "tests/help_proc.h"

#define START_S 30
#define CALL_S 60L
#define REPLY_MAX (64u << 20) /* a picture of a long page */

struct webdriver {
	struct proc *driver;
	CURL *curl;
	const char *session; /* "http://127.0.0.1:PORT/session/ID" */
	bool open;
};

bool webdriver_installed(void)
{
	return !access("/usr/bin/chromium", X_OK) && !access("/usr/bin/chromedriver", X_OK);
}

/* ---- calls */

static size_t collect(char *bytes, size_t one, size_t n, void *arg)
{
	struct buf *b = arg;
	(void)one;
	buf_put(b, bytes, n);
	return buf_ok(b) ? n : 0;
}

static void set_body(CURL *c, const char *method, const char *body)
{
	if (strcmp(method, "POST") != 0) {
		curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
		return;
	}
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
}

/* One request; the reply's "value", caller decrefs.  body is taken, NULL for none. */
static json_t *call(struct webdriver *w, const char *method, const char *url, json_t *body)
{
	struct buf b;
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	char *text = json_dumps(body, JSON_COMPACT);
	buf_init(&b, REPLY_MAX);
	curl_easy_reset(w->curl);
	curl_easy_setopt(w->curl, CURLOPT_URL, url);
	curl_easy_setopt(w->curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(w->curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(w->curl, CURLOPT_TIMEOUT, CALL_S);
	curl_easy_setopt(w->curl, CURLOPT_WRITEFUNCTION, collect);
	curl_easy_setopt(w->curl, CURLOPT_WRITEDATA, &b);
	set_body(w->curl, method, text ? text : "{}");
	CURLcode code = curl_easy_perform(w->curl);
	curl_slist_free_all(headers);
	free(text);
	json_decref(body);
	(void)proc_out(w->driver); /* keeps its pipes empty */
	json_t *doc = code ? NULL : json_loadb((const char *)b.data, b.len, 0, NULL);
	buf_release(&b);
	if (code)
		fail_msg("chromedriver, %s %s: %s", method, url, curl_easy_strerror(code));
	json_t *value = json_incref(json_object_get(doc, "value"));
	json_decref(doc);
	const char *error = json_string_value(json_object_get(value, "error"));
	if (error)
		fail_msg("chromedriver, %s %s: %s: %s", method, url, error,
			json_string_value(json_object_get(value, "message")));
	return value;
}

static json_t *ask(struct webdriver *w, const char *path, json_t *body)
{
	return call(w, "POST", proc_text("%s/%s", w->session, path), body);
}

/* A command of the DevTools. */
static json_t *devtools(struct webdriver *w, const char *command, json_t *params)
{
	return ask(
		w, "goog/cdp/execute", json_pack("{s:s, s:o}", "cmd", command, "params", params));
}

/* ---- a browser's life */

static json_t *capabilities(void)
{
	const char *profile = proc_text("--user-data-dir=%s", proc_scratch());
	const char *const flags[] = {"--headless", "--no-sandbox", "--disable-gpu",
		"--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", profile};
	json_t *args = json_array();
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		json_array_append_new(args, json_string(flags[i]));
	return json_pack("{s:{s:{s:b, s:{s:s, s:o}, s:{s:s, s:s}}}}", "capabilities", "alwaysMatch",
		"acceptInsecureCerts", 1, "goog:chromeOptions", "binary", "/usr/bin/chromium",
		"args", args, "goog:loggingPrefs", "browser", "ALL", "performance", "ALL");
}

struct webdriver *webdriver_start(void)
{
	struct webdriver *w = alloc_must_zero(1, sizeof *w);
	w->driver = PROC_START("/usr/bin/chromedriver", "--port=0");
	const char *line = proc_line(w->driver, "started successfully on port ", START_S);
	unsigned long port = strtoul(strstr(line, "on port ") + 8, NULL, 10);
	w->curl = curl_easy_init();
	assert_non_null(w->curl);
	json_t *value =
		call(w, "POST", proc_text("http://127.0.0.1:%lu/session", port), capabilities());
	const char *id = json_string_value(json_object_get(value, "sessionId"));
	assert_non_null(id);
	w->session = proc_text("http://127.0.0.1:%lu/session/%s", port, id);
	w->open = true;
	json_decref(value);
	return w;
}

void webdriver_stop(struct webdriver *w)
{
	if (!w)
		return;
	if (w->open) {
		w->open = false; /* whatever comes of it */
		json_decref(call(w, "DELETE", w->session, NULL));
	}
	curl_easy_cleanup(w->curl);
	free(w);
}

/* ---- the page */

static void set_size(struct webdriver *w, unsigned width, unsigned height)
{
	json_decref(devtools(w, "Emulation.setDeviceMetricsOverride",
		json_pack("{s:i, s:i, s:i, s:b}", "width", (int)width, "height", (int)height,
			"deviceScaleFactor", 1, "mobile", 1)));
}

void webdriver_window(struct webdriver *w, unsigned width, unsigned height, bool dark)
{
	set_size(w, width, height);
	json_decref(devtools(w, "Emulation.setEmulatedMedia",
		json_pack("{s:[{s:s, s:s}]}", "features", "name", "prefers-color-scheme", "value",
			dark ? "dark" : "light")));
}

void webdriver_open(struct webdriver *w, const char *url)
{
	json_decref(ask(w, "url", json_pack("{s:s}", "url", url)));
}

json_t *webdriver_value(struct webdriver *w, const char *expression)
{
	return ask(w, "execute/sync",
		json_pack("{s:s, s:[]}", "script", proc_text("return (%s);", expression), "args"));
}

const char *webdriver_text(struct webdriver *w, const char *expression)
{
	json_t *value = webdriver_value(w, expression);
	if (!json_is_string(value))
		fail_msg("no text: %s", expression);
	const char *text = proc_text("%s", json_string_value(value));
	json_decref(value);
	return text;
}

void webdriver_until(struct webdriver *w, const char *expression, unsigned seconds)
{
	uint64_t deadline = clock_now_ns() + seconds * CLOCK_SECOND;
	for (;;) {
		json_t *value = webdriver_value(w, expression);
		bool yes = json_is_true(value);
		json_decref(value);
		if (yes)
			return;
		if (clock_now_ns() > deadline)
			fail_msg("not within %u s: %s; the page says:\n%s", seconds, expression,
				webdriver_text(w, "document.body.innerText"));
		poll(NULL, 0, 50); /* between two looks, under the deadline above */
	}
}

json_t *webdriver_log(struct webdriver *w, const char *type)
{
	return ask(w, "se/log", json_pack("{s:s}", "type", type));
}

void webdriver_picture(struct webdriver *w, const char *path)
{
	json_t *size = webdriver_value(
		w, "[innerWidth, innerHeight, document.documentElement.scrollHeight]");
	unsigned width = (unsigned)json_integer_value(json_array_get(size, 0)),
		 before = (unsigned)json_integer_value(json_array_get(size, 1)),
		 all = (unsigned)json_integer_value(json_array_get(size, 2));
	json_decref(size);
	set_size(w, width, all);
	json_t *shot = devtools(w, "Page.captureScreenshot", json_pack("{s:s}", "format", "png"));
	set_size(w, width, before);
	const char *text = json_string_value(json_object_get(shot, "data"));
	assert_non_null(text);
	size_t n = strlen(text);
	uint8_t *bytes = alloc_must(n);
	int len = EVP_DecodeBlock(bytes, (const uint8_t *)text, (int)n);
	struct why why = {0};
	assert_true(len > 0);
	if (file_write(path, bytes, (size_t)len, 0644, &why))
		fail_msg("%s", why.text);
	free(bytes);
	json_decref(shot);
}
