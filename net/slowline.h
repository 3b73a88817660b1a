/*
 * A line that carries so many bytes a second and delivers them so much later: what a link sends
 * goes through it when a volunteer limits what is sent, or a test wants a far link without
 * emulating one. First in, first out.  Decides with the times that it is given and reads no clock.
 */
#ifndef NET_SLOWLINE_H
#define NET_SLOWLINE_H
#include <stdbool.h>
#include <stdint.h>
#include "net/link_event.h"
#include "net/transfer.h"

#define SLOWLINE_MESSAGES 4096u    /* beside chunks: most that wait */
#define SLOWLINE_BYTES (16u << 20) /* and the bytes of their payloads */

struct slowline;

struct slowline_item {
	uint8_t key[LINK_KEY];
	uint32_t conn;
	struct transfer_out out; /* with a reference of its own to out.bytes, if there are any */
};

/* bytes_per_s 0: any number. */
struct slowline *slowline_new(double bytes_per_s, uint64_t delay_ns);
void slowline_free(struct slowline *s);
/* Takes a copy of the item and a reference to its bytes.  false, and nothing is taken: it is a
 * chunk and what was put before keeps the line busy for a while yet, or so much else waits already
 * that the line cannot be keeping up; after a slowline_take there may be room. */
bool slowline_put(struct slowline *s, const struct slowline_item *item, uint64_t now_ns);
/* The next item that has arrived by now_ns; the caller drops its reference. */
bool slowline_take(struct slowline *s, uint64_t now_ns, struct slowline_item *out);
uint64_t slowline_due(
	const struct slowline *s); /* when the next one arrives; UINT64_MAX when empty */

#endif
