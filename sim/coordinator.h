/*
 * The coordinator of a simulation: the hub without sockets, store and clock.  What it hears goes to
 * the round machine (coordinator/rounds.h), and what that decides is carried out at once.
 */
#ifndef SIM_COORDINATOR_H
#define SIM_COORDINATOR_H
#include "base/err.h"
#include "round/ledger.h"
#include "sim/letter.h"

struct coordinator;
struct world;
struct rounds;
struct archive;

enum err coordinator_new(struct world *w, struct coordinator **out, struct why *why) MUST_CHECK;
void coordinator_free(struct coordinator *c); /* NULL-safe */

/* ---- events; an error is the end of the simulation */
enum err coordinator_letter(
	struct coordinator *c, uint32_t member, const struct letter *l, struct why *why) MUST_CHECK;
/* A process of the member has been silent for too long. */
enum err coordinator_lost(
	struct coordinator *c, uint32_t member, uint64_t instance, struct why *why) MUST_CHECK;
enum err coordinator_tick(struct coordinator *c, struct why *why) MUST_CHECK;

/* ---- asking */
struct ledger_head coordinator_head(const struct coordinator *c);
const struct ledger *coordinator_ledger(const struct coordinator *c);
const struct rounds *coordinator_rounds(const struct coordinator *c);
const struct archive *coordinator_archive(const struct coordinator *c);
/* ERR_timeout, with what no round can close or open for. */
enum err coordinator_waits(const struct coordinator *c, struct why *why) MUST_CHECK;

#endif
