#include "peer/shelf_chain.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"

#define LEAST 164u /* bytes of an entry that lists nobody */

/* The length and the number of the entry at this place; false at the end, or where none begins. */
static bool peek(const struct shelf_chain *c, uint64_t at, uint32_t *len, uint64_t *sequence)
{
	uint8_t bytes[16];
	struct rd r;
	if (at + LEAST > c->end ||
		pread(c->fd, bytes, sizeof bytes, (off_t)at) != (ssize_t)sizeof bytes)
		return false;
	rd_init(&r, bytes, sizeof bytes);
	*len = rd_u32(&r);
	(void)rd_u32(&r); /* version, kind */
	*sequence = rd_u64(&r);
	return *len >= LEAST && *len <= LEDGER_ENTRY_MAX && *len <= c->end - at;
}

static enum err read_entry(
	const struct shelf_chain *c, uint64_t at, uint32_t len, struct ledger_entry *e)
{
	uint8_t *bytes = alloc_must(len);
	size_t used;
	enum err err = pread(c->fd, bytes, len, (off_t)at) == (ssize_t)len ? ERR_OK : ERR_io;
	if (!err)
		err = ledger_entry_decode(bytes, len, &used, e, NULL);
	free(bytes);
	return err;
}

/* To the end of the last whole entry. */
static void find_end(struct shelf_chain *c)
{
	uint64_t at = 0, sequence, last = 0;
	uint32_t len;
	while (peek(c, at, &len, &sequence) && sequence == c->sequence + 1) {
		last = at;
		at += len;
		c->sequence = sequence;
	}
	c->end = at;
	struct ledger_entry e = {0};
	if (at && (read_entry(c, last, (uint32_t)(at - last), &e) ||
			  ledger_entry_hash(&e, &c->last))) {
		c->sequence = 0;
		c->end = 0;
	}
	ledger_entry_release(&e);
}

enum err shelf_chain_open(const char *path, struct shelf_chain *c, struct why *why)
{
	*c = (struct shelf_chain){.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
	off_t size = c->fd < 0 ? -1 : lseek(c->fd, 0, SEEK_END);
	if (size < 0)
		return file_why(why, "open", path, errno);
	c->end = (uint64_t)size;
	find_end(c);
	if (ftruncate(c->fd, (off_t)c->end))
		return file_why(why, "shorten", path, errno);
	return ERR_OK;
}

void shelf_chain_close(struct shelf_chain *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

enum err shelf_chain_add(struct shelf_chain *c, const void *entry, size_t n, struct why *why)
{
	struct ledger_entry e = {0};
	struct hash hash;
	size_t used = 0;
	enum err err = ledger_entry_decode(entry, n, &used, &e, why);
	if (!err && (used != n || e.sequence != c->sequence + 1 ||
			    (c->sequence && !hash_equal(&e.previous, &c->last))))
		err = err_why(why, ERR_fork,
			"ledger entry %llu does not follow from entry %llu on the shelf",
			(unsigned long long)e.sequence, (unsigned long long)c->sequence);
	if (!err)
		err = ledger_entry_hash(&e, &hash);
	ledger_entry_release(&e);
	if (err)
		return err;
	ssize_t written = pwrite(c->fd, entry, n, (off_t)c->end);
	if (written != (ssize_t)n)
		return file_why(why, "write to", "the shelf's chain", written < 0 ? errno : ENOSPC);
	c->end += n;
	c->sequence++;
	c->last = hash;
	return ERR_OK;
}

enum err shelf_chain_clear(struct shelf_chain *c, struct why *why)
{
	c->sequence = 0;
	c->end = 0;
	return ftruncate(c->fd, 0) ? file_why(why, "empty", "the shelf's chain", errno) : ERR_OK;
}

enum err shelf_chain_read(
	const struct shelf_chain *c, uint64_t after, struct buf *out, struct why *why)
{
	uint64_t at = 0, from, sequence;
	uint32_t len;
	while (peek(c, at, &len, &sequence) && sequence <= after)
		at += len;
	for (from = at; peek(c, at, &len, &sequence) && at + len - from <= out->max - out->len;)
		at += len;
	if (at == from)
		return err_why(why, ERR_missing, "no ledger entry after %llu is kept here",
			(unsigned long long)after);
	uint8_t *to = buf_grow(out, at - from);
	if (!to)
		return err_why(why, ERR_nomem, "no memory for ledger entries");
	return pread(c->fd, to, at - from, (off_t)from) == (ssize_t)(at - from)
		       ? ERR_OK
		       : file_why(why, "read", "the shelf's chain", errno);
}
