/* Inside the HTTPS server: the headers that every reply has, and replies that are sent at once. */
#ifndef NET_HTTPS_ANSWER_H
#define NET_HTTPS_ANSWER_H
#include <event2/buffer.h>
#include "net/https_conn.h"
#include "net/https_reply.h"

void https_answer_header(struct https_request *r, const char *name, const char *value);
/* The security headers and those that content asks for. */
void https_answer_headers(struct https_request *r, const struct https_reply_content *content);
bool https_answer_head(const struct https_request *r); /* only headers are wanted */
/* Answers r; the content of body is taken. */
void https_answer_send(struct https_request *r, int status, struct evbuffer *body);

#endif
