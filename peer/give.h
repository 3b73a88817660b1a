/*
 * Where other peers come in: a ROUTER that admits the keys of the roster, for whom this peer stands
 * where the coordinator stands in net/PROTOCOL.md.  They take pieces of what it keeps
 * (peer/shelf.h), bring contributions where it aggregates, and follow it, which is to say that they
 * are sent updates as they come.  Off unless its user names an address.  So many links and so many
 * questions of each at most; pieces, for which nobody waits in a round, go at so many bytes a
 * second at most.  The control loop's thread.
 */
#ifndef PEER_GIVE_H
#define PEER_GIVE_H
#include <stdint.h>
#include "base/err.h"
#include "net/identity.h"
#include "net/link.h"
#include "net/roster.h"
#include "peer/shelf.h"

#define GIVE_LINKS 256u               /* peers at once */
enum { GIVE_made = 1, GIVE_all = 2 }; /* `follow` of a hello */

#define GIVE_ASKED 4u       /* questions of one that wait for their answer */
#define GIVE_RATE_LEAST 1e6 /* bits/s: a piece must be there before its asker loses patience */

struct give;

struct give_config {
	const struct identity_peer *identity; /* borrowed for the call, as address */
	struct hash run;
	uint32_t member;
	const char *address; /* HOST:PORT as others reach it; port 0: any.  Every address of this
				machine is listened on. */
	bool later;          /* HOST may be *: give_announce will tell */
	uint64_t rate;       /* bytes/s of pieces at most */
	struct traffic *traffic;  /* borrowed; NULL: nobody counts */
	size_t contribution_most; /* bytes of one */
	/* Who hears of what is no piece: */
	void *owner;
	/* A contribution; takes bytes, and answers by give_answer. */
	void (*contribution)(
		void *owner, const uint8_t *key, uint64_t ref, uint8_t *bytes, size_t len);
	/* A member asks for the bundle of a round's shard: give_send, or give_refuse. */
	void (*bundle)(void *owner, const uint8_t *key, uint64_t round, uint32_t shard);
};

/* ERR_usage for what is no address, else as link_new. */
enum err give_open(const struct give_config *config, struct give **out, struct why *why) MUST_CHECK;
void give_close(struct give *g);                /* NULL-safe, as all calls but give_open */
const char *give_address(const struct give *g); /* to be told to others; "": none, or NULL */
uint16_t give_port(const struct give *g);       /* that it listens at */
/* Others reach it there (copied); NULL: as the configuration says. */
void give_announce(struct give *g, const char *address);
int give_fd(const struct give *g); /* readable when give_turn is due; -1 for NULL */
void give_roster(struct give *g, const struct roster *roster); /* copied */
/* Hears and answers.  Due when something came, and a few times a second. */
void give_turn(struct give *g, struct shelf *shelf, uint64_t now_ns);
uint64_t give_bytes(const struct give *g); /* that arrived with others, since give_open */

bool give_reached(const struct give *g); /* a member has come in by now */

/* The verdict on a contribution, as link_answer. */
void give_answer(struct give *g, const uint8_t *key, uint64_t ref, const struct why *why);
void give_send(struct give *g, const uint8_t *key, const struct link_object *object); /* to one */
/* To who follows: what this peer made to all of them, else to those that want everything. */
void give_spread(struct give *g, const struct link_object *object, bool made_here);
void give_refuse(struct give *g, const uint8_t *key, uint32_t kind, const struct why *why);

/* What came and went by the links that are open, as measured; false: there is no i-th. */
struct give_measured {
	uint32_t member;
	double up, down; /* bits/s: towards it, from it; 0: not known */
};
bool give_measured(const struct give *g, uint32_t i, struct give_measured *out);

#endif
