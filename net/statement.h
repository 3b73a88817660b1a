/*
 * The run key's statement: which CURVE key and which TLS key speak for the run.  A signed document
 * of type "statement".  Its dates are wide, so that clocks some hours off do no harm; a clock that
 * is further off is named as the cause.
 */
#ifndef NET_STATEMENT_H
#define NET_STATEMENT_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "net/sign.h"

#define STATEMENT_MAX 4096u                    /* bytes of the document */
#define STATEMENT_VALID_S (366u * 24u * 3600u) /* how long a new one is good for */
#define STATEMENT_SLACK_S (24u * 3600u)        /* how far a clock may be off at both ends */

struct statement {
	struct hash run;
	struct sign_public key; /* the run key */
	uint8_t curve[32];      /* the coordinator's CURVE public key */
	struct hash spki;       /* of the coordinator's TLS key */
	uint64_t from_s, to_s;  /* wall clock */
};

/* Signed by the run key, which also fills key.  Caller frees. */
char *statement_make(const struct statement *s, const struct sign_key *run_key);
/* Check the document against the run and the key that the join link names.  ERR_signature,
 * ERR_wrong_run, ERR_syntax, ERR_range (expired, or a clock is wrong). */
enum err statement_open(const void *text, size_t n, const struct statement *expected,
	uint64_t now_s, struct statement *out, struct why *why) MUST_CHECK;

#endif
