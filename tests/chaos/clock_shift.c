/* Preloaded into a program: its wall clock goes wrong by as many seconds as the file that
 * $CHAOS_CLOCK names says (8 bytes, as int64_t), from the moment on at which they are written.  All
 * other clocks stay right, as they do when somebody sets a machine's clock. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;

__attribute__((constructor)) static void find_shift(void)
{
	const char *path = getenv("CHAOS_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (at != MAP_FAILED)
		shift = at;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	int failed = (int)syscall(SYS_clock_gettime, id, t);
	if (!failed && shift && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		t->tv_sec += *shift;
	return failed;
}

time_t time(time_t *out)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_REALTIME, &t);
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	struct timespec t;
	(void)zone; /* obsolete */
	(void)clock_gettime(CLOCK_REALTIME, &t);
	*out = (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
	return 0;
}
