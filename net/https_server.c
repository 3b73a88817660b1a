#include "net/https_server.h"
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/https_answer.h"
#include "net/https_listen.h"
#include "net/https_stream.h"

#define SWEEP_MOST_NS (CLOCK_SECOND / 2)

struct https_server {
	struct https_conns conns;
	struct evhttp *http;
	struct event *sweep;
	uint16_t port;
};

void https_server_config_init(struct https_server_config *c)
{
	*c = (struct https_server_config){
		.per_s = 50,
		.burst = 200,
		.connections_most = 1024,
		.connections_each = 256,
		.request_ns = 20 * CLOCK_SECOND,
		.reply_ns = 30 * CLOCK_SECOND,
		.headers_most = 16384,
	};
}

static void refuse(struct https_request *r, int status, enum err code, const char *text)
{
	struct why why;
	err_why(&why, code, "%s", text);
	https_reply_error(r, status, &why);
}

static bool path_fits(const struct https_route *route, const char *path)
{
	size_t n = strlen(route->path);
	if (n > 0 && route->path[n - 1] == '*')
		return strncmp(route->path, path, n - 1) == 0;
	return strcmp(route->path, path) == 0;
}

static bool method_fits(const struct https_route *route, enum evhttp_cmd_type command)
{
	if (strcmp(route->method, "POST") == 0)
		return command == EVHTTP_REQ_POST;
	return command == EVHTTP_REQ_GET || command == EVHTTP_REQ_HEAD;
}

/* The route, or an answer that there is none. */
static const struct https_route *find(struct https_request *r)
{
	const struct https_server_config *c = &r->all->config;
	enum evhttp_cmd_type command = evhttp_request_get_command(r->http);
	const char *allowed = NULL;
	for (size_t i = 0; i < c->n_routes; i++) {
		if (!path_fits(&c->routes[i], r->path))
			continue;
		if (method_fits(&c->routes[i], command))
			return &c->routes[i];
		allowed = c->routes[i].method;
	}
	if (allowed) {
		https_answer_header(r, "Allow", allowed);
		refuse(r, 405, ERR_unsupported, "this path takes another method");
	} else {
		refuse(r, 404, ERR_missing, "there is nothing at this path");
	}
	return NULL;
}

/* Path and query, decoded; false when they are malformed. */
static bool read_uri(struct https_request *r)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(r->http);
	const char *path = evhttp_uri_get_path(uri), *query = evhttp_uri_get_query(uri);
	size_t n;
	r->path = evhttp_uridecode(path && *path ? path : "/", 0, &n);
	if (!r->path || strlen(r->path) != n)
		return false;
	return !query || evhttp_parse_query_str(query, &r->query) == 0;
}

/* A message whose end two readers could see in two places is not read at all. */
static bool framed_well(const struct https_request *r)
{
	return !https_request_header(r, "Transfer-Encoding") ||
	       !https_request_header(r, "Content-Length");
}

static void serve(struct https_request *r)
{
	size_t n;
	if (!https_conn_visitor(r->conn, clock_now_ns()) ||
		!bucket_take(&r->conn->visitor->bucket, clock_now_ns())) {
		r->all->counters.refused_rate++;
		https_answer_header(r, "Retry-After", "2");
		refuse(r, 429, ERR_busy,
			"too many requests from this address; ask again in some seconds");
		return;
	}
	if (!framed_well(r) || !read_uri(r)) {
		https_answer_header(r, "Connection", "close");
		refuse(r, 400, ERR_syntax, "the request is malformed");
		return;
	}
	r->route = find(r);
	if (!r->route)
		return;
	https_request_body(r, &n);
	if (n > r->route->body_most) {
		refuse(r, 413, ERR_toobig, "the body is larger than this path takes");
		return;
	}
	r->route->fn(r->all->config.arg, r);
	if (!r->answered)
		refuse(r, 500, ERR_state, "no answer was made; this is a mistake of the program");
}

static void on_request(struct evhttp_request *http, void *arg)
{
	struct https_server *s = arg;
	struct https_request r = {.all = &s->conns, .conn = https_conn_of(http), .http = http};
	TAILQ_INIT(&r.query);
	s->conns.counters.requests++;
	https_conn_due(r.conn, s->conns.config.reply_ns);
	serve(&r);
	evhttp_clear_headers(&r.query);
	free(r.path);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct https_server *s = arg;
	(void)fd, (void)what;
	https_conn_sweep(&s->conns, clock_now_ns());
}

/* No descriptor is left: wait until the sweep, instead of spinning. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
	int e = errno;
	(void)arg;
	log_warn(http, "cannot accept connections for the moment: %s", strerror(e));
	evconnlistener_disable(listener);
}

static void on_open(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	https_stream_resume(arg);
}

static void start_sweep(struct https_server *s, struct event_base *base)
{
	const struct https_server_config *c = &s->conns.config;
	uint64_t ns = c->request_ns < c->reply_ns ? c->request_ns / 4 : c->reply_ns / 4;
	if (ns > SWEEP_MOST_NS)
		ns = SWEEP_MOST_NS;
	struct timeval each = {0, (suseconds_t)(ns / 1000u)};
	s->sweep = event_new(base, -1, EV_PERSIST, on_sweep, s);
	s->conns.on_open = event_new(base, -1, 0, on_open, &s->conns);
	if (!s->conns.on_open || !s->sweep || event_add(s->sweep, &each) != 0)
		abort(); // only memory can fail
}

enum err https_server_new(struct event_base *base, const struct https_server_config *config,
	struct https_server **out, struct why *why)
{
	struct evconnlistener *listener;
	uint16_t port;
	*out = NULL;
	enum err e = https_listen_open(base, config->bind, &listener, &port, why);
	if (e)
		return e;
	struct https_server *s = alloc_must_zero(1, sizeof *s);
	s->port = port;
	https_conn_init(&s->conns, config, tls_server(config->tls), listener);
	s->http = evhttp_new(base);
	if (!s->http || !evhttp_bind_listener(s->http, listener))
		abort(); // only memory can fail
	evconnlistener_set_error_cb(listener, on_accept_error);
	evhttp_set_bevcb(s->http, https_conn_accept, &s->conns);
	evhttp_set_gencb(s->http, on_request, s);
	evhttp_set_max_headers_size(s->http, (ev_ssize_t)config->headers_most);
	evhttp_set_max_body_size(s->http, (ev_ssize_t)(s->conns.read_most - config->headers_most));
	// All, so that the answer to a wrong one is ours.
	evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
						    EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
						    EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE |
						    EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH);
	start_sweep(s, base);
	*out = s;
	return ERR_OK;
}

void https_server_free(struct https_server *s)
{
	struct https_conn *c;
	if (!s)
		return;
	LIST_FOREACH(c, &s->conns.open, link)
	{
		if (c->stream)
			https_stream_drop(c->stream);
	}
	event_free(s->sweep);
	event_free(s->conns.on_open);
	evhttp_free(s->http);
	https_conn_release(&s->conns);
	free(s);
}

uint16_t https_server_port(const struct https_server *s)
{
	return s->port;
}

void https_server_counters(const struct https_server *s, struct https_server_counters *out)
{
	*out = s->conns.counters;
}
