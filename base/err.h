/*
 * The one error type.  A function that can fail returns enum err (0 is success) and gives its
 * results through its last arguments.  A function whose failure a person or a peer will read also
 * takes a struct why: it receives one sentence with the cause, the offending value and the cure.
 * Nothing below the programs prints; whoever holds the why at the edge reports it, once.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

/* Numbers travel in refusals and in JSON: append only, never renumber, never reuse. */
#define ERR_LIST(X) \
	X(1, nomem, "out of memory") \
	X(2, io, "input or output failed") \
	X(3, full, "no space left") \
	X(4, missing, "not found") \
	X(5, exists, "already there") \
	X(6, permission, "not permitted") \
	X(7, range, "value out of range") \
	X(8, syntax, "cannot be parsed") \
	X(9, truncated, "ends too early") \
	X(10, toobig, "larger than allowed") \
	X(11, version, "another version") \
	X(12, magic, "not this kind of file or message") \
	X(13, hash, "content does not match its hash") \
	X(14, signature, "signature does not verify") \
	X(15, unsupported, "not supported here") \
	X(16, state, "not possible in this state") \
	X(17, timeout, "took too long") \
	X(18, closed, "closed") \
	X(19, network, "network failure") \
	X(20, unknown_peer, "not on the roster") \
	X(21, invite, "invite not valid") \
	X(22, wrong_run, "belongs to another run") \
	X(23, wrong_round, "belongs to another round") \
	X(24, wrong_parent, "parent head does not match the ledger") \
	X(25, duplicate, "was already received") \
	X(26, not_finite, "contains NaN or infinity") \
	X(27, norm, "norm beyond the limit") \
	X(28, shape, "wrong shape or size") \
	X(29, tokens, "claims more tokens than assigned") \
	X(30, spec, "spec differs") \
	X(31, busy, "busy, try again later") \
	X(32, usage, "wrong usage") \
	X(33, interrupted, "interrupted") \
	X(34, fork, "ledger does not descend from the known head") \
	X(35, refused, "refused")

enum err {
	ERR_OK = 0,
#define X(number, name, text) ERR_##name = number,
	ERR_LIST(X)
#undef X
};

/* The short name ("wrong_round") and the plain text of a code; "unknown" for a number not listed.
 */
const char *err_name(enum err code);
const char *err_text(enum err code);
/* The code for an errno value: full disk or quota, missing, exists, permission (also a read-only
 * file system), nomem; all others are io. */
enum err err_from_errno(int errno_value);

/* A refusal in words.  The code repeats what the function returned. */
struct why {
	enum err code;
	char text[400];
};

/* Write the sentence and return code, so that `return err_why(why, ERR_range, "…")` reads as one
 * step.  why may be NULL.  The text is cut at the size of the field and goes through text_clean, so
 * that it is safe to log and valid in JSON; arguments may point into why's old text. */
enum err err_why(struct why *why, enum err code, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif
