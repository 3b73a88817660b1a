#include "coordinator/memberstate.h"
#include <stdint.h>

const char *memberstate_text(enum member_state s)
{
	static const char *const texts[] = {
#define X(name, moves) #name,
		MEMBER_LIST(X)
#undef X
	};
	return s < MEMBER_STATES ? texts[s] : "unknown";
}

bool memberstate_may(enum member_state from, enum member_state to)
{
	static const uint32_t legal[] = {
#define TO(name) | 1u << MEMBER_##name
#define X(name, moves) 0u moves,
		MEMBER_LIST(X)
#undef X
#undef TO
	};
	return legal[from] & 1u << to;
}
