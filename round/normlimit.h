/*
 * The largest norm that training can give to a contribution, whatever the data: AdamW moves a
 * parameter by at most a small multiple of the learning rate in a step, and error feedback adds up
 * what earlier rounds left, decayed.  Loose by design: it is no judgement on a member's work, it
 * keeps what no training can have made from carrying a state away or out of float's range when
 * there is nobody to be clipped to.  Pure.
 */
#ifndef ROUND_NORMLIMIT_H
#define ROUND_NORMLIMIT_H
#include <stddef.h>
#include <stdint.h>
#include "model/spec.h"
#include "round/rule.h"

/* For n values under this rule after so many inner steps.  Above 0, and finite. */
double normlimit(const struct spec *s, const struct rule_row *rule, size_t n, uint64_t steps);

#endif
