/*
 * What goes wrong on the machine of a process under test, while it runs: the wall clock jumps, the
 * disk is full.  The process is started with a library before its own (tests/preload_faults.c),
 * so that nothing is mounted and nobody else's clock is touched.  One thread only.
 */
#ifndef TESTS_HELP_FAULTS_H
#define TESTS_HELP_FAULTS_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In memory that the processes share. */
struct faults {
	_Atomic int64_t clock_s; /* added to the time of day */
	atomic_bool disk_full;
	int fd; /* the test's, of that memory */
};

/* None yet.  Lives as long as the test program. */
struct faults *faults_new(void);
/* What is started from here on is subject to them; NULL: to none. */
void faults_start_with(const struct faults *f);

#endif
