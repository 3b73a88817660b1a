/* What a simulation comes to: figures that are added up while it goes on, and how they are shown.
 */
#ifndef SIM_TALLY_H
#define SIM_TALLY_H
#include <stdint.h>
#include <stdio.h>
#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"

#define TALLY_CODES 64 /* more than ERR_LIST has */

struct tally_round {
	uint64_t round, tokens, up, down; /* bytes: accepted; of its records, for each member */
	uint32_t members, dropped;
	double took_s, at_s; /* from its opening; since the beginning */
	double delay_s;      /* from a cut for it until a member has applied it: sum over */
	uint32_t delays;     /* so many */
};

struct tally_loss {
	uint64_t round, tokens;
	double per_token, per_byte;
};

struct tally {
	struct tally_round *rounds;
	size_t n_rounds;
	struct tally_loss *losses;
	size_t n_losses;
	uint64_t refusals[TALLY_CODES], deaths;
	double could; /* tokens that the trainers could have done while they were there */
	/* filled in at the end */
	uint64_t tokens, up, down; /* bytes through the coordinator's line */
	double virtual_s, real_s;
	struct hash head;
};

void tally_release(struct tally *t);
void tally_round(struct tally *t, const struct tally_round *r);
void tally_loss(struct tally *t, const struct tally_loss *l);
void tally_refuse(struct tally *t, enum err code);
uint64_t tally_refused(const struct tally *t);
double tally_utilisation(const struct tally *t);
void tally_delay(struct tally *t, uint64_t round, double seconds);
/* Mean delay by the length of a round, which is from close to close: of all, of one. */
double tally_delay_share(const struct tally *t);
double tally_delay_of(const struct tally *t, size_t i);

void tally_print(const struct tally *t, FILE *to); /* the table, and the line with the verdict */
json_t *tally_json(const struct tally *t);         /* the same; caller decrefs */

#endif
