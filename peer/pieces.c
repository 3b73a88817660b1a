#include "peer/pieces.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "round/object.h"

struct pieces {
	char *path;
	int fd;
	uint64_t size, have;
	const struct hash *hashes;
	size_t n;
	bool *here;
};

size_t pieces_count(const struct pieces *p)
{
	return p->n;
}

uint64_t pieces_bytes(const struct pieces *p, size_t i)
{
	return i + 1 < p->n ? OBJECT_PIECE : p->size - (uint64_t)i * OBJECT_PIECE;
}

bool pieces_here(const struct pieces *p, size_t i)
{
	return p->here[i];
}

uint64_t pieces_have(const struct pieces *p)
{
	return p->have;
}

static bool right(const struct pieces *p, size_t i, const void *bytes, size_t n)
{
	struct hash is = hash_of(bytes, n);
	return n == pieces_bytes(p, i) && hash_equal(&is, &p->hashes[i]);
}

static void note(struct pieces *p, size_t i)
{
	p->here[i] = true;
	p->have += pieces_bytes(p, i);
}

/* What is there already; what cannot be read is fetched. */
static void look(struct pieces *p, uint64_t there)
{
	uint8_t *bytes = alloc_must(OBJECT_PIECE);
	for (size_t i = 0; i < p->n && (uint64_t)i * OBJECT_PIECE < there; i++) {
		ssize_t n = pread(p->fd, bytes, (size_t)pieces_bytes(p, i),
			(off_t)((uint64_t)i * OBJECT_PIECE));
		if (n > 0 && right(p, i, bytes, (size_t)n))
			note(p, i);
	}
	free(bytes);
}

enum err pieces_open(const char *path, uint64_t size, const struct hash *hashes,
	struct pieces **out, struct why *why)
{
	struct pieces *p = alloc_must_zero(1, sizeof *p);
	p->path = alloc_must_strdup(path);
	p->size = size;
	p->hashes = hashes;
	p->n = (size_t)((size + OBJECT_PIECE - 1) / OBJECT_PIECE);
	p->here = alloc_must_zero(p->n + 1, sizeof *p->here);
	p->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	off_t there = p->fd < 0 ? -1 : lseek(p->fd, 0, SEEK_END);
	if (there < 0 || ftruncate(p->fd, (off_t)size)) {
		enum err err = file_why(why, "make", path, errno);
		pieces_close(p);
		return err;
	}
	look(p, (uint64_t)there);
	*out = p;
	return ERR_OK;
}

void pieces_close(struct pieces *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	free(p->path);
	free(p->here);
	free(p);
}

enum err pieces_put(struct pieces *p, size_t i, const void *bytes, size_t n, struct why *why)
{
	if (p->here[i])
		return ERR_OK;
	if (!right(p, i, bytes, n))
		return err_why(why, n == pieces_bytes(p, i) ? ERR_hash : ERR_shape,
			"piece %zu of %zu is not what the run key signed", i + 1, p->n);
	const uint8_t *at = bytes;
	for (size_t done = 0; done < n;) {
		ssize_t one = pwrite(
			p->fd, at + done, n - done, (off_t)((uint64_t)i * OBJECT_PIECE + done));
		if (one < 0 && errno == EINTR)
			continue;
		if (one <= 0)
			return file_why(why, "write", p->path, one ? errno : ENOSPC);
		done += (size_t)one;
	}
	note(p, i);
	return ERR_OK;
}
