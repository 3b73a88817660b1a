#include "net/https_stream.h"
#include <event2/event.h>
#include <stdlib.h>
#include "base/clock.h"

static void drop_held(struct https_stream *s)
{
	if (!s->held)
		return;
	TAILQ_REMOVE(&s->conn->all->held, s, link);
	evbuffer_free(s->held);
	s->held = NULL;
}

static void on_close(struct evhttp_connection *con, void *arg)
{
	struct https_stream *s = arg;
	(void)con;
	drop_held(s);
	s->conn->stream = NULL;
	// evhttp leaves a request that is still being answered to us when its connection breaks.
	if (!evhttp_request_get_connection(s->http))
		evhttp_request_free(s->http);
	s->gone(s);
}

static void on_drained(struct evhttp_connection *con, void *arg)
{
	struct https_stream *s = arg;
	struct bufferevent *bev = evhttp_connection_get_bufferevent(con);
	// The callback may be a late one, for what was written before this piece.
	if (evbuffer_get_length(bufferevent_get_output(bev)) > 0)
		return;
	s->busy = false;
	https_conn_rest(s->conn);
	s->drained(s);
}

void https_stream_start(struct https_stream *s, struct https_request *r, int status)
{
	s->http = r->http;
	s->conn = r->conn;
	s->conn->stream = s;
	r->answered = true;
	evhttp_connection_set_closecb(evhttp_request_get_connection(s->http), on_close, s);
	evhttp_send_reply_start(s->http, status, NULL);
}

static void send_now(struct https_stream *s, struct evbuffer *piece)
{
	struct https_conns *all = s->conn->all;
	const size_t n = evbuffer_get_length(piece);
	all->counters.bytes_out += n;
	egress_count(all->config.egress, EGRESS_bulk, n, clock_now_ns());
	https_conn_due_bytes(s->conn, n);
	evhttp_send_reply_chunk_with_cb(s->http, piece, on_drained, s);
}

/* Wait for the egress behind those who do already.  Nothing is asked of the other side meanwhile.
 */
static void hold(struct https_stream *s, struct evbuffer *piece)
{
	s->held = evbuffer_new();
	if (!s->held || evbuffer_add_buffer(s->held, piece) != 0)
		abort(); // only memory can fail
	https_conn_rest(s->conn);
	TAILQ_INSERT_TAIL(&s->conn->all->held, s, link);
}

void https_stream_resume(struct https_conns *all)
{
	uint64_t wait = 0;
	while (!TAILQ_EMPTY(&all->held) &&
		!(wait = egress_wait_ns(all->config.egress, clock_now_ns()))) {
		struct https_stream *s = TAILQ_FIRST(&all->held);
		struct evbuffer *piece = s->held;
		TAILQ_REMOVE(&all->held, s, link);
		s->held = NULL;
		send_now(s, piece);
		evbuffer_free(piece);
	}
	if (TAILQ_EMPTY(&all->held))
		return;
	const struct timeval after = {.tv_sec = (time_t)(wait / CLOCK_SECOND),
		.tv_usec = (suseconds_t)(wait % CLOCK_SECOND / 1000 + 1)};
	event_add(all->on_open, &after);
}

void https_stream_send(struct https_stream *s, struct evbuffer *piece)
{
	struct https_conns *all = s->conn->all;
	s->busy = true;
	if (TAILQ_EMPTY(&all->held) && !egress_wait_ns(all->config.egress, clock_now_ns())) {
		send_now(s, piece);
		return;
	}
	const bool first = TAILQ_EMPTY(&all->held);
	hold(s, piece);
	if (first)
		https_stream_resume(all);
}

void https_stream_end(struct https_stream *s)
{
	drop_held(s);
	s->conn->stream = NULL;
	https_conn_due(s->conn, s->conn->all->config.request_ns);
	evhttp_connection_set_closecb(evhttp_request_get_connection(s->http), NULL, NULL);
	evhttp_send_reply_end(s->http);
}

void https_stream_drop(struct https_stream *s)
{
	drop_held(s);
	s->conn->stream = NULL;
	evhttp_connection_set_closecb(evhttp_request_get_connection(s->http), NULL, NULL);
	s->gone(s);
}
