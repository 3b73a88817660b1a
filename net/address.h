/* Where somebody is reached: "host:port", with IPv6 as "[::1]:port". */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_MAX 256 /* bytes with the NUL */

/* Whether a text from outside may be connected to: letters, digits, '.' and '-' (or an IPv6 in
 * brackets), then a port from 1 to 65535.  Nothing in it has a meaning of its own to ZeroMQ. */
bool address_ok(const char *text);

/* Why nobody can be reached there from another machine, whatever the network: 0.0.0.0, a multicast
 * or broadcast address, one of a single link.  NULL: it is none of these (a loopback address, too:
 * all of a run may be on one machine), or a name.  For a text that is address_ok. */
const char *address_nowhere(const char *text);

/* "host:port" of a name, an address or "*"; brackets where they are needed and not there yet. */
void address_join(const char *host, uint16_t port, char *out, size_t room);

#endif
