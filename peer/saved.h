/* A model that was saved, for those who use it (eval, generate), and small things that everybody
 * who resumes from a saved state needs. */
#ifndef PEER_SAVED_H
#define PEER_SAVED_H
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "model/checkpoint.h"
#include "model/hfmodel.h"
#include "model/statefile.h"
#include "model/tokenizer.h"
#include "peer/trainer.h"

struct saved {
	struct checkpoint state; /* of a state; else all zero */
	struct hfmodel *folder;  /* of a Hugging Face folder; or NULL */
	char *path;              /* of that folder */
	/* The state's; a folder's names no data and has windows of the context, 1024 at most. */
	struct spec *spec;
};

/* path is a Hugging Face folder, a state, or a folder of states, of which the newest good one is
 * taken and those passed over are logged.  Release in any case. */
enum err saved_open(const char *path, struct saved *out, struct why *why) MUST_CHECK;
void saved_release(struct saved *s);
/* The tokenizer that lies in the folder; *out is NULL when it is a state or has none. */
enum err saved_tokenizer(const struct saved *s, struct tokenizer **out, struct why *why) MUST_CHECK;
/* The parameters into the working copy of a trainer that was made from spec. */
enum err saved_load(const struct saved *s, struct trainer *t, struct why *why) MUST_CHECK;
/* The same from a folder whose model suits the trainer's spec. */
enum err saved_fill(const struct hfmodel *from, struct trainer *t, struct why *why) MUST_CHECK;

/* A member of the file's meta that must be a number of at least 0. */
enum err saved_number(
	const struct statefile *file, const char *name, uint64_t *out, struct why *why) MUST_CHECK;
/* Log the states that were passed over for an older one, a line each. */
void saved_tell_passed(const struct buf *passed);

#endif
