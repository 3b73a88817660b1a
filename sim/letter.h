/* What the coordinator and a peer send each other in the simulation, in place of the messages of
 * net/messages.proto: the same facts, already decoded, with the bytes they would have. */
#ifndef SIM_LETTER_H
#define SIM_LETTER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/hash.h"
#include "net/shared.h"
#include "round/ledger.h"
#include "round/plan.h"

#define LETTER_SMALL 160u     /* bytes of a message without a document, roughly, with its frame */
#define LETTER_DOCUMENT 1024u /* of a signed document */

enum letter_kind {
	/* to the coordinator */
	LETTER_newcomer,     /* stands nowhere: wants a snapshot */
	LETTER_hello,        /* head.sequence, state */
	LETTER_report,       /* the same, after records were applied */
	LETTER_progress,     /* round, steps, tokens_per_s */
	LETTER_contribution, /* bytes[0] */
	LETTER_loss,         /* round, per_token, per_byte, steps: tokens it was measured on */
	/* to a peer */
	LETTER_snapshot, /* path, head */
	LETTER_plan,     /* plan */
	LETTER_records,  /* bytes[n], head, count: contributions of the last */
	LETTER_refusal
};

struct letter {
	enum letter_kind kind;
	size_t size;      /* on the way */
	uint64_t last_ns; /* when its last byte is there at the earliest */
	uint64_t round, steps;
	double tokens_per_s, per_token, per_byte;
	struct ledger_head head;
	struct hash state;
	struct plan plan;
	char *path;            /* owned */
	struct shared **bytes; /* held */
	uint32_t n, count;
};

struct letter *letter_new(enum letter_kind kind);
void letter_add(struct letter *l, struct shared *bytes); /* holds it, and grows by it */
void letter_free(struct letter *l);                      /* NULL-safe */
bool letter_goes_up(const struct letter *l);             /* to the coordinator */

#endif
