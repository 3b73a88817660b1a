/*
 * A small real proxy for tests, on loopback: SOCKS 5 and HTTP CONNECT at one port, told apart by
 * the first byte.  It alone knows the name HELP_PROXY_NAME, which is this machine.  Runs on threads
 * of its own; the calls may come from one other.
 */
#ifndef TESTS_HELP_PROXY_H
#define TESTS_HELP_PROXY_H
#include <stdint.h>

#define HELP_PROXY_NAME "coordinator.invalid" /* no resolver answers for it */

enum help_proxy_mood {
	HELP_PROXY_open,
	HELP_PROXY_denies, /* "not allowed" */
	HELP_PROXY_lost,   /* "no way there" */
	HELP_PROXY_silent, /* takes connections and says nothing */
	HELP_PROXY_strange /* answers what no proxy does */
};
enum help_proxy_kind { HELP_PROXY_socks, HELP_PROXY_http };

struct help_proxy; /* lives until help_proxy_stop or help_proxy_end */
/* port 0: any. */
struct help_proxy *help_proxy_start(uint16_t port);
uint16_t help_proxy_port(const struct help_proxy *p);
void help_proxy_mood(struct help_proxy *p, enum help_proxy_mood mood);
/* From now on only for "user:password" (borrowed); NULL: for everybody. */
void help_proxy_password(struct help_proxy *p, const char *user_password);
/* From now on only to these ports; a 0 is none. */
void help_proxy_ports(struct help_proxy *p, uint16_t one, uint16_t other);
uint64_t help_proxy_opened(const struct help_proxy *p, enum help_proxy_kind kind);
uint64_t help_proxy_denied(const struct help_proxy *p);
uint64_t help_proxy_bytes(const struct help_proxy *p); /* that it carried, both ways */
void help_proxy_stop(struct help_proxy *p);            /* cuts all that goes through it */
void help_proxy_end(void);                             /* stops all of them */

#endif
