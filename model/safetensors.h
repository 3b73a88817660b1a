/*
 * The safetensors format (github.com/huggingface/safetensors): a 64-bit little-endian length, a
 * JSON header of that length, then the tensors' bytes.  Here it is read, through a mapping, so that
 * memory never holds the model twice; safetensors_out.h writes it.  A file is hostile input: the
 * header is bounded, and the tensors must lie side by side and cover the data exactly, as the
 * format demands.
 */
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"

/* The format allows 100 MB; a hundred thousand tensors need 10, and parsed JSON is many times as
 * large as its text. */
#define SAFETENSORS_HEADER_MAX (16u << 20)
#define SAFETENSORS_RANK_MAX 8
#define SAFETENSORS_NAME_MAX 256

/* The format's names of the types, and bytes of an element. */
#define SAFETENSORS_LIST(X) \
	X(F32, 4) \
	X(F16, 2) \
	X(BF16, 2) \
	X(F64, 8) \
	X(I64, 8) \
	X(I32, 4) \
	X(I16, 2) \
	X(I8, 1) \
	X(U64, 8) \
	X(U32, 4) \
	X(U16, 2) \
	X(U8, 1) \
	X(BOOL, 1) \
	X(F8_E4M3, 1) \
	X(F8_E5M2, 1)

enum safetensors_type {
#define X(name, width) SAFETENSORS_##name,
	SAFETENSORS_LIST(X)
#undef X
		SAFETENSORS_TYPES
};

struct safetensors_tensor {
	const char *name;
	enum safetensors_type type;
	uint32_t rank;
	uint64_t dim[SAFETENSORS_RANK_MAX];
	uint64_t count;       /* elements */
	const uint8_t *bytes; /* count * width of the type; not aligned */
};

/* ---- reading */
struct safetensors;

enum err safetensors_open(const char *path, struct safetensors **out, struct why *why) MUST_CHECK;
/* The same from memory; bytes are borrowed, name is what the sentences call them. */
enum err safetensors_parse(const char *name, const uint8_t *bytes, size_t n,
	struct safetensors **out, struct why *why) MUST_CHECK;
void safetensors_close(struct safetensors *s); /* NULL-safe */

size_t safetensors_header_bytes(const struct safetensors *s); /* of its text */
size_t safetensors_count(const struct safetensors *s);
/* In the order of their data.  Tensors live as long as s. */
const struct safetensors_tensor *safetensors_at(const struct safetensors *s, size_t i);
const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name);
/* A text of __metadata__, or NULL. */
const char *safetensors_meta(const struct safetensors *s, const char *key);
const char *safetensors_type_name(enum safetensors_type type);
size_t safetensors_width(enum safetensors_type type);      /* bytes of an element */
struct hash safetensors_hash(const struct safetensors *s); /* of an opened file's bytes */

/* count elements from first on as float32: F32, F16 and BF16; ERR_unsupported for other types.  The
 * range must lie within t->count. */
enum err safetensors_read(const struct safetensors_tensor *t, uint64_t first, size_t count,
	float *out, struct why *why) MUST_CHECK;

#endif
