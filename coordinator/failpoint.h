/*
 * For tests of sudden death: SHOAL_FAILPOINT=NAME or NAME:N kills the process, as kill -9 would,
 * when it passes the point of that name for the N-th time (first: 1).  Without the variable a point
 * costs one comparison.
 */
#ifndef COORDINATOR_FAILPOINT_H
#define COORDINATOR_FAILPOINT_H

/* Every point there is, in the order in which a round passes them. */
#define FAILPOINT_LIST(X) \
	X(plan_stored)         /* the round is open on disk, nobody has heard of it */ \
	X(contribution_blob)   /* a contribution's bytes are there, its row is not */ \
	X(contribution_stored) /* its row is there, its sender has not heard of it */ \
	X(shard_record)        /* a shard's record is there, its next state is not */ \
	X(shard_state)         /* both are there, the other shards are not */ \
	X(before_commit)       /* all shards are there, the ledger does not know */ \
	X(inside_commit)       /* in the middle of the transaction */ \
	X(after_commit)        /* the ledger knows, nobody has heard of it */ \
	X(before_sweep)        /* everybody has heard, what is not needed any more is there */ \
	X(snapshot_written)    /* a snapshot's file is there, its row is not */ \
	X(snapshot_stored)     /* its row is there, older blobs are too */

enum failpoint {
#define X(name) FAILPOINT_##name,
	FAILPOINT_LIST(X)
#undef X
		FAILPOINTS
};

void failpoint(enum failpoint at); /* any thread */
/* As if the variable had this value; NULL: none.  For tests that fork; no other thread is running.
 */
void failpoint_wish(const char *text);

#endif
