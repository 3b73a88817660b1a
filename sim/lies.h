/* What members that lie send in place of what they trained: well-formed, under their own signature.
 * Pure but for the memory. */
#ifndef SIM_LIES_H
#define SIM_LIES_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "compress/codec.h"
#include "net/sign.h"

/* copied: another member's vector, as if it were one's own */
#define LIE_LIST(X) X(none) X(nan) X(huge) X(negated) X(zero) X(copied)

enum lie {
#define X(name) LIE_##name,
	LIE_LIST(X)
#undef X
};

struct lies_ask {
	enum lie lie;
	struct codec_params codec; /* the run's */
	size_t n;                  /* values of the shard */
	const struct sign_key *key;
	const uint8_t *own; /* the honest contribution, sealed */
	size_t own_len;
	const uint8_t *other; /* another member's to the same shard; NULL: there is none to copy */
	size_t other_len;
};

/* Appends the false one to out (inited by the caller with contribution_bound). */
enum err lies_tell(const struct lies_ask *ask, struct buf *out, struct why *why) MUST_CHECK;

#endif
