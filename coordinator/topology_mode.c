#include <string.h>
#include "coordinator/topology.h"

static const char *const names[] = {
#define X(name) #name,
	TOPOLOGY_MODE_LIST(X)
#undef X
};
#define N_NAMES (sizeof names / sizeof *names)

const char *topology_mode_text(enum topology_mode m)
{
	return (size_t)m < N_NAMES ? names[m] : "unknown";
}

bool topology_mode_of(const char *text, enum topology_mode *out)
{
	for (size_t i = 0; i < N_NAMES; i++) {
		if (strcmp(text, names[i]) != 0)
			continue;
		*out = (enum topology_mode)i;
		return true;
	}
	return false;
}
