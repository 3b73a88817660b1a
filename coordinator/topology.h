/* Who aggregates, in which group: the modes that an operator chooses from. */
#ifndef COORDINATOR_TOPOLOGY_H
#define COORDINATOR_TOPOLOGY_H
#include <stdbool.h>

#define TOPOLOGY_MODE_LIST(X) \
	X(latency) /* the plan that is predicted to end a round first */ \
	X(star)    /* the coordinator takes and sends everything */ \
	X(random)  /* aggregators and groups by lot, to compare with */

enum topology_mode {
#define X(name) TOPOLOGY_##name,
	TOPOLOGY_MODE_LIST(X)
#undef X
};

const char *topology_mode_text(enum topology_mode m);
bool topology_mode_of(const char *text, enum topology_mode *out); /* false: no such mode */

#endif
