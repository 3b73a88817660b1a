/*
 * How long rounds take to end, beside what was predicted when they opened: from the last accepted
 * contributor's cut to the last one's standing at the new head.  Where rounds overlap, what peers
 * say of that (heartbeat, delay_s), the longest.  Else the cut is the first byte of its first
 * contribution that came here, or when its heartbeats say that all steps were done, whichever was
 * first; standing is its report less half a round trip.  A round in which an aggregator failed, or
 * a contributor was lost before it stood, is not measured.  The control loop's thread.
 */
#ifndef COORDINATOR_HUB_COMPLETION_H
#define COORDINATOR_HUB_COMPLETION_H
#include "coordinator/hub.h"

void hub_completion_open(struct hub *h);
void hub_completion_beat(struct hub *h, uint32_t member, const shoal_heartbeat *b, uint64_t now);
void hub_completion_began(struct hub *h, uint32_t member, uint64_t began_ns); /* a contribution */
void hub_completion_closed(struct hub *h);                                    /* about to commit */
void hub_completion_standing(struct hub *h, uint32_t member, uint64_t now);
void hub_completion_spoil(struct hub *h);
/* Of the round before, when the next one is about to open; 0: not measured. */
double hub_completion_s(const struct hub *h);

#endif
