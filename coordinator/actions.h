/* What the round machine wants done, in order. */
#ifndef COORDINATOR_ACTIONS_H
#define COORDINATOR_ACTIONS_H
#include <stddef.h>
#include <stdint.h>

enum rounds_action_kind {
	ROUNDS_none,
	ROUNDS_open_round,  /* sign, store and send the plan: members with assigned set */
	ROUNDS_add_member,  /* the same for one member that came while the round was open */
	ROUNDS_drop_member, /* out of the round: late or lost; for log and page */
	ROUNDS_close_round, /* aggregate the members that are in, commit, then rounds_on_committed
			     */
	ROUNDS_abandon,     /* nobody is left in the round; it will be opened again */
	ROUNDS_last_validation, /* ask this member for the final model's loss */
	ROUNDS_finish,          /* tell everybody that the run has ended */
};

struct rounds_action {
	enum rounds_action_kind kind;
	uint64_t round;
	uint32_t member; /* add_member, drop_member, last_validation */
};

struct actions {
	struct rounds_action *queue;
	size_t n, cap, at;
};

void actions_release(struct actions *a);
void actions_push(struct actions *a, struct rounds_action action);
struct rounds_action actions_next(struct actions *a); /* ROUNDS_none when there is nothing */

#endif
