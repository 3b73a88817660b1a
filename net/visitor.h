/*
 * The addresses that connections come from: how many each has open and how fast it asks.  An IPv6
 * /64, which is what one customer gets, counts as one.  The table is bounded; when it is full of
 * active addresses the rest share one row.  One thread.
 */
#ifndef NET_VISITOR_H
#define NET_VISITOR_H
#include <stdint.h>
#include <sys/socket.h>
#include "net/bucket.h"

struct visitor {
	struct visitor *next; /* in its chain */
	uint8_t key[16];
	uint32_t connections; /* kept by the caller */
	uint64_t seen_ns;
	struct bucket bucket;
};

struct visitors;
struct visitors *visitor_table(uint32_t per_s, uint32_t burst);
void visitor_free(struct visitors *t); /* NULL-safe */
/* Valid while it has connections, else until the next visitor_tick. */
struct visitor *visitor_find(struct visitors *t, const struct sockaddr *address, uint64_t now_ns);
/* Forget who is gone and was quiet for long enough to have a full bucket. */
void visitor_tick(struct visitors *t, uint64_t now_ns);

#endif
