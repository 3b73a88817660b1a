#include "model/textreader.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"

/* The longest piece, and enough beside it for all threads. */
#define WINDOW (SPLIT_PIECE_MAX + (1u << 20))

enum err textreader_init(
	struct textreader *r, const char *const *paths, size_t n_paths, struct why *why)
{
	*r = (struct textreader){.paths = paths, .n_paths = n_paths, .fd = -1};
	for (size_t i = 0; i < n_paths; i++) {
		struct stat st;
		if (stat(paths[i], &st) != 0)
			return err_why(why, err_from_errno(errno), "cannot read the text %s: %s",
				paths[i], strerror(errno));
		if (!S_ISREG(st.st_mode))
			return err_why(why, ERR_usage,
				"the text %s is not a regular file; save the text to a file first",
				paths[i]);
		r->total += (uint64_t)st.st_size;
	}
	if (r->total == 0)
		return err_why(why, ERR_range, "the text %s is empty; give one with words in it",
			n_paths ? paths[0] : "");
	r->window = alloc_try(WINDOW, 1);
	return r->window ? ERR_OK : err_why(why, ERR_nomem, "no memory to read a text");
}

void textreader_rewind(struct textreader *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	r->next = 0;
	r->at = 0;
}

void textreader_release(struct textreader *r)
{
	textreader_rewind(r);
	free(r->window);
	r->window = NULL;
}

/* Up to n bytes; 0 at the end of the last file. */
static enum err read_some(struct textreader *r, uint8_t *to, size_t n, size_t *got, struct why *why)
{
	*got = 0;
	while (*got == 0 && (r->fd >= 0 || r->next < r->n_paths)) {
		if (r->fd < 0)
			r->fd = open(r->paths[r->next++], O_RDONLY | O_CLOEXEC);
		ssize_t k = r->fd < 0 ? -1 : read(r->fd, to, n);
		if (k < 0 && errno == EINTR && r->fd >= 0)
			continue;
		if (k < 0)
			return err_why(why, err_from_errno(errno), "cannot read the text %s: %s",
				r->paths[r->next - 1], strerror(errno));
		if (k == 0) {
			close(r->fd);
			r->fd = -1;
		}
		*got = (size_t)k;
	}
	r->at += *got;
	return ERR_OK;
}

static enum err read_all(struct textreader *r, uint8_t *to, size_t n, struct why *why)
{
	for (size_t have = 0, got; have < n; have += got) {
		enum err e = read_some(r, to + have, n - have, &got, why);
		if (e)
			return e;
		if (got == 0)
			return err_why(why, ERR_truncated,
				"the text became shorter while it was read; run prepare again");
	}
	return ERR_OK;
}

/* How much of the window ends at the end of a piece, whatever follows: up to the last border that
 * needs no look at what is before it, or else as far as pieces can be told. */
static size_t settled(const uint8_t *window, size_t n, enum split rule)
{
	size_t at = split_last_border(window, n), len = 1;
	if (at)
		return at;
	for (; at < n && len; at += len)
		len = split_piece(rule, window + at, n - at, true);
	return at;
}

enum err textreader_walk(struct textreader *r, enum split rule, uint64_t bytes,
	textreader_sink *sink, void *arg, struct why *why)
{
	size_t have = 0;
	while (bytes) {
		size_t want = WINDOW - have < bytes ? WINDOW - have : (size_t)bytes;
		enum err e = read_all(r, r->window + have, want, why);
		if (e)
			return e;
		bytes -= want;
		have += want;
		size_t ready = bytes ? settled(r->window, have, rule) : have;
		e = sink(arg, r->window, ready);
		if (e)
			return e;
		have -= ready;
		memmove(r->window, r->window + ready, have);
	}
	return ERR_OK;
}
