/*
 * Inside the HTTPS server: a reply that is sent piece by piece after its handler has returned, the
 * next piece only when the last has drained.  Embedded in its user's struct.
 */
#ifndef NET_HTTPS_STREAM_H
#define NET_HTTPS_STREAM_H
#include <event2/buffer.h>
#include <stdbool.h>
#include <sys/queue.h>
#include "net/https_conn.h"

struct https_stream {
	struct evhttp_request *http;
	struct https_conn *conn;
	bool busy;             /* a piece is on its way, or waits for the egress */
	struct evbuffer *held; /* which waits; else NULL */
	TAILQ_ENTRY(https_stream) link;
	/* The piece was taken: send another, end, or do nothing for now. */
	void (*drained)(struct https_stream *s);
	/* The connection ended before the stream did; s is not used any more. */
	void (*gone)(struct https_stream *s);
};

/* The reply's headers are set; answers r. */
void https_stream_start(struct https_stream *s, struct https_request *r, int status);
/* Only when not busy; takes the content of piece, which is not empty.  It goes now, or when the
 * egress lets it. */
void https_stream_send(struct https_stream *s, struct evbuffer *piece);
void https_stream_end(struct https_stream *s); /* s is not used any more */
/* The server goes away. */
void https_stream_drop(struct https_stream *s);

/* The egress is open again, perhaps. */
void https_stream_resume(struct https_conns *all);

#endif
