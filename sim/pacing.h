/* How long a plan takes a machine of a given speed, in virtual time, and how many steps it then has
 * done: the rules by which worker.c ends its training.  Pure. */
#ifndef SIM_PACING_H
#define SIM_PACING_H
#include <stdint.h>
#include "model/spec.h"
#include "round/plan.h"

/* Steps done when it ends; *takes_ns until then. */
uint64_t pacing_steps(
	const struct plan *p, const struct spec *s, double tokens_per_s, uint64_t *takes_ns);
/* So many tokens. */
uint64_t pacing_ns(double tokens, double tokens_per_s);
/* Where rounds overlap: when the next cut is due, by worker_follow.c's rule; before: when the last
 * one was, 0: there was none. */
uint64_t pacing_due(uint64_t before_ns, double seconds, uint64_t now);
/* A validation is forward passes only: a third of what training takes. */
uint64_t pacing_validation(uint64_t tokens, double tokens_per_s);

#endif
