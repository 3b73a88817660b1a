/*
 * Real programs under test.  A process is started with pipes on all three streams; whatever it
 * writes is collected, for every process alike, whenever the test waits for something, so that
 * nobody blocks on a full pipe.  Every wait has a deadline: when it passes, the test fails and all
 * that the process wrote is shown.  Give proc_teardown to cmocka: it kills and frees what the test
 * left, also after a failure.  One thread only.
 */
#ifndef TESTS_HELP_PROC_H
#define TESTS_HELP_PROC_H
#include <stdbool.h>
#include <sys/types.h>
#include "base/err.h"

struct proc; /* lives until proc_teardown */

/* argv ends with NULL; argv[0] without a slash is one of our programs, found in $SHOAL_BIN
 * (proc_program).  The environment is the test's own: setenv before.  The child dies with the test.
 */
struct proc *proc_start(const char *const *argv);
#define PROC_START(...) proc_start((const char *const[]){__VA_ARGS__, NULL})
pid_t proc_pid(const struct proc *p);

/* Waits for a line that holds text, on either stream, among those after the last one found there.
 * Returns it without its end, valid until proc_teardown.  Fails the test when the process ends
 * without it. */
const char *proc_line(struct proc *p, const char *text, unsigned seconds);
/* Waits for the end and returns the exit status, or 128 + the number of the signal.  May be asked
 * again. */
int proc_wait(struct proc *p, unsigned seconds);
/* Starts, closes the input, waits, and fails the test unless the exit status is the expected one.
 */
struct proc *proc_run(int status, unsigned seconds, const char *const *argv);
#define PROC_RUN(status, seconds, ...) \
	proc_run(status, seconds, (const char *const[]){__VA_ARGS__, NULL})

bool proc_ended(struct proc *p); /* never waits */

void proc_input(struct proc *p, const char *text); /* all of it, to the standard input */
void proc_input_end(struct proc *p);
void proc_signal(struct proc *p, int number); /* nothing when it has already ended */
/* All of one stream so far, collecting first what is there; valid until the next call of proc_*. */
const char *proc_out(struct proc *p);
const char *proc_err(struct proc *p);

/* The path of one of our programs.  Fails the test when SHOAL_BIN is not set. */
const char *proc_program(const char *name);
/* A new empty folder, removed with all that is in it by proc_teardown. */
const char *proc_scratch(void);
/* A text that lives until proc_teardown: paths and arguments. */
const char *proc_text(const char *fmt, ...) PRINTF_LIKE(1, 2);

int proc_teardown(void **state); /* cmocka's signature; always 0 */

#endif
