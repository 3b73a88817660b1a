#include "net/sign.h"
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/hash.h"
#include "base/rng.h"

struct sign_key {
	EVP_PKEY *pair;
};

struct sign_key *sign_make(void)
{
	uint8_t secret[SIGN_SECRET];
	struct sign_key *k;
	rng_secret(secret, sizeof secret);
	if (sign_load(secret, &k)) /* any 32 bytes are a key: only memory can fail */
		abort();
	OPENSSL_cleanse(secret, sizeof secret);
	return k;
}

enum err sign_load(const uint8_t secret[static SIGN_SECRET], struct sign_key **out)
{
	EVP_PKEY *pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret, SIGN_SECRET);
	if (!pair)
		return ERR_syntax;
	*out = alloc_must_zero(1, sizeof **out);
	(*out)->pair = pair;
	return ERR_OK;
}

void sign_store(const struct sign_key *k, uint8_t secret[static SIGN_SECRET])
{
	size_t n = SIGN_SECRET;
	if (EVP_PKEY_get_raw_private_key(k->pair, secret, &n) != 1 || n != SIGN_SECRET)
		abort(); /* an Ed25519 key always has its 32 bytes */
}

void sign_free(struct sign_key *k)
{
	if (!k)
		return;
	EVP_PKEY_free(k->pair);
	free(k);
}

struct sign_public sign_public_of(const struct sign_key *k)
{
	struct sign_public p;
	size_t n = sizeof p.b;
	if (EVP_PKEY_get_raw_public_key(k->pair, p.b, &n) != 1 || n != sizeof p.b)
		abort();
	return p;
}

/* What is signed: SHA-256 over the purpose with its NUL and the bytes.  Its length is fixed, so no
 * purpose and text can be read as another purpose and text. */
static struct hash digest(const char *purpose, const void *bytes, size_t n)
{
	struct hash_state *s = hash_begin();
	hash_add(s, purpose, strlen(purpose) + 1);
	hash_add(s, bytes, n);
	return hash_end(s);
}

void sign_bytes(const struct sign_key *k, const char *purpose, const void *bytes, size_t n,
	uint8_t out[static SIGN_BYTES])
{
	struct hash d = digest(purpose, bytes, n);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t len = SIGN_BYTES;
	if (!ctx || EVP_DigestSignInit(ctx, NULL, NULL, NULL, k->pair) != 1 ||
		EVP_DigestSign(ctx, out, &len, d.b, sizeof d.b) != 1 || len != SIGN_BYTES)
		abort(); /* only memory can fail */
	EVP_MD_CTX_free(ctx);
}

enum err sign_verify(const uint8_t public_key[static SIGN_PUBLIC], const char *purpose,
	const void *bytes, size_t n, const uint8_t signature[static SIGN_BYTES])
{
	struct hash d = digest(purpose, bytes, n);
	EVP_PKEY *key =
		EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, SIGN_PUBLIC);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool good = key && ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
		    EVP_DigestVerify(ctx, signature, SIGN_BYTES, d.b, sizeof d.b) == 1;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	return good ? ERR_OK : ERR_signature;
}
