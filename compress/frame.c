#include "compress/frame.h"
#include <inttypes.h>
#include <zstd.h>

/*
 * Huffman's coder and hardly anything else: what repeats in planes repeats by chance, and matches
 * cost more than they save (3 % at the default of level 3 for k = 256 of 4096, and half the speed).
 * Measured on pseudo-gradients with every plane, by bench_codec.
 */
static const struct {
	ZSTD_cParameter name;
	int value;
} parameters[] = {{ZSTD_c_compressionLevel, 1}, {ZSTD_c_strategy, ZSTD_fast}, {ZSTD_c_minMatch, 7},
	{ZSTD_c_hashLog, 6}};

size_t frame_bound(size_t planes)
{
	// Each plane may end with a block that is not full: a header of 3 bytes more.
	return ZSTD_compressBound(planes) + 3 * PLANES_MAX;
}

/* All of one plane into the room that is left. */
static bool pack_plane(ZSTD_CCtx *z, ZSTD_inBuffer in, ZSTD_outBuffer *room, bool final)
{
	size_t left = ZSTD_compressStream2(z, room, &in, final ? ZSTD_e_end : ZSTD_e_flush);
	return !ZSTD_isError(left) && left == 0 && in.pos == in.size;
}

static bool pack(ZSTD_CCtx *z, const struct planes *p, ZSTD_outBuffer *room)
{
	for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++)
		if (ZSTD_isError(
			    ZSTD_CCtx_setParameter(z, parameters[i].name, parameters[i].value)))
			return false;
	if (ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(z, p->bytes.len)))
		return false;
	size_t from = 0;
	for (uint32_t i = 0; i < p->n; from = p->end[i++]) {
		ZSTD_inBuffer in = {p->bytes.data + from, p->end[i] - from, 0};
		if (!pack_plane(z, in, room, i + 1 == p->n))
			return false;
	}
	return true;
}

enum err frame_pack(const struct planes *p, struct buf *out)
{
	size_t start = out->len, most = frame_bound(p->bytes.len);
	if (most > out->max - out->len)
		most = out->max - out->len;
	uint8_t *at = buf_grow(out, most);
	ZSTD_CCtx *z = at ? ZSTD_createCCtx() : NULL;
	if (!z)
		return ERR_nomem;
	ZSTD_outBuffer room = {at, most, 0};
	bool ok = pack(z, p, &room);
	ZSTD_freeCCtx(z);
	out->len = start + (ok ? room.pos : 0);
	return ok ? ERR_OK : most < frame_bound(p->bytes.len) ? ERR_toobig : ERR_nomem;
}

/* The declared size, if it is one that may be allocated. */
static enum err declared(
	const uint8_t *frame, size_t len, size_t max, size_t *size, struct why *why)
{
	unsigned long long content = ZSTD_getFrameContentSize(frame, len);
	if (content == ZSTD_CONTENTSIZE_ERROR)
		return err_why(why, ERR_syntax, "%zu bytes are no zstd frame", len);
	if (content == ZSTD_CONTENTSIZE_UNKNOWN || content == 0)
		return err_why(why, ERR_syntax, "a zstd frame does not declare its content");
	if (content > max)
		return err_why(why, ERR_toobig,
			"a zstd frame declares %llu bytes, at most %zu are allowed", content, max);
	size_t whole = ZSTD_findFrameCompressedSize(frame, len);
	if (ZSTD_isError(whole))
		return err_why(why, ERR_truncated,
			"a zstd frame of %zu bytes is cut short or damaged", len);
	if (whole != len)
		return err_why(why, ERR_syntax, "%zu bytes follow a zstd frame", len - whole);
	*size = (size_t)content;
	return ERR_OK;
}

enum err frame_unpack(const uint8_t *frame, size_t len, struct buf *planes, struct why *why)
{
	buf_clear(planes);
	size_t size = 0;
	enum err err = declared(frame, len, planes->max, &size, why);
	if (err)
		return err;
	uint8_t *at = buf_grow(planes, size);
	ZSTD_DCtx *z = at ? ZSTD_createDCtx() : NULL;
	if (!z) {
		buf_clear(planes);
		return err_why(why, ERR_nomem, "no memory for %zu bytes of planes", size);
	}
	size_t got = ZSTD_decompressDCtx(z, at, size, frame, len);
	ZSTD_freeDCtx(z);
	if (ZSTD_isError(got) || got != size) {
		buf_clear(planes);
		return err_why(why, ERR_syntax, "a zstd frame is damaged: %s",
			ZSTD_isError(got) ? ZSTD_getErrorName(got) : "shorter than declared");
	}
	return ERR_OK;
}
