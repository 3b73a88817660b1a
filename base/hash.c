#include "base/hash.h"
#include "base/alloc.h"
#include "base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 18)

struct hash_state {
	EVP_MD_CTX *ctx;
};

// Fetched once: an implicit fetch for each small hash costs more than the hash.
static EVP_MD *sha256;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* SHA-256 fails only when OpenSSL has no memory or is broken: neither comes from outside. */
static void must(bool ok)
{
	if (!ok) {
		fprintf(stderr, "OpenSSL has no working SHA-256\n");
		abort();
	}
}

static void fetch(void)
{
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	must(sha256 != NULL);
}

struct hash_state *hash_begin(void)
{
	pthread_once(&once, fetch);
	struct hash_state *s = alloc_must(sizeof *s);
	s->ctx = EVP_MD_CTX_new();
	must(s->ctx && EVP_DigestInit_ex(s->ctx, sha256, NULL) == 1);
	return s;
}

void hash_add(struct hash_state *s, const void *bytes, size_t n)
{
	if (n > 0)
		must(EVP_DigestUpdate(s->ctx, bytes, n) == 1);
}

static void add_le(struct hash_state *s, uint64_t v, size_t n)
{
	uint8_t le[8];
	for (size_t i = 0; i < n; i++)
		le[i] = (uint8_t)(v >> 8 * i);
	hash_add(s, le, n);
}

void hash_add_u32(struct hash_state *s, uint32_t v)
{
	add_le(s, v, 4);
}

void hash_add_u64(struct hash_state *s, uint64_t v)
{
	add_le(s, v, 8);
}

struct hash hash_end(struct hash_state *s)
{
	struct hash out;
	must(EVP_DigestFinal_ex(s->ctx, out.b, NULL) == 1);
	hash_drop(s);
	return out;
}

void hash_drop(struct hash_state *s)
{
	if (!s)
		return;
	EVP_MD_CTX_free(s->ctx);
	free(s);
}

struct hash hash_of(const void *bytes, size_t n)
{
	struct hash_state *s = hash_begin();
	hash_add(s, bytes, n);
	return hash_end(s);
}

bool hash_equal(const struct hash *a, const struct hash *b)
{
	return CRYPTO_memcmp(a->b, b->b, sizeof a->b) == 0;
}

bool hash_is_zero(const struct hash *h)
{
	static const struct hash zero;
	return hash_equal(h, &zero);
}

void hash_hex(const struct hash *h, char out[static HASH_HEX])
{
	text_hex(h->b, sizeof h->b, out);
}

enum err hash_parse(const char *hex, struct hash *out)
{
	struct hash h;
	enum err err = text_unhex(hex, h.b, sizeof h.b);
	if (!err)
		*out = h;
	return err;
}

/* All of fd into s, *size bytes. */
static enum err add_fd(struct hash_state *s, int fd, uint64_t *size)
{
	uint8_t *chunk = alloc_try(CHUNK, 1);
	if (!chunk)
		return ERR_nomem;
	enum err err = ERR_OK;
	*size = 0;
	for (;;) {
		ssize_t n = read(fd, chunk, CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			err = err_from_errno(errno);
		if (n <= 0)
			break;
		hash_add(s, chunk, (size_t)n);
		*size += (uint64_t)n;
	}
	free(chunk);
	return err;
}

enum err hash_file(const char *path, struct hash *out, uint64_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a named pipe is empty */
	if (fd < 0)
		return err_from_errno(errno);
	struct hash_state *s = hash_begin();
	enum err err = add_fd(s, fd, size);
	close(fd);
	struct hash h = hash_end(s);
	if (!err)
		*out = h;
	return err;
}
