/* The first start of a run: round 0 of every shard, its snapshot, the empty ledger's head. */
#ifndef COORDINATOR_RUN_FIRST_H
#define COORDINATOR_RUN_FIRST_H
#include "coordinator/run.h"

/* Files first, then one transaction: a start that dies in between is simply made again.  init is
 * the folder with the spec's initial weights; it is not looked at when the spec names none. */
enum err run_first(struct run *r, const char *init, struct why *why) MUST_CHECK;

#endif
