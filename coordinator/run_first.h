/* The first start of a run: round 0 of every shard, its snapshot, the empty ledger's head. */
#ifndef COORDINATOR_RUN_FIRST_H
#define COORDINATOR_RUN_FIRST_H
#include "coordinator/run.h"

/* Files first, then one transaction: a start that dies in between is simply made again. */
enum err run_first(struct run *r, const char *weights, struct why *why) MUST_CHECK;

#endif
