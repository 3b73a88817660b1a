/*
 * A scenario: which run, on which data, by whom.  One JSON file, read strictly: every mistake is
 * named.  Paths are relative to the file's folder.
 *
 *   {"spec": "run.json", "data": "data", "seed": 1, "rounds": 100,
 *    "coordinator": {"up": 1000, "down": 1000},
 *    "peers": [{"count": 20, "speed": 4000, "up": 20, "down": 100, "rtt_ms": 40, "joins_s": 0,
 *               "churn": {"dies_every_s": 600, "back_after_s": 60}, "liar": "none"}]}
 *
 * Rates are Mbit/s, speed is tokens per second.  Without rounds the run ends where the spec says.
 * A member dies after half to one and a half times dies_every_s, evenly spread, and is back after
 * back_after_s; without that, never.
 */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H
#include <stdint.h>
#include "base/err.h"
#include "sim/lies.h"

#define SCENARIO_GROUPS 64
#define SCENARIO_PEERS 16000u

struct scenario_group {
	uint32_t count;
	double speed;    /* tokens per second */
	double up, down; /* bits per second */
	double rtt_s, joins_s;
	double dies_every_s, back_after_s; /* 0: never */
	enum lie lie;
};

struct scenario {
	char *spec, *data;     /* paths; owned */
	uint64_t seed, rounds; /* rounds 0: as the spec has it */
	double up, down;       /* of the coordinator */
	struct scenario_group groups[SCENARIO_GROUPS];
	uint32_t n_groups, peers;
};

/* Release in any case. */
enum err scenario_load(const char *path, struct scenario *out, struct why *why) MUST_CHECK;
void scenario_release(struct scenario *s);
/* Members are numbered from 1, group after group. */
const struct scenario_group *scenario_member(const struct scenario *s, uint32_t member);

#endif
