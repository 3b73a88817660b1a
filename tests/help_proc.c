#include "tests/help_proc.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"

#define STREAM_MAX (64u << 20) /* a process that writes more than this is shown cut */
#define SLICE_MS 20            /* how late the end of a process is seen at most */

struct stream {
	int fd; /* -1 once it has ended */
	struct buf text;
	size_t seen; /* where proc_line goes on */
};

struct proc {
	struct proc *next;
	const char *name;
	pid_t pid;
	int input;
	int status; /* as waitpid gives it, once ended */
	bool ended;
	struct stream out, err;
};

struct kept {
	struct kept *next;
	char *text;
	bool folder;
};

static struct proc *procs;
static struct kept *keeps;

static const char *keep(char *text, bool folder)
{
	struct kept *k = alloc_must(sizeof *k);
	*k = (struct kept){.next = keeps, .text = text, .folder = folder};
	keeps = k;
	return text;
}

const char *proc_text(const char *fmt, ...)
{
	va_list args;
	char *text = NULL;
	va_start(args, fmt);
	int n = vasprintf(&text, fmt, args);
	va_end(args);
	assert_true(n >= 0);
	return keep(text, false);
}

const char *proc_scratch(void)
{
	const char *root = getenv("TMPDIR");
	char *path = alloc_must_printf("%s/shoal-test.XXXXXX", root && *root ? root : "/tmp");
	if (!mkdtemp(path))
		fail_msg("cannot make a folder %s: %s", path, strerror(errno));
	return keep(path, true);
}

const char *proc_program(const char *name)
{
	const char *bin = getenv("SHOAL_BIN");
	if (!bin)
		fail_msg("SHOAL_BIN must name the folder with the built programs, as make check "
			 "does");
	return proc_text("%s/%s", bin, name);
}

/* ---- collecting */

static void stream_read(struct stream *s)
{
	uint8_t piece[1 << 16];
	ssize_t n;
	while (s->fd >= 0 && (n = read(s->fd, piece, sizeof piece)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break;
		buf_put(&s->text, piece, (size_t)n);
	}
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* Takes what every process has written and sees which have ended; waits for news, but not long. */
static void collect(bool may_wait)
{
	struct pollfd fds[128];
	nfds_t n = 0;
	for (struct proc *p = procs; p; p = p->next)
		for (int i = 0; i < 2 && n < sizeof fds / sizeof *fds; i++)
			fds[n++] =
				(struct pollfd){.fd = i ? p->err.fd : p->out.fd, .events = POLLIN};
	(void)poll(fds, n, may_wait ? SLICE_MS : 0);
	for (struct proc *p = procs; p; p = p->next) {
		/* In this order: what was written before the end is read after it is seen. */
		if (!p->ended && waitpid(p->pid, &p->status, WNOHANG) == p->pid)
			p->ended = true;
		stream_read(&p->out);
		stream_read(&p->err);
	}
}

static const char *text_of(struct stream *s)
{
	if (!buf_grow(&s->text, 1))
		return "(too much)";
	s->text.data[--s->text.len] = 0;
	return (const char *)s->text.data;
}

const char *proc_out(struct proc *p)
{
	collect(false);
	return text_of(&p->out);
}

const char *proc_err(struct proc *p)
{
	collect(false);
	return text_of(&p->err);
}

static void give_up(struct proc *p, const char *wanted)
{
	fprintf(stderr, "---- %s (%d), standard output:\n%s---- standard error:\n%s----\n", p->name,
		(int)p->pid, text_of(&p->out), text_of(&p->err));
	fail_msg("%s: %s", p->name, wanted);
}

/* ---- starting */

static void child(const char *program, const char *const *argv, const int fd[3])
{
	/* A shell starts what it runs in the background with it ignored. */
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	if (sigaction(SIGINT, &usual, NULL))
		_exit(126);
	for (int i = 0; i < 3; i++)
		if (dup2(fd[i], i) < 0)
			_exit(126);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		_exit(126);
	execv(program, (char *const *)(uintptr_t)argv);
	dprintf(2, "cannot run %s: %s\n", program, strerror(errno));
	_exit(127);
}

struct proc *proc_start(const char *const *argv)
{
	const char *program = strchr(argv[0], '/') ? argv[0] : proc_program(argv[0]);
	int in[2], out[2], err[2];
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		fail_msg("no pipe for %s: %s", program, strerror(errno));
	struct proc *p = alloc_must_zero(1, sizeof *p);
	p->name = proc_text("%s %s", argv[0], argv[1] ? argv[1] : "");
	p->pid = fork();
	if (p->pid < 0)
		fail_msg("cannot start %s: %s", program, strerror(errno));
	if (p->pid == 0)
		child(program, argv, (const int[]){in[0], out[1], err[1]});
	close(in[0]);
	close(out[1]);
	close(err[1]);
	p->input = in[1];
	p->out.fd = out[0];
	p->err.fd = err[0];
	(void)fcntl(p->out.fd, F_SETFL, O_NONBLOCK);
	(void)fcntl(p->err.fd, F_SETFL, O_NONBLOCK);
	buf_init(&p->out.text, STREAM_MAX);
	buf_init(&p->err.text, STREAM_MAX);
	p->next = procs;
	procs = p;
	return p;
}

struct proc *proc_run(int status, unsigned seconds, const char *const *argv)
{
	struct proc *p = proc_start(argv);
	proc_input_end(p);
	int got = proc_wait(p, seconds);
	if (got != status)
		give_up(p, proc_text("exit status %d, expected %d", got, status));
	return p;
}

pid_t proc_pid(const struct proc *p)
{
	return p->pid;
}

/* ---- waiting */

/* The next whole line with text in it; a last line without its end counts when all is read. */
static const char *find_line(struct stream *s, const char *text)
{
	while (s->seen < s->text.len) {
		const char *from = (const char *)s->text.data + s->seen;
		size_t left = s->text.len - s->seen;
		const char *end = memchr(from, '\n', left);
		if (!end && s->fd >= 0)
			return NULL;
		size_t n = end ? (size_t)(end - from) : left;
		s->seen += n + (end != NULL);
		if (memmem(from, n, text, strlen(text)))
			return proc_text("%.*s", (int)n, from);
	}
	return NULL;
}

const char *proc_line(struct proc *p, const char *text, unsigned seconds)
{
	uint64_t deadline = clock_now_ns() + seconds * CLOCK_SECOND;
	for (;;) {
		bool ended = p->ended, late = clock_now_ns() >= deadline;
		collect(!ended && !late);
		const char *line = find_line(&p->out, text);
		if (!line)
			line = find_line(&p->err, text);
		if (line)
			return line;
		if (ended)
			give_up(p, proc_text("ended without a line with \"%s\"", text));
		if (late)
			give_up(p, proc_text("no line with \"%s\" in %u s", text, seconds));
	}
}

int proc_wait(struct proc *p, unsigned seconds)
{
	uint64_t deadline = clock_now_ns() + seconds * CLOCK_SECOND;
	for (collect(false); !p->ended; collect(true))
		if (clock_now_ns() >= deadline)
			give_up(p, proc_text("did not end in %u s", seconds));
	return WIFSIGNALED(p->status) ? 128 + WTERMSIG(p->status) : WEXITSTATUS(p->status);
}

bool proc_ended(struct proc *p)
{
	collect(false);
	return p->ended;
}

void proc_input(struct proc *p, const char *text)
{
	size_t n = strlen(text);
	/* A reader that has gone is an error to show, not the end of the test. */
	struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
	(void)sigaction(SIGPIPE, &ignore, &before);
	ssize_t written = write(p->input, text, n);
	(void)sigaction(SIGPIPE, &before, NULL);
	if (written != (ssize_t)n)
		give_up(p, proc_text("does not take its input: %s", strerror(errno)));
}

void proc_input_end(struct proc *p)
{
	if (p->input >= 0)
		close(p->input);
	p->input = -1;
}

void proc_signal(struct proc *p, int number)
{
	collect(false);
	if (!p->ended && kill(p->pid, number))
		give_up(p, proc_text("signal %d: %s", number, strerror(errno)));
}

/* ---- the end */

static void proc_free(struct proc *p)
{
	if (!p->ended) {
		(void)kill(p->pid, SIGKILL);
		while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR)
			;
	}
	proc_input_end(p);
	if (p->out.fd >= 0)
		close(p->out.fd);
	if (p->err.fd >= 0)
		close(p->err.fd);
	buf_release(&p->out.text);
	buf_release(&p->err.text);
	free(p);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

int proc_teardown(void **state)
{
	(void)state;
	for (struct proc *p; (p = procs) != NULL;) {
		procs = p->next;
		proc_free(p);
	}
	for (struct kept *k; (k = keeps) != NULL;) {
		keeps = k->next;
		if (k->folder)
			(void)nftw(k->text, remove_one, 16, FTW_DEPTH | FTW_PHYS);
		free(k->text);
		free(k);
	}
	return 0;
}
