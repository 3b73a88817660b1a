/*
 * Inside the HTTPS server: its connections, which evhttp does not bound.  Each has a time by which
 * something must have happened (a whole request came, a piece of the reply was taken), else it is
 * shut down, and evhttp tidies up as if the other side had left.  Not for handlers.
 */
#ifndef NET_HTTPS_CONN_H
#define NET_HTTPS_CONN_H
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "net/https_server.h"
#include "net/visitor.h"

#define HTTPS_CONN_ADDRESS 64
#define HTTPS_CONN_PIECE ((size_t)256 << 10) /* bytes of a reply to be taken within reply_ns */
#define HTTPS_CONN_SMALL ((size_t)4 << 10)   /* a reply that does not wait for the egress */

struct https_stream;

struct https_conn {
	LIST_ENTRY(https_conn) link;
	struct https_conns *all; /* NULL once the server is gone */
	SSL *ssl;
	struct bufferevent *bev;
	struct visitor *visitor;     /* NULL until the address is known */
	struct https_stream *stream; /* a reply that goes on after its handler; or NULL */
	uint64_t due_ns;             /* UINT64_MAX: it may wait */
	char address[HTTPS_CONN_ADDRESS];
};

struct https_conns {
	LIST_HEAD(, https_conn) open;
	TAILQ_HEAD(, https_stream) held; /* their next pieces wait for the egress, in this order */
	struct event *on_open;           /* when it lets the first of them go */
	struct visitors *visitors;
	SSL_CTX *tls;
	struct evconnlistener *listener;
	struct https_server_config config;
	struct https_server_counters counters;
	size_t read_most; /* bytes that may wait unread in one connection */
};

struct https_request {
	struct https_conns *all;
	struct https_conn *conn;
	struct evhttp_request *http;
	const struct https_route *route; /* NULL before one was found */
	char *path;                      /* decoded */
	struct evkeyvalq query;
	bool answered;
};

/* tls and listener are taken over. */
void https_conn_init(struct https_conns *all, const struct https_server_config *config,
	SSL_CTX *tls, struct evconnlistener *listener);
/* Connections that still stand are on their own from now on. */
void https_conn_release(struct https_conns *all);
/* evhttp's bevcb: the bufferevent of a connection that was just accepted. */
struct bufferevent *https_conn_accept(struct event_base *base, void *all);
struct https_conn *https_conn_of(struct evhttp_request *http);
/* Whose it is; false when the other side is gone already. */
bool https_conn_visitor(struct https_conn *c, uint64_t now_ns);
void https_conn_due(struct https_conn *c, uint64_t after_ns); /* from now */
/* For a reply of so many bytes. */
void https_conn_due_bytes(struct https_conn *c, size_t bytes);
void https_conn_rest(struct https_conn *c); /* nothing is awaited */
void https_conn_cut(struct https_conn *c);
void https_conn_sweep(struct https_conns *all, uint64_t now_ns);

#endif
