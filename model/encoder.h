/*
 * Encodes much text with one tokenizer: pieces that were met before are looked up, not merged
 * again.  The ids do not depend on what was encoded before.  For one thread at a time.
 */
#ifndef MODEL_ENCODER_H
#define MODEL_ENCODER_H
#include <stddef.h>
#include "base/err.h"
#include "model/tokenizer.h"

struct encoder;

/* t is borrowed.  Takes up to 2 MiB.  NULL: out of memory. */
struct encoder *encoder_new(const struct tokenizer *t);
void encoder_free(struct encoder *e); /* NULL-safe */

/* As tokenizer_encode.  The bytes are split on their own: cut a long text where split_piece or
 * split_border says. */
enum err encoder_put(struct encoder *e, const void *bytes, size_t n, struct tokens *out) MUST_CHECK;

#endif
