/*
 * The members of a simulation: what worker.c and member*.c do in a peer's process, as plain calls
 * on a standing of its own (peer/standing.h).  A member that may die saves its state at every cut,
 * as real ones do, and goes on from there when it is back.
 */
#ifndef SIM_PEERS_H
#define SIM_PEERS_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "sim/letter.h"

struct peers;
struct world;

struct peers *peers_new(struct world *w);
void peers_free(struct peers *p); /* NULL-safe */
void peers_stop(struct peers *p); /* the end: what they could have done is added up */

/* Counts the processes that a member has had; what is said to another one is lost. */
uint64_t peers_instance(const struct peers *p, uint32_t member);
/* Where rounds overlap a letter is looked at when the step that is being computed is done. */
bool peers_busy(const struct peers *p, uint32_t member, uint64_t *until_ns);

/* ---- events; an error is the end of the simulation */
enum err peers_start(struct peers *p, uint32_t member, struct why *why) MUST_CHECK;
void peers_die(struct peers *p, uint32_t member);
enum err peers_trained(struct peers *p, uint32_t member, struct why *why) MUST_CHECK;
enum err peers_letter(
	struct peers *p, uint32_t member, const struct letter *l, struct why *why) MUST_CHECK;

#endif
