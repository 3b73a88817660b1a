/* Figures of the run as a whole, from what was measured; NaN while they are not known. */
#ifndef COORDINATOR_PACE_H
#define COORDINATOR_PACE_H
#include "coordinator/hub.h"

/* A round was closed. */
void pace_note(struct hub *h, const struct store_round *r, uint64_t now);
double pace_tokens_per_s(const struct hub *h); /* over the last rounds that this process closed */
/* The same over what the linked members can do while they compute. */
double pace_utilisation(const struct hub *h);
double pace_left_s(const struct hub *h);
double pace_bits_up(const struct hub *h);   /* per parameter and contribution */
double pace_bits_down(const struct hub *h); /* per parameter and round, to each member */

#endif
