#include "net/https_body.h"
#include <stdio.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "net/https_answer.h"
#include "net/https_stream.h"

struct https_body {
	struct https_stream stream; // first: a stream's callbacks get back to the body by it
	struct evbuffer *left;
};

static void forget(struct https_stream *s)
{
	struct https_body *b = (struct https_body *)s;
	evbuffer_free(b->left);
	free(b);
}

static void next(struct https_stream *s)
{
	struct https_body *b = (struct https_body *)s;
	if (!evbuffer_get_length(b->left)) {
		https_stream_end(s);
		forget(s);
		return;
	}
	struct evbuffer *piece = evbuffer_new();
	if (!piece || evbuffer_remove_buffer(b->left, piece,
			      egress_piece(s->conn->all->config.egress, HTTPS_CONN_PIECE)) < 0)
		abort(); // only memory can fail
	https_stream_send(s, piece);
	evbuffer_free(piece);
}

void https_body_send(struct https_request *r, int status, struct evbuffer *body)
{
	struct https_body *b = alloc_must_zero(1, sizeof *b);
	char length[24];
	b->stream = (struct https_stream){.drained = next, .gone = forget};
	b->left = evbuffer_new();
	if (!b->left || evbuffer_add_buffer(b->left, body) != 0)
		abort(); // only memory can fail
	snprintf(length, sizeof length, "%zu", evbuffer_get_length(b->left));
	https_answer_header(r, "Content-Length", length);
	https_stream_start(&b->stream, r, status);
	next(&b->stream);
}
