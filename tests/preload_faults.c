/*
 * Loaded before a program under test (LD_PRELOAD): its wall clock is off and its disk is full when
 * the file that $FAULTS names says so, at any moment.  See tests/help_faults.h.  No file that is
 * on a disk takes a byte then; pipes and sockets do.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include "tests/help_faults.h"

static struct faults none, *faults = &none;

__attribute__((constructor)) static void find_faults(void)
{
	const char *path = getenv("FAULTS");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (at != MAP_FAILED)
		faults = at;
}

/* ---- the clock */

int clock_gettime(clockid_t id, struct timespec *t)
{
	int failed = (int)syscall(SYS_clock_gettime, id, t);
	if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		t->tv_sec += (time_t)atomic_load(&faults->clock_s);
	return failed;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	struct timespec t;
	(void)zone; /* obsolete */
	(void)clock_gettime(CLOCK_REALTIME, &t);
	*out = (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
	return 0;
}

time_t time(time_t *out)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_REALTIME, &t);
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}

/* ---- the disk */

static bool is_full(int fd)
{
	struct stat st;
	if (!atomic_load(&faults->disk_full) || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	errno = ENOSPC;
	return true;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
	return is_full(fd) ? -1 : syscall(SYS_write, fd, bytes, n);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
	return is_full(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, n, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
	return is_full(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, n, at);
}
