/*
 * Signed documents: {"body": {...}, "signature": hex, "type": "plan"} in canonical JSON.  The
 * signature is over the canonical body, for the purpose "shoal TYPE 1", so that a document of one
 * type never passes for another.
 */
#ifndef NET_SIGNED_H
#define NET_SIGNED_H
#include <stddef.h>
#include "base/err.h"
#include "base/json.h"
#include "net/sign.h"

#define SIGNED_MAX (8u << 20) /* bytes of a document */
#define SIGNED_TYPE_MAX 24

/* The document's text; body is borrowed; caller frees.  Ends the process when there is no memory.
 */
char *signed_make(const char *type, const json_t *body, const struct sign_key *key);
/* Parse, check type and signature; the body is owned by the caller (json_decref).  ERR_syntax,
 * ERR_magic (another type), ERR_signature. */
enum err signed_open(const void *text, size_t n, const char *type,
	const uint8_t key[static SIGN_PUBLIC], json_t **body, struct why *why) MUST_CHECK;

#endif
