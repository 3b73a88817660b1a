/* All bytes that a process sends and receives, by links and HTTPS: each of them adds to one
 * counter. Any thread. */
#ifndef NET_TRAFFIC_H
#define NET_TRAFFIC_H
#include <stdatomic.h>
#include <stdint.h>

struct traffic {
	_Atomic uint64_t bytes; /* of messages, headers and bodies, both ways */
};

/* t may be NULL: nobody counts. */
static inline void traffic_add(struct traffic *t, uint64_t bytes)
{
	if (t)
		atomic_fetch_add_explicit(&t->bytes, bytes, memory_order_relaxed);
}

#endif
