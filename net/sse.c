#include "net/sse.h"
#include <event2/event.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "net/https_answer.h"
#include "net/https_reply.h"
#include "net/https_stream.h"

#define RETRY "retry: 2000\n\n" /* ms until a browser that lost us asks again */

struct sse_client {
	struct https_stream stream; // first: a stream's callbacks get back to the client by it
	LIST_ENTRY(sse_client) link;
	struct sse *owner;
	struct evbuffer *waiting;
	bool dropped;
};

struct sse {
	LIST_HEAD(, sse_client) clients;
	struct sse_config config;
	struct event *ping;
	size_t count;
	uint64_t dropped;
};

static void forget(struct https_stream *s)
{
	struct sse_client *c = (struct sse_client *)s;
	LIST_REMOVE(c, link);
	c->owner->count--;
	evbuffer_free(c->waiting);
	free(c);
}

static void flush(struct https_stream *s)
{
	struct sse_client *c = (struct sse_client *)s;
	if (!s->busy && !c->dropped && evbuffer_get_length(c->waiting) > 0)
		https_stream_send(s, c->waiting);
}

/* Text for one client, which is dropped instead when too much waits for it already. */
static void queue(struct sse_client *c, const void *text, size_t n)
{
	struct sse *s = c->owner;
	if (c->dropped)
		return;
	if (evbuffer_get_length(c->waiting) + n <= s->config.behind_most) {
		evbuffer_add(c->waiting, text, n);
		flush(&c->stream);
		return;
	}
	c->dropped = true;
	s->dropped++;
	https_conn_cut(c->stream.conn);
}

static void on_ping(evutil_socket_t fd, short what, void *arg)
{
	struct sse *s = arg;
	struct sse_client *c;
	(void)fd, (void)what;
	LIST_FOREACH(c, &s->clients, link)
	{
		if (!c->stream.busy)
			queue(c, ":\n\n", 3);
	}
}

struct sse *sse_new(struct event_base *base, const struct sse_config *config)
{
	struct sse *s = alloc_must_zero(1, sizeof *s);
	struct timeval each = {(time_t)(config->ping_ns / 1000000000u),
		(suseconds_t)(config->ping_ns / 1000u % 1000000u)};
	s->config = *config;
	LIST_INIT(&s->clients);
	s->ping = event_new(base, -1, EV_PERSIST, on_ping, s);
	if (!s->ping || event_add(s->ping, &each) != 0)
		abort(); // only memory can fail
	return s;
}

void sse_free(struct sse *s)
{
	if (!s)
		return;
	for (struct sse_client *c; (c = LIST_FIRST(&s->clients));) {
		https_stream_end(&c->stream);
		forget(&c->stream);
	}
	event_free(s->ping);
	free(s);
}

/* What the browser saw last; false at its first visit. */
static bool last_seen(const struct https_request *r, uint64_t *id)
{
	const char *text = https_request_header(r, "Last-Event-ID");
	char *end;
	if (!text || *text < '0' || *text > '9')
		return false;
	*id = strtoull(text, &end, 10);
	return *end == 0;
}

static void welcome(struct sse *s, struct https_request *r)
{
	uint64_t id;
	bool again = last_seen(r, &id);
	struct sse_client *c = alloc_must_zero(1, sizeof *c);
	c->stream = (struct https_stream){.drained = flush, .gone = forget};
	c->owner = s;
	c->waiting = evbuffer_new();
	if (!c->waiting)
		abort();
	LIST_INSERT_HEAD(&s->clients, c, link);
	s->count++;
	https_stream_start(&c->stream, r, 200);
	queue(c, RETRY, strlen(RETRY));
	if (s->config.arrived)
		s->config.arrived(s->config.arg, c, again ? &id : NULL);
}

void sse_open(struct sse *s, struct https_request *r)
{
	struct https_reply_content content = {.type = "text/event-stream"};
	struct why why;
	if (s->count >= s->config.clients_most) {
		err_why(&why, ERR_busy,
			"%zu others are watching, which is all that this coordinator takes; try "
			"again later",
			s->count);
		https_reply_error(r, 0, &why);
		return;
	}
	if (https_answer_head(r)) {
		https_reply_bytes(r, &content, "", 0);
		return;
	}
	https_answer_headers(r, &content);
	https_answer_header(r, "X-Accel-Buffering", "no"); // a proxy must pass each event on
	welcome(s, r);
}

/* Every line of data gets its own field, so that no text can end an event or begin another. */
static uint8_t *format(uint64_t id, const char *event, const char *data, size_t *n)
{
	struct buf b;
	buf_init(&b, SIZE_MAX / 2);
	buf_printf(&b, "id: %" PRIu64 "\nevent: %s\n", id, event);
	for (;;) {
		size_t line = strcspn(data, "\r\n");
		buf_printf(&b, "data: ");
		buf_put(&b, data, line);
		buf_put_u8(&b, '\n');
		data += line;
		if (!*data)
			break;
		data++;
	}
	buf_put_u8(&b, '\n');
	return buf_steal(&b, n);
}

void sse_tell(struct sse_client *c, uint64_t id, const char *event, const char *data)
{
	size_t n;
	uint8_t *text = format(id, event, data, &n);
	if (text)
		queue(c, text, n);
	free(text);
}

void sse_send(struct sse *s, uint64_t id, const char *event, const char *data)
{
	size_t n;
	struct sse_client *c;
	uint8_t *text = format(id, event, data, &n);
	LIST_FOREACH(c, &s->clients, link)
	{
		if (text)
			queue(c, text, n);
	}
	free(text);
}

size_t sse_count(const struct sse *s)
{
	return s->count;
}

uint64_t sse_dropped(const struct sse *s)
{
	return s->dropped;
}
