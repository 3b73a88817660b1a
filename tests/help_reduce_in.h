/* What help_reduce_ring.c and help_reduce_join.c share. */
#ifndef TESTS_HELP_REDUCE_IN_H
#define TESTS_HELP_REDUCE_IN_H
#include "tests/help_reduce.h"

struct help_reduce_ring {
	struct help_reduce_place place;
	int next, prev;
	uint64_t sent;
};

#endif
