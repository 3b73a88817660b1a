/*
 * What breaks in a chaos run, when, for whom and for how long: drawn from a seed, or read from a
 * script.  Pure.
 */
#ifndef TESTS_CHAOS_SCHEDULE_H
#define TESTS_CHAOS_SCHEDULE_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define SCHEDULE_PEERS_MAX 16u
#define SCHEDULE_COORDINATOR 0u /* as a target; peers count from 1 */
#define SCHEDULE_ALL UINT32_MAX /* every peer at once */
#define SCHEDULE_LINE 96

/* verb, whom, how long it lasts at least and at most (ms) */
#define SCHEDULE_LIST(X) \
	X(kill, peer, 1000, 3000) \
	X(kill, coordinator, 500, 3000) \
	X(lose, peer, 500, 2000)   /* killed, and its folder is lost: it joins as somebody new */ \
	X(leave, peer, 1000, 3000) /* asked to stop, as by Ctrl-C */ \
	X(leave, coordinator, 500, 2000) \
	X(freeze, peer, 1000, 8000) /* SIGSTOP: as a laptop that sleeps */ \
	X(freeze, coordinator, 1000, 4000) \
	X(cut, peer, 1000, 6000) /* connections are reset */ \
	X(cut, all, 1000, 3000) \
	X(stall, peer, 1000, 8000) /* nothing passes, nobody is told */ \
	X(slow, peer, 2000, 8000) \
	X(fill, peer, 1000, 4000) /* its disk is full */ \
	X(fill, coordinator, 1000, 3000) \
	X(clock, peer, 1000, 5000) /* the wall clock jumps, and back */ \
	X(clock, coordinator, 1000, 5000)

enum schedule_kind {
#define X(verb, whom, least, most) SCHEDULE_##verb##_##whom,
	SCHEDULE_LIST(X)
#undef X
		SCHEDULE_KINDS
};

struct schedule_event {
	uint64_t at_ms, until_ms; /* from the start; until: is mended again */
	enum schedule_kind kind;
	uint32_t target;
	int64_t amount; /* clock: seconds it jumps by; slow: bytes a second; else 0 */
};

struct schedule_wish {
	uint64_t seed, length_ms;
	uint32_t peers; /* 1 to SCHEDULE_PEERS_MAX */
};

/* Ascending by at_ms; nobody suffers two things at once, and all begin before length_ms.  Each kind
 * comes once among the first SCHEDULE_KINDS, once among the next, and so on.  Returns how many
 * there are, at most `most`. */
size_t schedule_make(const struct schedule_wish *wish, struct schedule_event *out, size_t most);

/* Lines as schedule_say writes them, in any order; # begins a comment.  ERR_syntax names the line.
 */
enum err schedule_parse(const char *text, uint32_t peers, struct schedule_event *out, size_t most,
	size_t *n, struct why *why) MUST_CHECK;
/* "12.500 kill peer2 2.100": at, verb, target, seconds; an amount last where there is one. */
void schedule_say(const struct schedule_event *e, char out[static SCHEDULE_LINE]);
const char *schedule_verb(enum schedule_kind kind);

#endif
