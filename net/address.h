/* Where somebody says that others reach it: "host:port", with IPv6 as "[::1]:port". */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H
#include <stdbool.h>

#define ADDRESS_MAX 256 /* bytes with the NUL */

/* Whether a text from outside may be connected to: letters, digits, '.' and '-' (or an IPv6 in
 * brackets), then a port from 1 to 65535.  Nothing in it has a meaning of its own to ZeroMQ. */
bool address_ok(const char *text);

#endif
