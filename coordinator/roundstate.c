#include "coordinator/roundstate.h"
#include <stdint.h>

const char *roundstate_text(enum rounds_state s)
{
	static const char *const texts[] = {
#define X(name, moves) #name,
		ROUNDS_LIST(X)
#undef X
	};
	return texts[s];
}

bool roundstate_may(enum rounds_state from, enum rounds_state to)
{
	static const uint32_t legal[] = {
#define TO(name) | 1u << ROUNDS_##name
#define X(name, moves) 0u moves,
		ROUNDS_LIST(X)
#undef X
#undef TO
	};
	return legal[from] & 1u << to;
}
