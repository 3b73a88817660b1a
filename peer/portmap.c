#include "peer/portmap.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"

#define OUTPUT_MOST 1024
#define SLICE_MS 50
#define TOLD "shoal-peer upnp: " /* before a failure's sentence */

extern char **environ;

struct portmap {
	struct portmap_config config;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t asked;
	atomic_bool stop;
	/* ---- the thread's own */
	bool told;    /* something was */
	bool closing; /* the last question is asked */
	struct portmap_result last;
	struct portmap_answer at; /* of the port that is open; port 0: none is */
};

void portmap_config_init(struct portmap_config *c)
{
	*c = (struct portmap_config){
		.lease_ns = 1200 * CLOCK_SECOND,
		.again_ns = 300 * CLOCK_SECOND,
		.ask_most_ns = 10 * CLOCK_SECOND,
		.end_most_ns = 3 * CLOCK_SECOND,
	};
}

/* ---- what the answers mean */

bool portmap_is_public(struct in_addr address)
{
	static const struct {
		uint32_t net;
		int bits;
	} others[] = {{0x00000000, 8}, {0x0a000000, 8}, {0x64400000, 10}, {0x7f000000, 8},
		{0xa9fe0000, 16}, {0xac100000, 12}, {0xc0000000, 24}, {0xc0a80000, 16},
		{0xc6120000, 15}, {0xe0000000, 3}};
	const uint32_t a = ntohl(address.s_addr);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if ((a ^ others[i].net) >> (32 - others[i].bits) == 0)
			return false;
	return true;
}

static bool router_ok(const char *url)
{
	for (; *url; url++)
		if (*url <= ' ' || *url > '~' || strchr("\"'`\\", *url))
			return false;
	return true;
}

bool portmap_parse(const char *text, struct portmap_answer *out)
{
	struct in_addr number;
	unsigned port = 0;
	unsigned long long lease = 0;
	int end = 0;
	*out = (struct portmap_answer){0};
	const bool good = sscanf(text, "mapped %15[0-9.] %5u %7llu %255s%n", out->host, &port,
				  &lease, out->router, &end) == 4 &&
			  !strcmp(text + end, "\n") && port >= 1 && port <= 65535 &&
			  inet_pton(AF_INET, out->host, &number) == 1 &&
			  portmap_is_public(number) && !strncmp(out->router, "http://", 7) &&
			  router_ok(out->router);
	out->port = (uint16_t)port;
	out->lease_s = lease;
	if (!good)
		*out = (struct portmap_answer){0};
	return good;
}

/* ---- asking: a process for each question */

static bool start(const struct portmap *p, char *const *argv, pid_t *pid, int *fd)
{
	int pipes[2];
	if (pipe2(pipes, O_CLOEXEC))
		return false;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&how);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, pipes[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, pipes[1], STDERR_FILENO);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP); /* Ctrl-C is not meant for it */
	const char *program = p->config.program ? p->config.program : "/proc/self/exe";
	const bool on = posix_spawn(pid, program, &files, &how, argv, environ) == 0;
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&how);
	close(pipes[1]);
	*fd = pipes[0];
	if (!on)
		close(pipes[0]);
	return on;
}

/* Until it ends its output, says too much, or time is up; at the end it is gone. */
static bool collect(
	struct portmap *p, pid_t pid, int fd, uint64_t most_ns, char out[static OUTPUT_MOST])
{
	const uint64_t until = clock_now_ns() + most_ns;
	size_t n = 0;
	bool whole = false;
	while (!whole && n < OUTPUT_MOST - 1 && clock_now_ns() < until &&
		(p->closing || !atomic_load(&p->stop))) {
		struct pollfd f = {.fd = fd, .events = POLLIN};
		if (poll(&f, 1, SLICE_MS) <= 0)
			continue;
		ssize_t got = read(fd, out + n, OUTPUT_MOST - 1 - n);
		whole = got == 0;
		n += got > 0 ? (size_t)got : 0;
	}
	out[n] = 0;
	close(fd);
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return whole;
}

static bool ask(struct portmap *p, uint64_t most_ns, char out[static OUTPUT_MOST])
{
	char port[8], outer[8], lease[24],
		*argv[12] = {
			"shoal-peer", "upnp", "--port", port, "--lease", lease, "--outer", outer};
	size_t n = 8;
	pid_t pid;
	int fd;
	snprintf(port, sizeof port, "%u", p->config.port);
	snprintf(outer, sizeof outer, "%u", p->at.port);
	snprintf(lease, sizeof lease, "%llus",
		(unsigned long long)(p->config.lease_ns / CLOCK_SECOND));
	if (p->at.port) {
		argv[n++] = "--router";
		argv[n++] = p->at.router;
	}
	if (p->closing)
		argv[n++] = "--remove";
	out[0] = 0;
	return start(p, argv, &pid, &fd) && collect(p, pid, fd, most_ns, out);
}

/* ---- the thread */

static void tell(struct portmap *p, const struct portmap_result *r)
{
	if (p->told && p->last.mapped == r->mapped && !strcmp(p->last.address, r->address) &&
		!strcmp(p->last.why.text, r->why.text))
		return;
	p->told = true;
	p->last = *r;
	struct portmap_result *copy = alloc_must(sizeof *copy);
	*copy = *r;
	mailbox_put(p->config.results, &copy->mail);
}

static void drop(struct mail *m)
{
	free(m);
}

static void failed(struct portmap *p, bool whole, char *text)
{
	struct portmap_result r = {.mail = {.kind = PORTMAP_result, .drop = drop}};
	char *sentence = strstr(text, TOLD);
	if (!whole)
		(void)err_why(&r.why, ERR_timeout,
			"the router, or what calls itself one, has not answered within %.0f s",
			clock_seconds(p->config.ask_most_ns));
	else if (sentence) {
		sentence += strlen(TOLD);
		sentence[strcspn(sentence, "\n")] = 0;
		text_clean(sentence);
		(void)err_why(&r.why, ERR_network, "%.390s", sentence);
	} else
		(void)err_why(&r.why, ERR_network,
			"asking the router failed: what it answered is no good");
	p->at = (struct portmap_answer){0};
	tell(p, &r);
}

/* For how long that is good. */
static uint64_t ask_once(struct portmap *p)
{
	char text[OUTPUT_MOST];
	struct portmap_answer at;
	const bool whole = ask(p, p->config.ask_most_ns, text);
	if (atomic_load(&p->stop) && !whole)
		return 0;
	if (!whole || !portmap_parse(text, &at)) {
		failed(p, whole, text);
		return p->config.again_ns;
	}
	p->at = at;
	struct portmap_result r = {.mail = {.kind = PORTMAP_result, .drop = drop}, .mapped = true};
	address_join(at.host, at.port, r.address, sizeof r.address);
	tell(p, &r);
	return p->config.lease_ns / 2;
}

static void wait_until(struct portmap *p, uint64_t wait_ns)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(wait_ns / CLOCK_SECOND);
	until.tv_nsec += (long)(wait_ns % CLOCK_SECOND);
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&p->lock);
	while (!atomic_load(&p->stop) &&
		pthread_cond_timedwait(&p->asked, &p->lock, &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&p->lock);
}

static void *run(void *arg)
{
	struct portmap *p = arg;
	char ignored[OUTPUT_MOST];
	while (!atomic_load(&p->stop))
		wait_until(p, ask_once(p));
	p->closing = true;
	if (p->at.port)
		(void)ask(p, p->config.end_most_ns, ignored);
	return NULL;
}

/* ---- life */

enum err portmap_new(const struct portmap_config *config, struct portmap **out, struct why *why)
{
	struct portmap *p = alloc_must_zero(1, sizeof *p);
	pthread_condattr_t attr;
	p->config = *config;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->asked, &attr);
	pthread_condattr_destroy(&attr);
	if (pthread_create(&p->thread, NULL, run, p)) {
		free(p);
		*out = NULL;
		return err_why(why, ERR_nomem, "no thread for UPnP could be started");
	}
	*out = p;
	return ERR_OK;
}

void portmap_free(struct portmap *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->stop, true);
	pthread_cond_broadcast(&p->asked);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->asked);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
