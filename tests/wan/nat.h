/*
 * A home router for IPv4: what its nodes send to the world leaves with the router's address and a
 * port of its own for each flow; what comes back to that port from where the flow goes is theirs,
 * all else ends here.  TCP and UDP; nothing else passes, nor do fragments.  Packets are changed in
 * place, with their checksums (RFC 1624).  No clock, no socket.
 */
#ifndef TESTS_WAN_NAT_H
#define TESTS_WAN_NAT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAT_FLOWS 1024u      /* the one that rested longest makes room */
#define NAT_FIRST_PORT 20000 /* flow i leaves from this port and i */

struct nat_flow {
	uint64_t used; /* turn; 0: free */
	uint32_t inside, outside;
	uint16_t inside_port, outside_port; /* addresses and ports as in packets: big-endian */
	uint8_t protocol;
};

struct nat {
	uint32_t address; /* big-endian; 0: there is no router */
	uint64_t turn;
	struct nat_flow flow[NAT_FLOWS];
};

/* A packet from inside to the world; false: it does not pass. */
bool nat_out(struct nat *n, uint8_t *bytes, size_t len);
/* A packet to the router's address; its receiver is inside then.  false: nobody asked for it. */
bool nat_in(struct nat *n, uint8_t *bytes, size_t len);

#endif
