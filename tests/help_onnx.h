/* Reads the tensors of ONNX's test data: a protobuf message TensorProto in a file of its own. */
#ifndef TESTS_HELP_ONNX_H
#define TESTS_HELP_ONNX_H
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"

enum { ONNX_RANK = 8, ONNX_FLOAT = 1, ONNX_INT32 = 6, ONNX_INT64 = 7, ONNX_BYTES_MAX = 1 << 24 };

struct onnx_tensor {
	uint32_t rank;
	uint64_t dim[ONNX_RANK], n;
	double *x; /* whatever the type; NULL: no such file */
};

struct onnx_rd {
	const uint8_t *at, *end;
};

static inline uint64_t onnx_varint(struct onnx_rd *r)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (r->at == r->end)
			break;
		uint8_t b = *r->at++;
		v |= (uint64_t)(b & 127) << shift;
		if (b < 128)
			return v;
	}
	fail_msg("a number without end");
	return 0;
}

/* A field: its number, and either the value or, of a piece with a length, the bytes. */
struct onnx_field {
	uint64_t number, value;
	struct onnx_rd bytes;
};

static inline struct onnx_field onnx_field(struct onnx_rd *r)
{
	uint64_t key = onnx_varint(r);
	struct onnx_field f = {.number = key >> 3};
	switch (key & 7) {
	case 0: f.value = onnx_varint(r); break;
	case 2:
		f.value = onnx_varint(r);
		assert_true(f.value <= (uint64_t)(r->end - r->at));
		f.bytes = (struct onnx_rd){r->at, r->at + f.value};
		r->at = f.bytes.end;
		break;
	default: fail_msg("a field of a kind that tensors have not"); /* 4 and 8 bytes */
	}
	return f;
}

static inline double onnx_number(uint64_t type, const uint8_t *at)
{
	float real;
	int32_t narrow;
	int64_t wide;
	switch (type) {
	case ONNX_FLOAT: memcpy(&real, at, sizeof real); return (double)real;
	case ONNX_INT32: memcpy(&narrow, at, sizeof narrow); return narrow;
	default: memcpy(&wide, at, sizeof wide); return (double)wide;
	}
}

static inline void onnx_numbers(struct onnx_tensor *t, uint64_t type, struct onnx_rd raw)
{
	assert_true(type == ONNX_FLOAT || type == ONNX_INT32 || type == ONNX_INT64);
	size_t each = type == ONNX_INT64 ? 8 : 4;
	t->n = 1;
	for (uint32_t i = 0; i < t->rank; i++)
		assert_false(__builtin_mul_overflow(t->n, t->dim[i], &t->n));
	assert_true(t->n <= ONNX_BYTES_MAX && (uint64_t)(raw.end - raw.at) == t->n * each);
	t->x = alloc_must_zero(t->n + 1, sizeof *t->x);
	for (uint64_t i = 0; i < t->n; i++)
		t->x[i] = onnx_number(type, raw.at + i * each);
}

/* Caller frees x. */
static inline struct onnx_tensor onnx_read(const char *path)
{
	struct onnx_tensor t = {0};
	struct onnx_rd raw = {0};
	uint64_t type = 0;
	uint8_t *bytes = NULL;
	size_t len = 0;
	struct why why = {0};
	if (!file_exists(path))
		return t;
	if (file_read(path, ONNX_BYTES_MAX, &bytes, &len, &why))
		fail_msg("%s", why.text);
	for (struct onnx_rd r = {bytes, bytes + len}; r.at < r.end;) {
		struct onnx_field f = onnx_field(&r);
		if (f.number == 2)
			type = f.value;
		if (f.number == 9 || (f.number == 4 && type == ONNX_FLOAT))
			raw = f.bytes; /* raw_data, or packed float_data: the same bytes */
		if (f.number != 1)
			continue;
		struct onnx_rd packed = f.bytes; /* dims, packed or one by one */
		do {
			assert_true(t.rank < ONNX_RANK);
			t.dim[t.rank++] = packed.at ? onnx_varint(&packed) : f.value;
		} while (packed.at < packed.end);
	}
	onnx_numbers(&t, type, raw);
	free(bytes);
	return t;
}

#endif
