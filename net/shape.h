/*
 * A line that carries so many bytes a second and delivers them so much later: what a link sends
 * goes through it when a volunteer limits what is sent, or a test wants a far link without
 * emulating one. First in, first out.  Decides with the times that it is given and reads no clock.
 */
#ifndef NET_SHAPE_H
#define NET_SHAPE_H
#include <stdbool.h>
#include <stdint.h>
#include "net/link_event.h"
#include "net/transfer.h"

struct shape;

struct shape_item {
	uint8_t key[LINK_KEY];
	uint32_t conn;
	struct transfer_out out; /* with a reference of its own to out.bytes, if there are any */
};

/* bytes_per_s 0: any number. */
struct shape *shape_new(double bytes_per_s, uint64_t delay_ns);
void shape_free(struct shape *s);
/* Takes a copy of the item and a reference to its bytes.  false, and nothing is taken: it has
 * bytes, and what was put before keeps the line busy for a while yet; after a shape_take there may
 * be room. */
bool shape_put(struct shape *s, const struct shape_item *item, uint64_t now_ns);
/* The next item that has arrived by now_ns; the caller drops its reference. */
bool shape_take(struct shape *s, uint64_t now_ns, struct shape_item *out);
uint64_t shape_due(const struct shape *s); /* when the next one arrives; UINT64_MAX when empty */

#endif
