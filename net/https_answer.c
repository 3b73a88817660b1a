#include "net/https_answer.h"
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "net/https_body.h"

/* Nothing is loaded from, framed by or sent to anybody else, and nothing is guessed. */
static const struct {
	const char *name, *value;
} always[] = {
	{"Content-Security-Policy",
		"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
		"object-src 'none'"},
	{"X-Content-Type-Options", "nosniff"},
	{"Referrer-Policy", "no-referrer"},
	{"X-Frame-Options", "DENY"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
};

void https_answer_header(struct https_request *r, const char *name, const char *value)
{
	evhttp_add_header(evhttp_request_get_output_headers(r->http), name, value);
}

void https_answer_headers(struct https_request *r, const struct https_reply_content *content)
{
	for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
		https_answer_header(r, always[i].name, always[i].value);
	https_answer_header(r, "Content-Type", content->type);
	https_answer_header(
		r, "Cache-Control", content->cache ? content->cache : HTTPS_REPLY_NO_STORE);
	if (content->filename) {
		char value[160];
		snprintf(value, sizeof value, "attachment; filename=\"%.120s\"", content->filename);
		https_answer_header(r, "Content-Disposition", value);
	}
}

bool https_answer_head(const struct https_request *r)
{
	return evhttp_request_get_command(r->http) == EVHTTP_REQ_HEAD;
}

static void on_complete(struct evhttp_request *http, void *arg)
{
	struct https_conn *c = arg;
	(void)http;
	https_conn_due(c, c->all->config.request_ns);
}

void https_answer_send(struct https_request *r, int status, struct evbuffer *body)
{
	size_t n = evbuffer_get_length(body);
	char length[24];
	if (https_answer_head(r)) {
		snprintf(length, sizeof length, "%zu", n);
		https_answer_header(r, "Content-Length", length);
		evbuffer_drain(body, n);
		n = 0;
	}
	if (n > HTTPS_CONN_SMALL && egress_is_bounded(r->all->config.egress)) {
		https_body_send(r, status, body);
		return;
	}
	r->answered = true;
	r->all->counters.bytes_out += n;
	egress_count(r->all->config.egress, n > HTTPS_CONN_SMALL ? EGRESS_bulk : EGRESS_control, n,
		clock_now_ns());
	https_conn_due_bytes(r->conn, n);
	evhttp_request_set_on_complete_cb(r->http, on_complete, r->conn);
	evhttp_send_reply(r->http, status, NULL, body);
}
