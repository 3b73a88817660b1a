#include "coordinator/piecelist.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "round/object.h"

#define LIST_MOST (2u << 20) /* of 64 GiB; its text must fit into a signed document */

static char *list_path(const char *dir, uint64_t round)
{
	return alloc_must_printf("%s/pieces-%012llu", dir, (unsigned long long)round);
}

/* The hash of each piece of the file, one after another. */
static enum err hash_pieces(const char *path, struct buf *out, struct why *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *bytes = alloc_must(OBJECT_PIECE);
	ssize_t n = fd < 0 ? -1 : 0;
	for (off_t at = 0; fd >= 0; at += n) {
		n = pread(fd, bytes, OBJECT_PIECE, at);
		if (n <= 0)
			break;
		struct hash h = hash_of(bytes, (size_t)n);
		buf_put(out, h.b, sizeof h.b);
	}
	enum err err = n < 0 ? file_why(why, "read", path, errno) : ERR_OK;
	if (!err && !buf_ok(out))
		err = err_why(why, ERR_toobig, "%s is too large for a list of its pieces", path);
	if (fd >= 0)
		close(fd);
	free(bytes);
	return err;
}

void piecelist_write(
	const struct blob_store *blobs, const char *dir, const struct hash *blob, uint64_t round)
{
	char *from = blob_path(blobs, blob), *to = list_path(dir, round);
	struct buf list;
	struct why why;
	buf_init(&list, LIST_MOST);
	enum err err = hash_pieces(from, &list, &why);
	if (!err)
		err = file_write(to, list.data, list.len, 0644, &why);
	if (err)
		log_warn(store, "peers cannot give round %llu's snapshot to each other: %s",
			(unsigned long long)round, why.text);
	buf_release(&list);
	free(from);
	free(to);
}

char *piecelist_read(const char *dir, uint64_t round, uint64_t size)
{
	char *path = list_path(dir, round), *text = NULL;
	uint8_t *list = NULL;
	size_t n = 0;
	const uint64_t pieces = (size + OBJECT_PIECE - 1) / OBJECT_PIECE;
	if (file_exists(path) && !file_read(path, LIST_MOST, &list, &n, NULL) &&
		n == pieces * sizeof(struct hash)) {
		text = alloc_must(2 * n + 1);
		text_hex(list, n, text);
	}
	free(list);
	free(path);
	return text;
}

void piecelist_remove(const char *dir, uint64_t round)
{
	char *path = list_path(dir, round);
	unlink(path);
	free(path);
}
