#include "tests/help_faults.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/help_proc.h"

struct faults *faults_new(void)
{
	int fd = memfd_create("faults", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, sizeof(struct faults)))
		fail_msg("no memory to share: %s", strerror(errno));
	struct faults *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (f == MAP_FAILED)
		fail_msg("cannot map it: %s", strerror(errno));
	f->fd = fd;
	return f;
}

void faults_start_with(const struct faults *f)
{
	if (!f) {
		unsetenv("LD_PRELOAD");
		return;
	}
	setenv("FAULTS", proc_text("/proc/%ld/fd/%d", (long)getpid(), f->fd), 1);
	setenv("LD_PRELOAD", proc_program("tests/preload_faults.so"), 1);
	/* A sanitizer's library wants to be the first, and works as the second. */
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 0);
}
