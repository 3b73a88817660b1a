/*
 * Rules: how the contributions of a round become the next state of a shard.  A rule is arithmetic
 * on numbers in a fixed order (by peer number, coordinate by coordinate, in double precision, no
 * contraction), so that every replica gets the same bits; the order of arrival cannot matter.
 * Formulas: SparseLoCo (Templar's aggregation: clip to the median norm, mean over the senders of a
 * coordinate), DiLoCo (outer Nesterov), both weighted by tokens.
 *
 * With w_i the tokens of peer i, v_i its vector (0 where it sent nothing) and D the outcome:
 *   sparseloco  v_i scaled by min(1, median norm / norm of v_i); D = sum w_i v_i / sum of the w_i
 *               of those who sent the coordinate; G <- G - lr D
 *   mean_R      D = sum w_i v_i / sum of all w_i; G <- G - lr D
 *   diloco      D as mean_R; m <- momentum m + D; G <- G - lr (momentum m + D)
 *   average     vectors are parameters; G <- sum w_i v_i / sum of all w_i
 * Under a codec with a DCT the coordinates of D are coefficients, and D is transformed back before
 * it is used.  The median of an even number of norms is the lower one.  No contribution at all
 * leaves everything as it was, momentum too.
 */
#ifndef ROUND_RULE_H
#define ROUND_RULE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "compress/codec.h"
#include "model/spec.h"

/* One row and one file, rule_NAME.c, each. */
#define RULE_LIST(X) X(sparseloco) X(mean_R) X(diloco) X(average)

#define RULE_PEERS_MAX SPEC_PEERS_MAX /* contributions to one shard and round */
#define RULE_TOKENS_MAX (1ull << 53)  /* of all contributions together: exact as doubles */

struct rule_params {
	const struct rule_row *row;
	double lr, momentum;
};

struct rule_input {
	uint32_t peer;
	uint64_t tokens; /* at least 1 */
	const struct codec_vector *vector;
};

/* A run of coordinates of one shard. */
struct rule_block {
	size_t n;
	const double *delta; /* D; 0 where nobody sent */
	float *params;       /* in: G before; out: after */
	float *momentum;     /* the same; NULL when the rule has none */
};

/* What a rule is: a constant in rule_NAME.c. */
struct rule_row {
	const char *name;
	bool momentum;   /* keeps a vector beside the parameters */
	bool parameters; /* contributions are parameters, not pseudo-gradients: no loss is allowed
			  */
	bool per_sender; /* D is divided by the w_i of a coordinate's senders, else by those of all
			  */
	/* Factor of each input from the squares of its norm; NULL: 1 for all. */
	enum err (*scale)(const double *norm_squared, size_t count, double *scale);
	void (*step)(const struct rule_params *p, const struct rule_block *b);
};

/* A step of several rules: G <- G - lr D. */
void rule_descend(const struct rule_params *p, const struct rule_block *b);

#define X(name) extern const struct rule_row rule_##name;
RULE_LIST(X)
#undef X

/* From a spec's words; ERR_unsupported names the rules there are. */
enum err rule_find(const char *name, double lr, double momentum, struct rule_params *out,
	struct why *why) MUST_CHECK;
/* ERR_unsupported for a rule that averages parameters and a codec that loses something. */
enum err rule_suits(
	const struct rule_params *p, const struct codec_params *codec, struct why *why) MUST_CHECK;

/* The next state in place: params and momentum (NULL unless the rule keeps one) have n values.
 * Inputs in any order; they are read chunk by chunk, so that beside them little memory is needed.
 * ERR_duplicate (two of one peer), ERR_tokens (0, or too many), ERR_shape (a vector of another
 * length, chunk or transform), ERR_range (too many), ERR_not_finite (the state would leave float's
 * range), ERR_nomem.  After a failure params and momentum are not to be used. */
struct rule_state {
	float *params, *momentum;
	size_t n;
};
enum err rule_apply(const struct rule_params *p, const struct rule_input *inputs, size_t count,
	struct rule_state *state, struct why *why) MUST_CHECK;
/* The same where D was made elsewhere (update.h).  ERR_shape, ERR_not_finite, ERR_nomem. */
enum err rule_apply_merged(const struct rule_params *p, const struct codec_vector *merged,
	struct rule_state *state, struct why *why) MUST_CHECK;

#endif
