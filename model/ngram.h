/*
 * Yardsticks for a loss: how well the last zero, one or two bytes alone predict the next one, in
 * nats per byte.  A byte-level model that learns must pass them in turn.  Takes about 70 MB of
 * address space, of which a text touches a few.
 */
#ifndef MODEL_NGRAM_H
#define MODEL_NGRAM_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct ngram;

struct ngram *ngram_new(void); /* NULL: out of memory */
void ngram_free(struct ngram *g);
/* Counts the text that continues what was added before; in all at most UINT32_MAX bytes, the rest
 * is not counted. */
void ngram_add(struct ngram *g, const void *bytes, size_t n);

/* In-sample entropy of order 1 (unigram), 2 (a byte given the one before) or 3 (given two): what
 * the best model of that order reaches on this very text.  0 for an empty text. */
double ngram_entropy(const struct ngram *g, unsigned order);
/* What the counts, interpolated down to order 0 after Witten and Bell (1991), reach on another
 * text: mean nats per byte. */
double ngram_cost(const struct ngram *g, unsigned order, const void *bytes, size_t n);

#endif
