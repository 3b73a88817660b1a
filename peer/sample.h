/*
 * Choosing the next token from logits: a pure function of logits, settings and one uniform number.
 * Temperature 0 takes the largest (lowest id on a tie).  Otherwise softmax(logits / temperature),
 * cut to the top_k most likely, then to the smallest set of most likely tokens whose probability
 * reaches top_p (Holtzman et al., "The curious case of neural text degeneration"), renormalised.
 */
#ifndef PEER_SAMPLE_H
#define PEER_SAMPLE_H
#include <stddef.h>
#include <stdint.h>

struct sample_config {
	double temperature; /* 0 or more */
	uint32_t top_k;     /* 0: all */
	double top_p;       /* over 0, up to 1 */
};

/* logits: n of them, not all NaN; order: n entries of scratch; u in [0, 1). */
uint32_t sample_token(const float *logits, size_t n, const struct sample_config *config, double u,
	uint32_t *order);

#endif
