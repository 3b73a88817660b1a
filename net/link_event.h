/*
 * What the data plane tells the control loop: mail in the mailbox that link_new was given.  Events
 * of one link come in the order in which things happened.
 */
#ifndef NET_LINK_EVENT_H
#define NET_LINK_EVENT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "base/mailbox.h"
#include "net/msg.h"
#include "net/transfer.h"

#define LINK_KEY 32 /* bytes of a CURVE key */

#define LINK_EVENT_LIST(X) \
	X(connected) /* coordinator: header is the hello, answer with welcome or refusal; \
			peer: header is the welcome */ \
	X(lost)      /* code and text say why; objects go on after a reconnect */ \
	X(waiting) /* peer: this attempt failed, code and text say why; next try after wait_ns */ \
	X(message) /* header and payload */ \
	X(object)  /* an object came in, verified: ref, object_kind, name, meta, payload. \
		      link_answer must be called once for each */ \
	X(delivered) /* the object ref of link_push was accepted at the other side */ \
	X(declined)  /* it was refused there: code and text */ \
	X(clone)     /* two processes use this key: instance (in charge) and other_instance */

enum link_event_kind {
#define X(name) LINK_##name,
	LINK_EVENT_LIST(X)
#undef X
};

struct link_event {
	struct mail mail; /* mail.kind is enum link_event_kind */
	uint8_t key[LINK_KEY];
	struct why why;      /* lost, waiting, declined */
	shoal_header header; /* connected, message */
	uint8_t *payload;    /* message, object; owned, may be taken by setting it NULL */
	size_t payload_len;
	uint64_t ref;                /* object, delivered, declined */
	uint32_t object_kind;        /* the same */
	struct hash name;            /* the same: SHA-256 of the bytes */
	uint8_t meta[TRANSFER_META]; /* the same */
	size_t meta_len;
	uint64_t size, taken_ns; /* delivered: bytes, and time from the first byte to the answer;
				  * object: to the last byte */
	uint64_t rtt_ns;         /* both, at a peer: a round trip as last measured; 0: not yet */
	uint64_t wait_ns;        /* waiting */
	uint64_t instance, other_instance; /* clone */
};

/* A new event with everything zero but kind and key; freed by link_event_free or as mail. */
struct link_event *link_event_new(enum link_event_kind kind, const uint8_t key[static LINK_KEY]);
/* What a transfer tells, as an event; takes t's bytes. */
struct link_event *link_event_of_transfer(
	const struct transfer_event *t, const uint8_t key[static LINK_KEY]);
void link_event_free(struct link_event *e); /* NULL-safe; with the payload */
/* In a mailbox that also holds other senders' mail: the event that m is, or NULL. */
struct link_event *link_event_of(struct mail *m);
const char *link_event_name(enum link_event_kind kind);

#endif
