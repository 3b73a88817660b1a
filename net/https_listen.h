/* Inside the HTTPS server: its listening socket. */
#ifndef NET_HTTPS_LISTEN_H
#define NET_HTTPS_LISTEN_H
#include <event2/listener.h>
#include <stdint.h>
#include "base/err.h"

/* address as https_server_config.bind; the listener is the caller's. */
enum err https_listen_open(struct event_base *base, const char *address,
	struct evconnlistener **out, uint16_t *port, struct why *why) MUST_CHECK;

#endif
