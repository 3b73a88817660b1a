/*
 * What the files of a run's folder tell about how far it was, beside the store: where the store has
 * lost its last transactions (a copy without its -wal file, an older backup, an emptied file), the
 * shards and snapshots are newer than it, and must not be swept away as strays.
 */
#ifndef COORDINATOR_LEFTOVER_H
#define COORDINATOR_LEFTOVER_H
#include <stdint.h>
#include "base/err.h"

struct leftover {
	const char *dir, *state_dir, *store; /* paths, borrowed */
};

/* ERR_state, with the cure, when there are files of rounds that cannot have begun if committed is
 * the last one that the store knows. */
enum err leftover_check(const struct leftover *l, uint64_t committed, struct why *why) MUST_CHECK;

#endif
