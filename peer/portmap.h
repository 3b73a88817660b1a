/*
 * Has the router open the port that this peer listens at, again before each lease ends, and close
 * it at the end.  A thread that runs `shoal-peer upnp` for each of these, and ends it when it takes
 * too long; nobody waits for it but at the end, for some seconds at most.
 */
#ifndef PEER_PORTMAP_H
#define PEER_PORTMAP_H
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/mailbox.h"
#include "net/address.h"

#define PORTMAP_result 3000 /* mail.kind; above all kinds of the other threads */

/* What came of asking, when it differs from what came before. */
struct portmap_result {
	struct mail mail;
	bool mapped;
	char address[ADDRESS_MAX]; /* mapped: HOST:PORT that others reach */
	struct why why;            /* not mapped */
};

struct portmap_config {
	struct mailbox *results;
	const char *program; /* NULL: this one */
	uint16_t port;
	uint64_t lease_ns, again_ns;       /* again: after a failure */
	uint64_t ask_most_ns, end_most_ns; /* for one answer, and for the last one */
};
/* results and port are the caller's; a lease of 20 minutes. */
void portmap_config_init(struct portmap_config *c);

struct portmap;
enum err portmap_new(
	const struct portmap_config *config, struct portmap **out, struct why *why) MUST_CHECK;
/* Closes the port and ends; blocks for end_most_ns at most.  NULL-safe. */
void portmap_free(struct portmap *p);

#define PORTMAP_ROUTER 256
struct portmap_answer {
	char host[INET_ADDRSTRLEN];
	uint16_t port;
	uint64_t lease_s;
	char router[PORTMAP_ROUTER];
};
/* The line that `shoal-peer upnp` prints when it has opened a port: false for any other text. */
bool portmap_parse(const char *text, struct portmap_answer *out);
/* Whether the whole internet may know such an address, and this one machine have it. */
bool portmap_is_public(struct in_addr address);

#endif
