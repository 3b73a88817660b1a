/* Between the files of update.h. */
#ifndef ROUND_UPDATE_PARTS_H
#define ROUND_UPDATE_PARTS_H
#include "round/update.h"

void update_drop_vectors(struct update *u);
/* Inputs for a rule, borrowing the vectors of a verified bundle; caller frees.  ERR_nomem. */
enum err update_inputs(const struct update *bundle, struct rule_input **out) MUST_CHECK;

/* The merged form's bytes: the bundle's head and list, and the frame of the merged planes; what it
 * has no room for marks out failed. */
void update_put_merged(const struct update *bundle, const struct buf *frame, struct buf *out);
size_t update_merged_bound(uint32_t count, size_t frame);

/* The vector of a merged update, into u->vectors (one, allocated), and u->merged. */
enum err update_merge_open(
	struct update *u, const struct update_expect *expect, struct why *why) MUST_CHECK;

#endif
