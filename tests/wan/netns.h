/* Named network namespaces: things opened inside one stay there, whoever holds the descriptor.  For
 * a process with one thread: the calling thread is inside for a moment.  A namespace's name is
 * PREFIX-NODE, as ip netns knows it. */
#ifndef TESTS_WAN_NETNS_H
#define TESTS_WAN_NETNS_H
#include "base/err.h"

/* A TUN device "wan0" with address/24, up, MTU 1500; it lives as long as its descriptor, which
 * does not block. */
enum err netns_tun(const char *prefix, const char *node, const char *address, int *fd,
	struct why *why) MUST_CHECK;
/* A socket of the internet family that does not block; kind is SOCK_STREAM or SOCK_DGRAM. */
enum err netns_socket(
	const char *prefix, const char *node, int kind, int *fd, struct why *why) MUST_CHECK;

#endif
