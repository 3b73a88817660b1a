/* Between the files of rounds.h. */
#ifndef COORDINATOR_ROUNDS_PARTS_H
#define COORDINATOR_ROUNDS_PARTS_H
#include "coordinator/rounds.h"
#include "coordinator/spanpool.h"
#include "coordinator/waits.h"

struct rounds {
	const struct spec *spec;
	uint32_t n_shards;
	enum rounds_state state;
	uint64_t round, ledger_tokens, planned_tokens, voided;
	bool paused, asked_last;
	uint32_t asked_times; /* how many members were asked for the last loss */
	uint32_t asked;       /* the last of them */
	struct memberlist members;
	struct spanpool pool;
	struct waits waits;
	struct actions actions;
};

/* Everything that it was asked for in the open round is there. */
bool rounds_is_in(const struct rounds *r, const struct rounds_member *m);
/* Until when a member that is not in is waited for; length: waits_length. */
uint64_t rounds_patience(const struct rounds *r, const struct rounds_member *m, uint64_t length);
/* When the open round is longer than usual, and still without a quorum. */
uint64_t rounds_overdue(const struct rounds *r);

#endif
