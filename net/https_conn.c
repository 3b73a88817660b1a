#include "net/https_conn.h"
#include <event2/bufferevent_ssl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/https_stream.h"

/* The SSL object is the one thing that lives exactly as long as a connection does in evhttp, from
 * the first byte on, so what we know of a connection hangs there. */
static pthread_once_t slot_once = PTHREAD_ONCE_INIT;
static int slot;

static void on_free(void *ssl, void *value, CRYPTO_EX_DATA *data, int index, long l, void *p)
{
	struct https_conn *c = value;
	(void)ssl, (void)data, (void)index, (void)l, (void)p;
	if (c && c->all) {
		LIST_REMOVE(c, link);
		c->all->counters.connections--;
		if (c->visitor)
			c->visitor->connections--;
	}
	free(c);
}

static void slot_make(void)
{
	slot = SSL_get_ex_new_index(0, NULL, NULL, NULL, on_free);
	if (slot < 0)
		abort(); // only memory can fail
}

/* The first message of a handshake: who has too many is sent away before it costs a signature. */
static int on_hello(SSL *ssl, int *alert, void *arg)
{
	struct https_conns *all = arg;
	struct https_conn *c = SSL_get_ex_data(ssl, slot);
	if (https_conn_visitor(c, clock_now_ns()) &&
		c->visitor->connections <= all->config.connections_each)
		return SSL_CLIENT_HELLO_SUCCESS;
	all->counters.refused_connections++;
	*alert = SSL_AD_ACCESS_DENIED;
	return SSL_CLIENT_HELLO_ERROR;
}

void https_conn_init(struct https_conns *all, const struct https_server_config *config,
	SSL_CTX *tls, struct evconnlistener *listener)
{
	pthread_once(&slot_once, slot_make);
	LIST_INIT(&all->open);
	TAILQ_INIT(&all->held);
	all->config = *config;
	all->visitors = visitor_table(config->per_s, config->burst);
	all->tls = tls;
	all->listener = listener;
	SSL_CTX_set_client_hello_cb(tls, on_hello, all);
	// evhttp keeps a body of known length unread until it is whole.
	all->read_most = config->headers_most + 4096;
	for (size_t i = 0; i < config->n_routes; i++)
		if (config->routes[i].body_most + config->headers_most + 4096 > all->read_most)
			all->read_most = config->routes[i].body_most + config->headers_most + 4096;
}

void https_conn_release(struct https_conns *all)
{
	struct https_conn *c;
	while ((c = LIST_FIRST(&all->open))) {
		LIST_REMOVE(c, link);
		c->all = NULL;
	}
	visitor_free(all->visitors);
	SSL_CTX_free(all->tls);
}

struct bufferevent *https_conn_accept(struct event_base *base, void *arg)
{
	struct https_conns *all = arg;
	struct https_conn *c = alloc_must_zero(1, sizeof *c);
	c->ssl = SSL_new(all->tls);
	c->all = all;
	// Without a bufferevent of ours evhttp would speak plain HTTP, so there is no going on.
	if (!c->ssl || SSL_set_ex_data(c->ssl, slot, c) != 1)
		abort();
	struct bufferevent *bev = bufferevent_openssl_socket_new(
		base, -1, c->ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
	if (!bev)
		abort();
	c->bev = bev;
	LIST_INSERT_HEAD(&all->open, c, link);
	// While a reply is sent, and while a chunk's length has no end, evhttp reads on and keeps
	// what comes; this bounds it.
	bufferevent_setwatermark(bev, EV_READ, 0, all->read_most);
	bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
	https_conn_due(c, all->config.request_ns);
	if (++all->counters.connections >= all->config.connections_most)
		evconnlistener_disable(all->listener); // the others wait in the kernel's queue
	return bev;
}

struct https_conn *https_conn_of(struct evhttp_request *http)
{
	struct evhttp_connection *con = evhttp_request_get_connection(http);
	SSL *ssl = bufferevent_openssl_get_ssl(evhttp_connection_get_bufferevent(con));
	return SSL_get_ex_data(ssl, slot);
}

bool https_conn_visitor(struct https_conn *c, uint64_t now_ns)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof address;
	int fd = SSL_get_fd(c->ssl);
	if (c->visitor)
		return true;
	if (fd < 0 || getpeername(fd, (struct sockaddr *)&address, &len) != 0)
		return false;
	if (getnameinfo((struct sockaddr *)&address, len, c->address, sizeof c->address, NULL, 0,
		    NI_NUMERICHOST) != 0)
		return false;
	if (strncmp(c->address, "::ffff:", 7) == 0)
		memmove(c->address, c->address + 7, strlen(c->address + 7) + 1);
	c->visitor = visitor_find(c->all->visitors, (struct sockaddr *)&address, now_ns);
	c->visitor->connections++;
	return true;
}

void https_conn_due(struct https_conn *c, uint64_t after_ns)
{
	c->due_ns = clock_now_ns() + after_ns;
}

void https_conn_due_bytes(struct https_conn *c, size_t bytes)
{
	https_conn_due(c, c->all->config.reply_ns * (1 + bytes / HTTPS_CONN_PIECE));
}

void https_conn_rest(struct https_conn *c)
{
	c->due_ns = UINT64_MAX;
}

void https_conn_cut(struct https_conn *c)
{
	int fd = SSL_get_fd(c->ssl);
	if (fd >= 0)
		shutdown(fd, SHUT_RDWR);
	// Where reading stands still at the watermark, the end would not be seen.
	bufferevent_setwatermark(c->bev, EV_READ, 0, 0);
	https_conn_rest(c); // once is enough
}

void https_conn_sweep(struct https_conns *all, uint64_t now_ns)
{
	struct https_conn *c;
	LIST_FOREACH(c, &all->open, link)
	{
		bool late = now_ns >= c->due_ns;
		// Who connects and says nothing never comes to on_hello.
		bool many = !c->visitor && https_conn_visitor(c, now_ns) &&
			    c->visitor->connections > all->config.connections_each;
		if (!late && !many)
			continue;
		all->counters.cut += late;
		all->counters.refused_connections += many;
		log_at(http, 2, "%s: connection cut: %s", c->address[0] ? c->address : "?",
			late ? "too slow" : "too many of this address");
		https_conn_cut(c);
	}
	visitor_tick(all->visitors, now_ns);
	if (all->counters.connections < all->config.connections_most)
		evconnlistener_enable(all->listener);
}
