/*
 * One outgoing connection: attempts, with a socket for each, why one failed, and net/backoff.h
 * between them.  One thread.
 */
#ifndef NET_DIAL_H
#define NET_DIAL_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "net/link.h"
#include "net/tunnel.h"
#include "net/zsock.h"

struct dial;
/* By way of tunnel, unless that is NULL.  address and key are copied; config, context and tunnel
 * are borrowed. */
struct dial *dial_new(const struct link_config *config, void *context, struct tunnel *tunnel,
	const char *address, const uint8_t key[static LINK_KEY]);
void dial_free(struct dial *d, uint64_t linger_ns);
struct zsock *dial_socket(struct dial *d);   /* its socket is NULL while there is none */
uint32_t dial_attempt(const struct dial *d); /* number of the attempt, names the connection */

enum dial_news { DIAL_nothing, DIAL_up, DIAL_failed };
/* Start an attempt when it is due, and read the monitor.  DIAL_up: say hello.  DIAL_failed: the
 * attempt or the connection ended, why says how; to be followed by dial_again. */
enum dial_news dial_turn(struct dial *d, uint64_t now_ns, struct why *why);
/* Welcome came: the next failure starts from the shortest wait. */
void dial_settled(struct dial *d);
/* Close and wait for the next attempt; returns how long. */
uint64_t dial_again(struct dial *d, uint64_t now_ns);

#endif
