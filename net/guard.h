/*
 * What libzmq does not bound: how many TCP connections are open, how many of them strangers at one
 * address hold (members may be many behind one), how long one may stay silent, and how many bytes
 * one may send without a message coming of it (a ROUTER collects the frames of an
 * endless message without limit).  A connection that breaks a bound is shut down; libzmq then
 * tidies up as if the other side had left.  Connections are named by descriptor: libzmq tells which
 * by its monitor and with every message.  One thread.
 */
#ifndef NET_GUARD_H
#define NET_GUARD_H
#include <stddef.h>
#include <stdint.h>

struct guard_limits {
	uint32_t connections_most;
	uint32_t strangers_each; /* of one address (visitor.h), before a message of an admitted key
				  */
	uint64_t silent_ns;      /* without a message of an admitted key */
	uint64_t unseen_most;    /* bytes received from the network that no message accounts for */
};

struct guard;
struct guard *guard_new(const struct guard_limits *limits);
void guard_free(struct guard *g);
void guard_accepted(struct guard *g, int fd, uint64_t now_ns);
void guard_gone(struct guard *g, int fd);
/* A message of so many bytes (all frames) came over fd; -1 and strangers are passed over. */
void guard_seen(struct guard *g, int fd, size_t bytes, uint64_t now_ns);
/* Shut one down now, if it is still the connection that was accepted. */
void guard_cut(struct guard *g, int fd);
/* Shut down whatever broke a bound. */
void guard_tick(struct guard *g, uint64_t now_ns);
size_t guard_count(const struct guard *g); /* connections open */
uint64_t guard_cuts(const struct guard *g);

#endif
