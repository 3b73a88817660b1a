/* After a start: the folder is made to agree with what was committed last. */
#ifndef COORDINATOR_RUN_MEND_H
#define COORDINATOR_RUN_MEND_H
#include "coordinator/run.h"

/* Checks every shard's file against the ledger and makes a bad one again from a snapshot and the
 * records; removes files and blobs that nothing refers to. */
enum err run_mend(struct run *r, struct why *why) MUST_CHECK;

#endif
