/* Inside the HTTPS server: a body that is in memory, in pieces, where the egress is bounded. */
#ifndef NET_HTTPS_BODY_H
#define NET_HTTPS_BODY_H
#include <event2/buffer.h>
#include "net/https_conn.h"

/* Answers r, whose headers are set; takes the content of body, which is not empty. */
void https_body_send(struct https_request *r, int status, struct evbuffer *body);

#endif
