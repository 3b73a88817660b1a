/*
 * Ed25519 signatures by OpenSSL 3.  Every signature is made for a purpose, a short text that is
 * signed along, so that one made for one purpose never serves another.  Keys may be used from any
 * thread; verifying is pure.
 */
#ifndef NET_SIGN_H
#define NET_SIGN_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define SIGN_PUBLIC 32 /* bytes of a public key */
#define SIGN_SECRET 32 /* bytes of a secret key, to be stored */
#define SIGN_BYTES 64  /* bytes of a signature */

struct sign_key; /* a secret key with its public one */

struct sign_public {
	uint8_t b[SIGN_PUBLIC];
};

struct sign_key *sign_make(void); /* from the system's randomness; aborts without it */
/* From stored bytes; ERR_syntax when they are no key. */
enum err sign_load(const uint8_t secret[static SIGN_SECRET], struct sign_key **out) MUST_CHECK;
void sign_store(const struct sign_key *k, uint8_t secret[static SIGN_SECRET]);
void sign_free(struct sign_key *k); /* NULL-safe; wipes */
struct sign_public sign_public_of(const struct sign_key *k);

void sign_bytes(const struct sign_key *k, const char *purpose, const void *bytes, size_t n,
	uint8_t out[static SIGN_BYTES]);
/* ERR_signature. */
enum err sign_verify(const uint8_t public_key[static SIGN_PUBLIC], const char *purpose,
	const void *bytes, size_t n, const uint8_t signature[static SIGN_BYTES]) MUST_CHECK;

#endif
