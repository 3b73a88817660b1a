/* A saved state with the spec inside it: what `eval` and `generate` start from.  Reads a peer's own
 * state ("local") and a run's snapshot ("snapshot"). */
#ifndef PEER_SAVED_H
#define PEER_SAVED_H
#include "base/err.h"
#include "model/spec.h"
#include "model/statefile.h"

struct saved {
	struct statefile *file;
	struct spec *spec;
};

/* path is a file, or a folder: then the newest good state in it (what was passed over is logged).
 */
enum err saved_open(const char *path, struct saved *out, struct why *why) MUST_CHECK;
void saved_release(struct saved *s); /* NULL-safe, idempotent */

/* A member of the file's meta that must be a number of at least 0. */
enum err saved_number(
	const struct statefile *file, const char *name, uint64_t *out, struct why *why) MUST_CHECK;

#endif
