/*
 * A bad line between a peer and its coordinator: TCP connections to an address of its own on this
 * machine (127.0.0.2 and on) are carried on to the same ports at 127.0.0.1, and can be cut, stalled
 * and slowed down meanwhile, each direction alone.  Runs on a thread; the calls may come from one
 * other.  Give relay_teardown to cmocka instead of proc_teardown: it ends the relays, then calls
 * that.
 */
#ifndef TESTS_HELP_RELAY_H
#define TESTS_HELP_RELAY_H
#include <stddef.h>
#include <stdint.h>

struct relay; /* lives until relay_teardown */

enum relay_way { RELAY_up, RELAY_down }; /* up: from who connects to the coordinator */

/* Listens before it returns.  Fails the test when it cannot. */
struct relay *relay_start(const char *address, const uint16_t *ports, size_t n);
/* A file with the join link of this one, by way of that address; until proc_teardown. */
const char *relay_link(const char *link_file, const char *address);

/* Connections are reset, new ones too. */
void relay_cut(struct relay *r);
/* Nothing comes through any more and nobody is told, as where packets are lost: what is sent waits,
 * new connections stand and stay silent. */
void relay_stall(struct relay *r, enum relay_way way);
/* Bytes a second, all connections together; 0: as fast as it goes. */
void relay_rate(struct relay *r, enum relay_way way, uint32_t bytes_per_s);
/* As at the start.  What waited comes through now. */
void relay_heal(struct relay *r);
uint64_t relay_bytes(const struct relay *r, enum relay_way way); /* that came through so far */

int relay_teardown(void **state); /* always 0 */

#endif
