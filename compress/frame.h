/*
 * Planes on the way: one zstd frame, its content size declared, a block border after each plane so
 * that each has its own statistics.  The bytes depend on the version of zstd; nothing that
 * must agree is taken over them.
 */
#ifndef COMPRESS_FRAME_H
#define COMPRESS_FRAME_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "compress/planes.h"

/* Bytes of the frame of at most so many bytes of planes. */
size_t frame_bound(size_t planes);
/* Appends; ERR_nomem, ERR_toobig (out's maximum). */
enum err frame_pack(const struct planes *p, struct buf *out) MUST_CHECK;
/* What is inside, into planes, which is inited with the largest size the caller allows and cleared
 * here.  ERR_toobig when the frame declares more, before anything is allocated; ERR_truncated;
 * ERR_syntax when it declares nothing, is damaged, or is followed by anything; ERR_nomem. */
enum err frame_unpack(
	const uint8_t *frame, size_t len, struct buf *planes, struct why *why) MUST_CHECK;

#endif
