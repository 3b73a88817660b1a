/* Why what happens next does not happen now, in a sentence: no wait without a reason shown.  Pure.
 */
#ifndef COORDINATOR_REASON_H
#define COORDINATOR_REASON_H
#include <stdint.h>
#include "coordinator/rounds.h"

#define REASON_TEXT 200

void reason_text(const struct rounds *r, const struct spec *spec, uint64_t now,
	char out[static REASON_TEXT]);

#endif
