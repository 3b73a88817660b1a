/*
 * Giving what this peer keeps (peer/shelf.h) to other peers: a ROUTER that admits the keys of the
 * roster, for whom it stands where the coordinator stands in net/PROTOCOL.md.  Off unless its user
 * names an address.  So many links, so many questions of each and so many bytes a second at most.
 * The control loop's thread.
 */
#ifndef PEER_GIVE_H
#define PEER_GIVE_H
#include <stdint.h>
#include "base/err.h"
#include "net/identity.h"
#include "net/roster.h"
#include "peer/shelf.h"

#define GIVE_LINKS 8u       /* peers at once */
#define GIVE_ASKED 4u       /* questions of one that wait for their answer */
#define GIVE_RATE_LEAST 1e6 /* bits/s: a piece must be there before its asker loses patience */

struct give;

struct give_config {
	const struct identity_peer *identity; /* borrowed for the call, as address */
	struct hash run;
	uint32_t member;
	const char *address; /* HOST:PORT as others reach it; port 0: any.  Every address of this
				machine is listened on. */
	uint64_t rate;       /* bytes/s at most */
};

/* ERR_usage for what is no address, else as link_new. */
enum err give_open(const struct give_config *config, struct give **out, struct why *why) MUST_CHECK;
void give_close(struct give *g);                /* NULL-safe, as all calls but give_open */
const char *give_address(const struct give *g); /* to be told to others; "" for NULL */
int give_fd(const struct give *g);              /* readable when give_turn is due; -1 for NULL */
void give_roster(struct give *g, const struct roster *roster); /* copied */
/* Hears and answers.  Due when something came, and a few times a second. */
void give_turn(struct give *g, struct shelf *shelf, uint64_t now_ns);
uint64_t give_bytes(const struct give *g); /* that arrived with others, since give_open */

#endif
