/*
 * Who may speak on the data plane: a table of CURVE public keys, asked by libzmq at each handshake
 * (ZAP, rfc.zeromq.org/spec/27) and by us for every message, since a handshake says nothing about
 * later changes of the roster.  The User-Id that libzmq attaches to each message of an admitted
 * connection is the key in hex.  One thread.
 */
#ifndef NET_ZAP_H
#define NET_ZAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define ZAP_KEY 32
#define ZAP_DOMAIN "shoal" /* ZMQ_ZAP_DOMAIN of the sockets that want this table asked */

struct zap;

/* Answer for a ZeroMQ context; one per context, before the first socket that admits.  The table is
 * empty: nobody is admitted. */
enum err zap_new(void *context, struct zap **out, struct why *why) MUST_CHECK;
void zap_free(struct zap *z);
void *zap_socket(const struct zap *z); /* to be polled for reading */
/* Answer every handshake that waits; returns at once.  The numbers are added to. */
void zap_serve(struct zap *z, uint64_t *admitted, uint64_t *refused);

/* Replace the table: n keys of 32 bytes, one after another. */
void zap_replace(struct zap *z, const uint8_t *keys, size_t n);
bool zap_admits(const struct zap *z, const uint8_t key[static ZAP_KEY]);

/* The key in a User-Id; false for anything but 64 lower-case hex digits, and for NULL. */
bool zap_user(const char *user_id, uint8_t key[static ZAP_KEY]);

#endif
