/* Being asked to stop, in processes of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/signal.h"

static int status_of(int (*body)(void))
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(body());
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool readable(void)
{
	struct pollfd p = {.fd = signal_fd(), .events = POLLIN};
	return poll(&p, 1, 0) == 1;
}

static int ask_once(void)
{
	if (signal_fd() != -1)
		return 1;
	signal_watch();
	signal_watch();
	if (signal_asked() || readable())
		return 2;
	raise(SIGTERM);
	if (!signal_asked() || !readable() || !readable())
		return 3;
	return 0;
}

static int ask_twice(void)
{
	signal_watch();
	raise(SIGINT);
	raise(SIGTERM);
	return 1;
}

static int break_a_pipe(void)
{
	int fd[2];
	signal_watch();
	if (pipe(fd) != 0)
		return 1;
	close(fd[0]);
	return write(fd[1], "x", 1) == -1 ? 0 : 2;
}

static void the_first_signal_asks(void **state)
{
	(void)state;
	assert_int_equal(status_of(ask_once), 0);
}

static void the_second_signal_ends(void **state)
{
	(void)state;
	assert_int_equal(status_of(ask_twice), 130);
}

static void a_broken_pipe_is_an_error_only(void **state)
{
	(void)state;
	assert_int_equal(status_of(break_a_pipe), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_signal_asks),
		cmocka_unit_test(the_second_signal_ends),
		cmocka_unit_test(a_broken_pipe_is_an_error_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
