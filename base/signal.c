#include "base/signal.h"
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static atomic_bool asked;
static int event = -1;

/* Only what is safe in a handler: atomics, write, _exit. */
static void on_signal(int number)
{
	(void)number;
	if (atomic_exchange(&asked, true))
		_exit(130);
	int kept_errno = errno;
	uint64_t one = 1;
	ssize_t written = write(event, &one, sizeof one);
	(void)written;
	errno = kept_errno;
}

void signal_watch(void)
{
	if (event >= 0)
		return;
	event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (event < 0) {
		perror("no descriptor for signals");
		abort();
	}
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigemptyset(&act.sa_mask);
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	act.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &act, NULL);
}

bool signal_asked(void)
{
	return atomic_load(&asked);
}

int signal_fd(void)
{
	return event;
}
