/* What end-to-end tests of training share: a small text, a small spec, files compared. */
#ifndef TESTS_HELP_RUN_H
#define TESTS_HELP_RUN_H
#include <stdbool.h>

/* A folder with a prepared text of about 30 KB; the coordinator's prepare is run for it. */
const char *help_run_data(const char *scratch);
/* A spec of a tiny model for that data: fixed steps and 12,800 tokens, or, when the first change is
 * "timed", rounds of 0.3 seconds without an end.  Other changes are PATH=VALUE words as prepare
 * takes them; NULL-terminated; may be NULL. */
const char *help_run_spec(const char *scratch, const char *data, const char *const *changes);
bool help_run_same(const char *a, const char *b); /* two files, byte by byte */
const char *help_run_read(const char *path);      /* a file as text, until proc_teardown */
void help_run_write(const char *path, const char *text);
/* The value of key=... in a line, until proc_teardown; fails the test when it is not there. */
const char *help_run_value(const char *line, const char *key);

#endif
