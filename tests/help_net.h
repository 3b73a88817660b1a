/* Links on loopback for tests: keys, both ends, waiting for events, and a relay that can be cut. */
#ifndef TESTS_HELP_NET_H
#define TESTS_HELP_NET_H
#include <stdbool.h>
#include <stdint.h>
#include "net/link.h"

#define HELP_NET_KIND 3 /* of the objects */

struct help_net_keys {
	uint8_t public_key[LINK_KEY], secret_key[LINK_KEY];
};
void help_net_keys(struct help_net_keys *k);

struct help_net_end {
	struct help_net_keys keys;
	struct link_config config;
	struct mailbox *box;
	struct link *link;
};
/* A configuration with short times and fresh keys; to be changed before help_net_start. */
void help_net_init(struct help_net_end *e, enum link_role role);
void help_net_start(struct help_net_end *e);
void help_net_stop(struct help_net_end *e); /* twice is fine */

/* The next event of this kind, others in between are freed; fails the test after 30 s. */
struct link_event *help_net_wait(struct help_net_end *e, enum link_event_kind kind);
/* The same, and free it; gives its code. */
enum err help_net_expect(struct help_net_end *e, enum link_event_kind kind);

/* link_admit of one key, in force when this returns. */
void help_net_admit(struct help_net_end *coordinator, const uint8_t *key);

shoal_hello help_net_hello(uint64_t instance);
/* Connect peer to coordinator at this port, which welcomes it; both are up after. */
void help_net_join(struct help_net_end *peer, struct help_net_end *coordinator, uint16_t port);
void help_net_welcome(struct help_net_end *coordinator, const uint8_t *key);

/* Bytes that depend on seed. */
struct shared *help_net_bytes(uint64_t seed, size_t n);
uint64_t help_net_push(struct help_net_end *from, const uint8_t *key, struct shared *bytes);
/* The counters, once what the predicate asks for is true; fails the test after 30 s. */
struct link_counters help_net_counters(
	struct help_net_end *e, bool (*enough)(const struct link_counters *c));

/* Forwards TCP from a port of its own to another on loopback. */
struct help_net_relay;
struct help_net_relay *help_net_relay_new(uint16_t to, uint16_t *port);
void help_net_relay_to(struct help_net_relay *r, uint16_t to); /* from the next connection on */
/* Cut every connection once so many more bytes went through; the next ones are forwarded again. */
void help_net_relay_cut_after(struct help_net_relay *r, uint64_t bytes);
void help_net_relay_hold(struct help_net_relay *r, bool hold); /* forward nothing, close nothing */
uint32_t help_net_relay_cuts(const struct help_net_relay *r);
void help_net_relay_free(struct help_net_relay *r);

#endif
