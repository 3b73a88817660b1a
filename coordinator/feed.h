/*
 * What pages are told as it happens: the last events with growing numbers, so that a page that lost
 * its stream gets what it missed, or is told to load everything again.  Numbers grow over restarts
 * too, since they start from the wall clock.  The control loop's thread.
 */
#ifndef COORDINATOR_FEED_H
#define COORDINATOR_FEED_H
#include <stddef.h>
#include <stdint.h>
#include "base/json.h"

#define FEED_KEPT 512 /* events */
#define FEED_BYTES (4u << 20)

struct feed;
struct event_base;
struct https_request;

struct feed *feed_new(struct event_base *base, uint64_t wall_s);
void feed_free(struct feed *f); /* NULL-safe */
/* event is a word; takes doc. */
void feed_tell(struct feed *f, const char *event, json_t *doc);
/* The same for what the next one of its kind replaces: not kept.  Who comes back gets the newest
 * "overview" after what it missed. */
void feed_now(struct feed *f, const char *event, json_t *doc);
void feed_open(struct feed *f, struct https_request *r); /* answers r with the stream */
size_t feed_clients(const struct feed *f);

#endif
