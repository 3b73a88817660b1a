/*
 * The contributions of a round as what is merged: in the order of peers, each with the weight that
 * a rule gives it.  What comes of them is the D of rule.h, chunk by chunk (merge_next) or as a
 * vector of its own (merge_encode).  Pure.
 */
#ifndef ROUND_WEIGHED_H
#define ROUND_WEIGHED_H
#include <stddef.h>
#include "base/err.h"
#include "compress/merge.h"
#include "round/rule.h"

struct weighed {
	struct merge_config config; /* of inputs; borrows the vectors */
	struct merge_input *inputs;
};

/* Of count inputs (at least 1) in any order, to n values.  Errors as rule_apply; out is empty then.
 * End it with weighed_release. */
enum err weighed_init(const struct rule_params *p, const struct rule_input *inputs, size_t count,
	size_t n, struct weighed *out, struct why *why) MUST_CHECK;
void weighed_release(struct weighed *w); /* NULL-safe, idempotent */

#endif
