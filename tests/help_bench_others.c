#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "tests/help_bench.h"

#define LINE 16384
#define LLMC_DROPPED 1 /* touches the memory */
#define LLMC_STEPS 3
#define LLMC_NS (150 * CLOCK_SECOND)

struct other {
	pid_t pid;
	int from; /* its standard output */
	char line[LINE];
};

/* In a group of its own, so that what it starts can be ended with it. */
static void start(struct other *o, const char *const *argv, const char *folder)
{
	int pipes[2];
	if (pipe2(pipes, O_CLOEXEC) != 0)
		help_bench_die("no pipe");
	fflush(NULL);
	o->pid = fork();
	if (o->pid < 0)
		help_bench_die("no process for %s", argv[0]);
	if (o->pid == 0) {
		dup2(pipes[1], STDOUT_FILENO);
		if (setpgid(0, 0) == 0 && (!folder || chdir(folder) == 0))
			execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(pipes[1]);
	o->from = pipes[0];
}

/* The next line, without its end; false at the end, or when the time is over. */
static bool next_line(struct other *o, uint64_t end_ns)
{
	for (size_t len = 0; len + 1 < sizeof o->line;) {
		uint64_t now = clock_now_ns();
		struct pollfd p = {o->from, POLLIN, 0};
		if (now >= end_ns || poll(&p, 1, (int)((end_ns - now) / CLOCK_MS)) <= 0 ||
			read(o->from, o->line + len, 1) != 1)
			return false;
		if (o->line[len] == '\n') {
			o->line[len] = 0;
			return true;
		}
		len++;
	}
	return false;
}

/* Whether it had ended by itself, with success. */
static bool finish(struct other *o, bool kill_it)
{
	int status = 1;
	close(o->from);
	if (kill_it)
		kill(-o->pid, SIGKILL);
	return waitpid(o->pid, &status, 0) == o->pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

bool help_bench_works(const char *const *argv)
{
	struct other o;
	start(&o, argv, NULL);
	return finish(&o, false);
}

json_t *help_bench_ask(const char *const *argv, uint64_t limit_ns)
{
	struct other o;
	json_t *told = NULL;
	uint64_t end = clock_now_ns() + limit_ns;
	start(&o, argv, NULL);
	while (next_line(&o, end)) {
		json_decref(told);
		told = json_loads(o.line, 0, NULL);
	}
	if (finish(&o, clock_now_ns() >= end))
		return told;
	json_decref(told);
	return NULL;
}

double help_bench_llmc(const char *path, unsigned threads)
{
	struct other o;
	char *folder = alloc_must_strdup(path), *file = realpath(path, NULL), number[16];
	double took[LLMC_DROPPED + LLMC_STEPS];
	size_t n = 0;
	uint64_t end = clock_now_ns() + LLMC_NS;
	snprintf(number, sizeof number, "%u", threads);
	setenv("OMP_NUM_THREADS", number, 1);
	if (!file)
		help_bench_die("LLMC=%s: there is no such file", path);
	start(&o, (const char *const[]){"stdbuf", "-oL", file, NULL}, dirname(folder));
	while (n < LLMC_DROPPED + LLMC_STEPS && next_line(&o, end)) {
		const char *at = strstr(o.line, "(took ");
		if (at)
			took[n++] = strtod(at + strlen("(took "), NULL);
	}
	finish(&o, true);
	unsetenv("OMP_NUM_THREADS");
	free(folder);
	free(file);
	if (n > LLMC_DROPPED)
		return help_bench_median(took + LLMC_DROPPED, n - LLMC_DROPPED);
	fprintf(stderr,
		"bench_compute: LLMC=%s gave no times of steps; it must stand in the folder with "
		"its checkpoint and data\n",
		path);
	return 0;
}
