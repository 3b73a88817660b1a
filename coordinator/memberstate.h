/* The states of a member as the round machine sees it, and the moves that are legal. */
#ifndef COORDINATOR_MEMBERSTATE_H
#define COORDINATOR_MEMBERSTATE_H
#include <stdbool.h>

/* A member's states and where each may go. */
#define MEMBER_LIST(X) \
	X(away, TO(syncing) TO(gone))           /* on the roster, no link */ \
	X(syncing, TO(ready) TO(away) TO(gone)) /* linked, not yet at the head of the ledger */ \
	X(ready, TO(working) TO(syncing) TO(away) TO(gone)) /* at the head, waits for a plan */ \
	X(working, TO(in) TO(syncing) TO(away) TO(gone))    /* in the open round */ \
	X(in, TO(syncing) TO(away) TO(gone)) /* its whole contribution was accepted */ \
	X(gone, TO(syncing))                 /* said goodbye or was removed */

enum member_state {
#define X(name, moves) MEMBER_##name,
	MEMBER_LIST(X)
#undef X
		MEMBER_STATES
};
const char *memberstate_text(enum member_state s); /* "unknown" for a number that is none */
bool memberstate_may(enum member_state from, enum member_state to);

#endif
