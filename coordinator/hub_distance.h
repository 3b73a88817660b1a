/*
 * What the coordinator learns of the ways between members: their messages "links", the round trips
 * of heartbeats, what objects on its own links took; and whom it asks to measure: everybody up to
 * eight listening members at a time (half of them near, half spread), two members the address of a
 * newcomer, all of it again when it is five minutes old or the member's own way has changed.  The
 * control loop's thread.
 */
#ifndef COORDINATOR_HUB_DISTANCE_H
#define COORDINATOR_HUB_DISTANCE_H
#include "coordinator/hub.h"

void hub_distance_linked(struct hub *h, uint32_t member, uint64_t now); /* said hello */
void hub_distance_links(struct hub *h, uint32_t member, const struct link_event *e, uint64_t now);
void hub_distance_beat(struct hub *h, uint32_t member, const shoal_heartbeat *b, uint64_t now);
/* An object has come from a member, or has reached it: its bytes, and how long it took. */
void hub_distance_came(struct hub *h, uint32_t member, const struct link_event *e, uint64_t now);
void hub_distance_went(struct hub *h, uint32_t member, const struct link_event *e, uint64_t now);
/* What they showed since the last time is noted. */
void hub_distance_settle(struct hub *h, uint64_t now);
/* Now and then: asks members to measure. */
void hub_distance_tick(struct hub *h, uint64_t now);
/* Another member has connected to its address, not long ago. */
bool hub_distance_reached(const struct hub *h, uint32_t member, uint64_t now);

#endif
