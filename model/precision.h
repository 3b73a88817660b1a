/* Of matrix products: bf16 rounds both factors of "linear", forward and backward, to bfloat16 and
 * adds up in float32; results, parameters and every other op are float32 either way. */
#ifndef MODEL_PRECISION_H
#define MODEL_PRECISION_H

#define PRECISION_LIST(X) X(float32) X(bf16)

enum precision {
#define X(name) PRECISION_##name,
	PRECISION_LIST(X)
#undef X
};

#endif
