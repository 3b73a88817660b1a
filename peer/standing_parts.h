/* What the files of a standing (standing*.c) share; nobody else includes it. */
#ifndef PEER_STANDING_PARTS_H
#define PEER_STANDING_PARTS_H
#include "base/buf.h"
#include "peer/standing.h"
#include "round/contribution.h"
#include "round/exchange.h"
#include "round/feedback.h"
#include "round/replica.h"

/* One shard's way from a cut to the ledger. */
struct standing_flight {
	struct feedback *feedback;
	struct buf sent;          /* the sealed contribution in flight; empty: none */
	struct contribution says; /* its statement */
};

struct standing {
	const struct spec *spec;
	const struct sign_key *key;
	uint32_t member;
	struct trainer *trainer;
	struct exchange exchange;
	struct replica *replica;
	struct ledger *ledger; /* NULL: stands nowhere */
	struct standing_flight *flights;
	uint32_t n_shards;
	bool joiner;     /* began in the middle of the run */
	bool confirmed;  /* a head was signed for where the ledger is */
	bool moved;      /* W has steps that were not cut */
	uint64_t listed; /* own tokens, summed over the shards */
	/* Where rounds overlap (standing_follow.c): */
	bool following;
	struct plan plan; /* its spans are what the ledger does not list yet for all shards */
	uint64_t at;      /* sequences of these that were trained on */
	uint64_t claimed; /* until where the contribution in flight goes */
	bool own_listed;  /* the ledger has listed it */
	uint32_t k;       /* what a cut keeps of a chunk */
	struct statefile_series series;
	char *dir;
	uint64_t *sequences; /* of one step */
	float *w;            /* the largest shard's size */
};

/* Until where a fragment is listed; the contributions of a round begin there. */
static inline uint64_t standing_from(const struct standing *s, const struct plan *plan)
{
	return plan->listed[turns_fragment(&s->spec->round, plan->round)];
}
/* ERR_state unless it stands somewhere that a head was signed for. */
enum err standing_somewhere(const struct standing *s, struct why *why) MUST_CHECK;
void standing_forget(struct standing *s); /* it stands nowhere then */
/* It stands somewhere, and the plan starts there. */
enum err standing_place(
	const struct standing *s, const struct plan *plan, struct why *why) MUST_CHECK;
/* One inner step on the batch that begins at this place of the plan's data. */
enum err standing_train(struct standing *s, const struct plan *plan, uint64_t first, double lr,
	double *loss, struct why *why) MUST_CHECK;
void standing_follow_settle(struct standing *s); /* after records were applied */

/* One file of the series: G as "param.N" and "momentum.N", the moments, the feedback, and
 * "contribution.N" of what is in flight.  W is in it, as "working.N", only of the shards that it
 * was not the turn of while training goes on: else it is G, or what was cut. */
enum err standing_file_write(struct standing *s, struct why *why) MUST_CHECK;
/* The same back; replica and ledger stand there already. */
enum err standing_file_read(
	struct standing *s, const struct statefile *file, struct why *why) MUST_CHECK;

#endif
