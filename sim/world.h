/*
 * A simulated run: the real round machine, gate, rules, codecs and trainers, in one process and one
 * thread, under a virtual clock.  Only what lies between them is made up: links have rates and
 * distances (network.h), a step takes its tokens over the member's speed, and everything else
 * (gate, closing, applying, disks) takes no time.  Same scenario, spec and data: same ledger head;
 * in fixed-step rounds with all members it is the head that real processes come to.
 *
 * Every member has a standing (peer/standing.h) of its own, replica, moments, error feedback and
 * executor, so that each is what a process would be; what they read (spec, data, records) they
 * share.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "model/graph.h"
#include "model/spec.h"
#include "net/roster.h"
#include "peer/dataset.h"
#include "round/exchange.h"
#include "sim/events.h"
#include "sim/letter.h"
#include "sim/network.h"
#include "sim/scenario.h"
#include "sim/tally.h"

#define WORLD_COORDINATOR 0u /* its number on the network; members have theirs */

struct coordinator;
struct peers;

struct world {
	const struct scenario *scenario; /* borrowed */
	struct spec *spec;
	struct dataset data;
	struct exchange exchange;
	struct graph *graph;    /* for its shards */
	struct sign_key **keys; /* by member */
	struct roster *roster;  /* all members, from the beginning */
	char *dir;              /* scratch, removed at the end */
	struct events events;
	struct network network;
	uint64_t now; /* virtual; from 1 on, as some times are 0 for never */
	struct coordinator *coordinator;
	struct peers *peers;
	struct tally tally;
	bool ended;
};

/* changes: of the spec, as spec_load takes them.  world_close in any case. */
enum err world_open(struct world *w, const struct scenario *s, const char *const *changes,
	size_t n_changes, struct why *why) MUST_CHECK;
void world_close(struct world *w);
/* Until the run ends; asked now and then: stop, true gives ERR_interrupted. */
enum err world_run(struct world *w, bool (*stop)(void), struct why *why) MUST_CHECK;

/* ---- for coordinator and peers */

/* Takes the letter, from or to this process of the member. */
void world_post(struct world *w, uint32_t member, uint64_t instance, struct letter *l);
void world_at(struct world *w, uint64_t at_ns, enum event_kind kind, uint32_t member);

#endif
