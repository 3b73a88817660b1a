/* The states of the round machine, and the moves that are legal. */
#ifndef COORDINATOR_ROUNDSTATE_H
#define COORDINATOR_ROUNDSTATE_H
#include <stdbool.h>

#define ROUNDS_LIST(X) \
	X(waiting, TO(open) TO(finishing)) /* for members, or for them to apply the last round */ \
	X(open, TO(closing) TO(waiting))   /* members work; waiting: nobody was left in it */ \
	X(closing, TO(waiting) TO(finishing)) /* it is being applied */ \
	X(finishing, TO(finished)) /* all tokens are trained; a last loss is asked for */ \
	X(finished, )

enum rounds_state {
#define X(name, moves) ROUNDS_##name,
	ROUNDS_LIST(X)
#undef X
};

const char *roundstate_text(enum rounds_state s);
bool roundstate_may(enum rounds_state from, enum rounds_state to);

#endif
