#include "net/tunnel.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "net/https_client.h"
#include "net/link.h"
#include "net/zsock.h"

#define WAYS_MOST 512u
#define BUFFER ((size_t)65536) /* bytes of each direction */
#define LEFT_MOST (2 * CLOCK_SECOND)
#define WAIT_MS 200

enum side { HERE, THERE };

/* What came from one side and is to go to the other. */
struct flow {
	uint8_t *bytes; /* BUFFER of them, once the way stands */
	size_t at, len;
	bool ended, told; /* nothing more comes; the other side knows */
};

struct way {
	struct way *next;
	uint32_t id;
	enum tunnel_state state;
	struct why why;
	char address[LINK_ADDRESS];
	CURL *curl; /* while it opens */
	bool known; /* to curl's multi handle */
	char detail[CURL_ERROR_SIZE];
	int listener, fd[2]; /* -1: none */
	struct flow from[2]; /* HERE, THERE */
	uint64_t close_ns;   /* at the latest; 0: it is wanted */
};

struct tunnel {
	const struct proxy *proxy;
	uint64_t connect_ns;
	CURLM *multi;
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	struct way *ways;
	uint32_t count, last_id;
	uint64_t stop_ns; /* 0: not asked to */
};

/* ---- one way */

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void end_curl(struct tunnel *t, struct way *w)
{
	if (w->known)
		curl_multi_remove_handle(t->multi, w->curl);
	if (w->curl)
		curl_easy_cleanup(w->curl);
	w->curl = NULL;
	w->known = false;
}

static void way_free(struct tunnel *t, struct way *w)
{
	end_curl(t, w);
	shut(&w->listener);
	for (int i = 0; i < 2; i++) {
		shut(&w->fd[i]);
		free(w->from[i].bytes);
	}
	free(w);
}

/* In the abstract namespace, so that nothing is left behind in a folder; who may connect is looked
 * at when it does. */
static int listen_here(char endpoint[static TUNNEL_ENDPOINT])
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	uint64_t secret;
	rng_secret(&secret, sizeof secret);
	char *name = at.sun_path + 1; /* after a NUL */
	snprintf(name, sizeof at.sun_path - 1, "shoal-%016llx", (unsigned long long)secret);
	snprintf(endpoint, TUNNEL_ENDPOINT, "ipc://@%.40s", name);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && (bind(fd, (const struct sockaddr *)&at, len) || listen(fd, 4)))
		shut(&fd);
	return fd;
}

static void ask_curl(const struct tunnel *t, struct way *w)
{
	char url[LINK_ADDRESS + 16];
	snprintf(url, sizeof url, "http://%s", w->address);
	curl_easy_setopt(w->curl, CURLOPT_URL, url);
	curl_easy_setopt(w->curl, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(w->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(w->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)(t->connect_ns / CLOCK_MS) + 1);
	curl_easy_setopt(w->curl, CURLOPT_ERRORBUFFER, w->detail);
	curl_easy_setopt(w->curl, CURLOPT_PRIVATE, w);
	proxy_apply(t->proxy, w->curl);
}

enum err tunnel_open(struct tunnel *t, const char *address, uint32_t *way,
	char endpoint[static TUNNEL_ENDPOINT], struct why *why)
{
	struct way *w = alloc_must_zero(1, sizeof *w);
	w->fd[HERE] = w->fd[THERE] = -1;
	snprintf(w->address, sizeof w->address, "%s", address);
	w->listener = listen_here(endpoint);
	w->curl = w->listener >= 0 ? curl_easy_init() : NULL;
	if (w->curl)
		ask_curl(t, w);
	pthread_mutex_lock(&t->lock);
	const bool room = w->curl && t->count < WAYS_MOST;
	if (room) {
		t->count++;
		*way = w->id = ++t->last_id ? t->last_id : ++t->last_id;
		w->next = t->ways;
		t->ways = w;
	}
	pthread_mutex_unlock(&t->lock);
	if (!room) {
		way_free(t, w);
		return err_why(why, ERR_network, "no way through the proxy to %s can be begun: %s",
			address, strerror(errno ? errno : EMFILE));
	}
	curl_multi_wakeup(t->multi);
	return ERR_OK;
}

static struct way *find(const struct tunnel *t, uint32_t id)
{
	for (struct way *w = t->ways; w; w = w->next)
		if (w->id == id)
			return w;
	return NULL;
}

enum tunnel_state tunnel_look(struct tunnel *t, uint32_t id, struct why *why)
{
	pthread_mutex_lock(&t->lock);
	const struct way *w = find(t, id);
	const enum tunnel_state state = w ? w->state : TUNNEL_ended;
	if (state == TUNNEL_failed)
		*why = w->why;
	pthread_mutex_unlock(&t->lock);
	return state;
}

void tunnel_leave(struct tunnel *t, uint32_t id)
{
	pthread_mutex_lock(&t->lock);
	struct way *w = find(t, id);
	if (w && !w->close_ns)
		w->close_ns = clock_now_ns() + LEFT_MOST;
	pthread_mutex_unlock(&t->lock);
	curl_multi_wakeup(t->multi);
}

const struct proxy *tunnel_proxy(const struct tunnel *t)
{
	return t->proxy;
}

/* ---- the thread: opening */

static void failed(struct tunnel *t, struct way *w, CURLcode code)
{
	const struct proxy_fault f = {t->proxy, w->curl, code, w->detail, w->address};
	if (!proxy_explain(&f, &w->why))
		(void)err_why(&w->why, ERR_network, "no way to %s through the proxy %s: %s",
			w->address, t->proxy->shown,
			w->detail[0] ? w->detail : curl_easy_strerror(code));
	w->state = TUNNEL_failed;
}

/* curl closes its own descriptor of the connection, which goes on by a copy. */
static void opened(struct tunnel *t, struct way *w, CURLcode code)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	if (!code)
		curl_easy_getinfo(w->curl, CURLINFO_ACTIVESOCKET, &fd);
	w->fd[THERE] = fd == CURL_SOCKET_BAD ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (w->fd[THERE] < 0) {
		failed(t, w, code ? code : CURLE_COULDNT_CONNECT);
	} else {
		(void)fcntl(w->fd[THERE], F_SETFL, O_NONBLOCK);
		zsock_prefer_bbr(w->fd[THERE]);
		for (int i = 0; i < 2; i++)
			w->from[i].bytes = alloc_must(BUFFER);
		w->state = TUNNEL_standing;
	}
	end_curl(t, w);
	if (w->state == TUNNEL_failed)
		shut(&w->listener); /* whoever waits there looks for the cause */
}

static void turn_curl(struct tunnel *t)
{
	int running, left;
	for (struct way *w = t->ways; w; w = w->next)
		if (w->curl && !w->known)
			w->known = !curl_multi_add_handle(t->multi, w->curl);
	curl_multi_perform(t->multi, &running);
	for (CURLMsg *m; (m = curl_multi_info_read(t->multi, &left));) {
		char *way = NULL;
		const CURLcode code = m->data.result;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &way);
		if (m->msg == CURLMSG_DONE && way)
			opened(t, (struct way *)(void *)way, code);
	}
}

/* ---- the thread: carrying */

/* Nobody but this very process. */
static void take_in(struct way *w)
{
	struct ucred who = {0};
	socklen_t len = sizeof who;
	int fd = accept4(w->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) || who.pid != getpid()) {
		close(fd);
		return;
	}
	w->fd[HERE] = fd;
	shut(&w->listener);
}

static bool would_wait(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* False: the connection is broken. */
static bool carry(struct way *w, enum side side)
{
	struct flow *f = &w->from[side];
	if (!f->len && !f->ended) {
		ssize_t n = recv(w->fd[side], f->bytes, BUFFER, 0);
		if (n < 0 && !would_wait(n))
			return false;
		f->at = 0;
		f->len = n > 0 ? (size_t)n : 0;
		f->ended = n == 0;
	}
	if (f->len) {
		ssize_t n = send(w->fd[!side], f->bytes + f->at, f->len, MSG_NOSIGNAL);
		if (n < 0 && !would_wait(n))
			return false;
		f->at += n > 0 ? (size_t)n : 0;
		f->len -= n > 0 ? (size_t)n : 0;
	}
	if (f->ended && !f->len && !f->told) {
		(void)shutdown(w->fd[!side], SHUT_WR);
		f->told = true;
	}
	return true;
}

/* One side that has ended is told to the other one, which has a moment to end as well. */
static void turn_way(struct way *w, uint64_t now)
{
	if (w->listener >= 0)
		take_in(w);
	if (w->fd[HERE] < 0)
		return;
	const bool whole = carry(w, HERE) && carry(w, THERE);
	if (w->from[HERE].ended || w->from[THERE].ended || !whole) {
		w->state = TUNNEL_ended;
		w->close_ns = w->close_ns ? w->close_ns : now + LEFT_MOST;
	}
	if (!whole || (w->from[HERE].told && w->from[THERE].told))
		for (int i = 0; i < 2; i++)
			shut(&w->fd[i]);
}

/* A failure stays until it was looked at, which is when the way is left. */
static bool over(const struct way *w, uint64_t now)
{
	const bool open = w->fd[HERE] >= 0 || (w->state == TUNNEL_standing && !w->close_ns);
	return w->close_ns && (now >= w->close_ns || !open);
}

static void turn_ways(struct tunnel *t, uint64_t now)
{
	for (struct way **at = &t->ways; *at;) {
		struct way *w = *at;
		if (w->state == TUNNEL_standing || w->state == TUNNEL_ended)
			turn_way(w, now);
		if (t->stop_ns && (!w->close_ns || w->close_ns > t->stop_ns))
			w->close_ns = t->stop_ns;
		if (!over(w, now)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		t->count--;
		way_free(t, w);
	}
}

static void watch(struct curl_waitfd *fds, unsigned *n, int fd, short events)
{
	if (fd >= 0 && events)
		fds[(*n)++] = (struct curl_waitfd){.fd = fd, .events = events};
}

/* What could wake the thread: room and bytes, on both sides. */
static unsigned watch_all(const struct tunnel *t, struct curl_waitfd *fds)
{
	unsigned n = 0;
	for (const struct way *w = t->ways; w; w = w->next) {
		if (w->state == TUNNEL_standing && w->listener >= 0)
			watch(fds, &n, w->listener, CURL_WAIT_POLLIN);
		for (int i = 0; i < 2 && w->fd[HERE] >= 0; i++) {
			const struct flow *in = &w->from[i], *out = &w->from[!i];
			short events = !in->len && !in->ended ? CURL_WAIT_POLLIN : 0;
			events |= out->len ? CURL_WAIT_POLLOUT : 0;
			watch(fds, &n, w->fd[i], events);
		}
	}
	return n;
}

static void *run(void *arg)
{
	struct tunnel *t = arg;
	struct curl_waitfd *fds = alloc_must_zero(2 * (WAYS_MOST + 1), sizeof *fds);
	for (bool on = true; on;) {
		pthread_mutex_lock(&t->lock);
		turn_curl(t);
		turn_ways(t, clock_now_ns());
		const unsigned n = watch_all(t, fds);
		on = !t->stop_ns || t->ways;
		pthread_mutex_unlock(&t->lock);
		if (on)
			curl_multi_poll(t->multi, fds, n, WAIT_MS, NULL);
	}
	free(fds);
	return NULL;
}

/* ---- life */

enum err tunnel_new(
	const struct proxy *proxy, uint64_t connect_ns, struct tunnel **out, struct why *why)
{
	*out = NULL;
	enum err e = https_client_start(why);
	if (e)
		return e;
	struct tunnel *t = alloc_must_zero(1, sizeof *t);
	t->proxy = proxy;
	t->connect_ns = connect_ns;
	t->multi = curl_multi_init();
	pthread_mutex_init(&t->lock, NULL);
	if (!t->multi || pthread_create(&t->thread, NULL, run, t)) {
		if (t->multi)
			curl_multi_cleanup(t->multi);
		free(t);
		return err_why(why, ERR_nomem, "no thread for the proxy could be started");
	}
	*out = t;
	return ERR_OK;
}

void tunnel_free(struct tunnel *t, uint64_t linger_ns)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop_ns = clock_now_ns() + linger_ns;
	pthread_mutex_unlock(&t->lock);
	curl_multi_wakeup(t->multi);
	pthread_join(t->thread, NULL);
	curl_multi_cleanup(t->multi);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
