/*
 * A hostile member for end-to-end tests: a key of its own that registered like any other, a link,
 * and no training.  It follows the ledger by copying the state hashes out of the records, so that
 * it is given work like everybody; what it answers is up to the test.  One thread; every wait has a
 * deadline that fails the test.
 */
#ifndef TESTS_HELP_LIAR_H
#define TESTS_HELP_LIAR_H
#include <stdbool.h>
#include <stdint.h>
#include "net/link.h"
#include "net/sign.h"
#include "round/contribution.h"
#include "model/spec.h"
#include "round/plan.h"
#include "tests/help_swarm.h"

struct liar {
	const struct swarm *swarm;
	struct spec *spec;
	struct codec_params codec;
	struct sign_key *key;
	uint8_t curve[LINK_KEY]; /* the coordinator's */
	uint32_t number;
	size_t *n; /* values of each shard */
	struct mailbox *box;
	struct link *link;
	shoal_hello hello;
	struct hash *states; /* of each shard, from the newest records */
	uint64_t at;         /* sequence of the newest record */
	uint64_t behind_ns;  /* since when a newer head is known than records came for; 0: not */
	unsigned hellos;
	struct plan plan;   /* the last one that gave it data */
	bool mute;          /* reports no state, so that it is given no work */
	struct why refusal; /* the last one, of a message */
	unsigned refusals, pushes;
	uint64_t answered; /* ref of the object that was answered last */
	struct why answer;
};

/* Registers and says hello at the head.  help_liar_leave when done; a failed test leaks it. */
void help_liar_join(struct liar *l, const struct swarm *s, const char *name);
void help_liar_leave(struct liar *l);
/* Hears and answers for so long, at least once. */
void help_liar_listen(struct liar *l, unsigned ms);
/* Its plan for the open round, once it has data in one; for a round after this one. */
const struct plan *help_liar_plan(struct liar *l);
const struct plan *help_liar_next(struct liar *l, uint64_t round);

/* What an honest member would say about all the data of the plan. */
struct contribution help_liar_says(const struct liar *l, uint32_t shard);
/* Signed and framed, with a vector as long as that shard's, whatever the statement says: every
 * value that the codec sends is v or -v. */
void help_liar_seal(
	const struct liar *l, struct contribution *says, uint32_t shard, float v, struct buf *out);
/* Any bytes as a contribution; the verdict, ERR_OK: accepted. */
enum err help_liar_push(struct liar *l, const void *bytes, size_t n, struct why *why) MUST_CHECK;
void help_liar_say(struct liar *l, const shoal_header *header);

#endif
