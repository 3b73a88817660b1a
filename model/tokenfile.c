#include "model/tokenfile.h"
#include <assert.h>
#include <stdbool.h>
#include <string.h>

static const char magic[8] = {'S', 'H', 'O', 'A', 'L', 'T', 'O', 'K'};

uint32_t tokenfile_width(uint32_t vocab)
{
	return vocab <= 256 ? 1 : vocab <= 65536 ? 2 : 4;
}

static bool is_width(uint32_t width)
{
	return width == 1 || width == 2 || width == 4;
}

void tokenfile_write(struct buf *out, uint32_t width, const uint32_t *ids, size_t n)
{
	assert(is_width(width));
	buf_put(out, magic, sizeof magic);
	buf_put_u32(out, TOKENFILE_VERSION);
	buf_put_u32(out, width);
	buf_put_u64(out, n);
	uint8_t *to = n ? buf_grow(out, n * width) : NULL;
	if (!to)
		return;
	for (size_t i = 0; i < n; i++) {
		assert((uint64_t)ids[i] >> (8 * width) == 0);
		for (uint32_t k = 0; k < width; k++)
			*to++ = (uint8_t)(ids[i] >> (8 * k));
	}
}

enum err tokenfile_parse(
	const char *name, const void *bytes, size_t n, struct tokenfile *out, struct why *why)
{
	struct rd r;
	rd_init(&r, bytes, n);
	const uint8_t *head = rd_bytes(&r, sizeof magic);
	if (!head || memcmp(head, magic, sizeof magic) != 0)
		return err_why(why, ERR_magic,
			"%s is not a token shard; prepare the corpus again or fetch the blob again",
			name);
	uint32_t version = rd_u32(&r);
	out->width = rd_u32(&r);
	out->count = rd_u64(&r);
	if (!rd_ok(&r))
		return err_why(why, ERR_truncated,
			"%s ends within its head (%zu bytes); prepare the corpus again or fetch "
			"the blob again",
			name, n);
	if (version != TOKENFILE_VERSION)
		return err_why(why, ERR_version,
			"%s is a token shard of version %u, this program reads version %d; prepare "
			"the "
			"corpus again",
			name, version, TOKENFILE_VERSION);
	if (!is_width(out->width))
		return err_why(why, ERR_range, "%s has ids of %u bytes instead of 1, 2 or 4", name,
			out->width);
	size_t left = rd_left(&r);
	if (left % out->width != 0 || left / out->width != out->count)
		return err_why(why, ERR_truncated,
			"%s says that it has %llu ids of %u bytes, but %zu bytes follow; prepare "
			"the corpus "
			"again or fetch the blob again",
			name, (unsigned long long)out->count, out->width, left);
	out->ids = r.at;
	return ERR_OK;
}

void tokenfile_ids(const struct tokenfile *f, uint64_t first, size_t n, int32_t *out)
{
	assert(first <= f->count && n <= f->count - first);
	const uint8_t *at = f->ids + first * f->width;
	for (size_t i = 0; i < n; i++, at += f->width)
		out[i] = f->width == 1   ? at[0]
			 : f->width == 2 ? at[0] | at[1] << 8
					 : (int32_t)(at[0] | at[1] << 8 | at[2] << 16 |
						     (uint32_t)at[3] << 24);
}
