/*
 * Byte-pair encoding of one piece: of the neighbours that merge, the pair of the lowest rank and
 * there the leftmost becomes one id, again and again.  Short pieces are scanned for it; long ones
 * keep a heap, so that the cost is n log n.
 */
#ifndef MODEL_MERGES_H
#define MODEL_MERGES_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "model/pairs.h"

/* Merges the n ids in place; *n becomes how many are left.  0 < n < 2^31.  ERR_nomem leaves all as
 * it was. */
enum err merges_apply(const struct pairs *p, uint32_t *id, size_t *n) MUST_CHECK;

#endif
