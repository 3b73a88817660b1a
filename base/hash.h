/* SHA-256 by OpenSSL, as a value type.  The name of every blob, run, shard state and ledger entry.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct hash {
	uint8_t b[32];
};
#define HASH_HEX 65 /* bytes of the text form with its NUL */

struct hash hash_of(const void *bytes, size_t n);
bool hash_equal(const struct hash *a, const struct hash *b);
bool hash_is_zero(const struct hash *h);
void hash_hex(const struct hash *h, char out[static HASH_HEX]);
enum err hash_parse(
	const char *hex, struct hash *out) MUST_CHECK; /* exactly 64 lower-case digits */
/* The content of a file, read in pieces; out is set on success only. */
enum err hash_file(const char *path, struct hash *out, uint64_t *size) MUST_CHECK;

/* In pieces.  hash_end frees the state and may be called only once; hash_drop gives up. */
struct hash_state;
struct hash_state *hash_begin(void);
void hash_add(struct hash_state *s, const void *bytes, size_t n);
void hash_add_u32(struct hash_state *s, uint32_t v); /* little-endian */
void hash_add_u64(struct hash_state *s, uint64_t v);
struct hash hash_end(struct hash_state *s);
void hash_drop(struct hash_state *s);

#endif
