/* Small things that everybody who resumes from a saved state needs; model/checkpoint.h opens the
 * state itself. */
#ifndef PEER_SAVED_H
#define PEER_SAVED_H
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "model/statefile.h"

/* A member of the file's meta that must be a number of at least 0. */
enum err saved_number(
	const struct statefile *file, const char *name, uint64_t *out, struct why *why) MUST_CHECK;
/* Log the states that were passed over for an older one, a line each. */
void saved_tell_passed(const struct buf *passed);

#endif
