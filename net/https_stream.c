#include "net/https_stream.h"

static void on_close(struct evhttp_connection *con, void *arg)
{
	struct https_stream *s = arg;
	(void)con;
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

void https_stream_send(struct https_stream *s, struct evbuffer *piece)
{
	s->busy = true;
	s->conn->all->counters.bytes_out += evbuffer_get_length(piece);
	https_conn_due_bytes(s->conn, evbuffer_get_length(piece));
	evhttp_send_reply_chunk_with_cb(s->http, piece, on_drained, s);
}

void https_stream_end(struct https_stream *s)
{
	s->conn->stream = NULL;
	https_conn_due(s->conn, s->conn->all->config.request_ns);
	evhttp_connection_set_closecb(evhttp_request_get_connection(s->http), NULL, NULL);
	evhttp_send_reply_end(s->http);
}

void https_stream_drop(struct https_stream *s)
{
	s->conn->stream = NULL;
	evhttp_connection_set_closecb(evhttp_request_get_connection(s->http), NULL, NULL);
	s->gone(s);
}
