/*
 * A real browser: headless Chromium, driven through chromedriver's WebDriver protocol.  Any failure
 * fails the test, with what the driver said.  webdriver_stop before proc_teardown, which ends the
 * driver but not the browser.  One thread only.
 */
#ifndef TESTS_HELP_WEBDRIVER_H
#define TESTS_HELP_WEBDRIVER_H
#include <stdbool.h>
#include "base/json.h"

/* Are chromium and chromedriver there?  If not, the test may be skipped. */
bool webdriver_installed(void);

struct webdriver;
/* A browser of its own, without a profile and without network beyond this machine; certificates
 * are taken as they are. */
struct webdriver *webdriver_start(void);
void webdriver_stop(struct webdriver *w); /* NULL-safe */

/* The size of the page in CSS pixels, and whether it is asked for dark colours. */
void webdriver_window(struct webdriver *w, unsigned width, unsigned height, bool dark);
void webdriver_open(struct webdriver *w, const char *url);

/* The value of a JavaScript expression, as JSON; caller decrefs. */
json_t *webdriver_value(struct webdriver *w, const char *expression);
/* The same as text, which the expression must give; valid until proc_teardown. */
const char *webdriver_text(struct webdriver *w, const char *expression);
/* Waits until the expression is true. */
void webdriver_until(struct webdriver *w, const char *expression, unsigned seconds);

/* What was logged since the last call, as an array of {"level", "message", ...}: "browser" is the
 * console, "performance" the DevTools events (a JSON text each).  Caller decrefs. */
json_t *webdriver_log(struct webdriver *w, const char *type);
/* The whole page, however high, as a PNG file. */
void webdriver_picture(struct webdriver *w, const char *path);

#endif
