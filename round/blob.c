#include "round/blob.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"

#define PART ".part"
#define HEX (HASH_HEX - 1)

struct blob_store {
	char *dir;
	uint64_t cap;            /* 0: none */
	uint64_t total;          /* bytes of blobs and parts */
	uint64_t promised;       /* that open parts have still to get */
	struct blob_part *parts; /* those open */
};

struct blob_part {
	struct blob_part *next;
	struct blob_store *store;
	struct hash name;
	uint64_t size, have;
	int fd;
	char *path;
};

/* ---- names and sizes */

static char *path_of(const struct blob_store *s, const struct hash *name, const char *suffix)
{
	char hex[HASH_HEX];
	hash_hex(name, hex);
	return alloc_must_printf("%s/%s%s", s->dir, hex, suffix);
}

/* The hash that a file is named by, and whether it is a part of it. */
static bool name_of(const char *file, struct hash *name, bool *part)
{
	char hex[HASH_HEX];
	size_t n = strlen(file);
	*part = n == HEX + strlen(PART) && !strcmp(file + HEX, PART);
	if (n != HEX && !*part)
		return false;
	memcpy(hex, file, HEX);
	hex[HEX] = 0;
	return hash_parse(hex, name) == ERR_OK;
}

static bool size_of(const char *path, uint64_t *size)
{
	struct stat st;
	if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	*size = (uint64_t)st.st_size;
	return true;
}

static enum err sync_dir(const struct blob_store *s, struct why *why)
{
	int e = file_sync_folder(s->dir);
	return e ? file_why(why, "sync", s->dir, e) : ERR_OK;
}

static enum err check_room(const struct blob_store *s, uint64_t more, struct why *why)
{
	uint64_t taken = s->total + s->promised;
	if (s->cap && (taken > s->cap || more > s->cap - taken))
		return err_why(why, ERR_full,
			"%s holds %" PRIu64 " bytes of at most %" PRIu64 ", %" PRIu64
			" more do not fit: raise its limit or remove old files",
			s->dir, taken, s->cap, more);
	return ERR_OK;
}

/* ---- the store */

/* Calls with every file of the store, until one says no. */
static enum err each(const struct blob_store *s,
	bool (*fn)(void *arg, const struct hash *name, bool part), void *arg, struct why *why)
{
	DIR *d = opendir(s->dir);
	if (!d)
		return file_why(why, "read", s->dir, errno);
	struct dirent *e;
	bool part, go_on = true;
	struct hash name;
	while (go_on && (e = readdir(d)))
		if (name_of(e->d_name, &name, &part))
			go_on = fn(arg, &name, part);
	closedir(d);
	return go_on ? ERR_OK : err_why(why, ERR_nomem, "no memory to list %s", s->dir);
}

static bool add_size(void *arg, const struct hash *name, bool part)
{
	struct blob_store *s = arg;
	char *path = path_of(s, name, part ? PART : "");
	uint64_t size = 0;
	if (size_of(path, &size))
		s->total += size;
	free(path);
	return true;
}

enum err blob_open(const char *dir, uint64_t cap, struct blob_store **out, struct why *why)
{
	enum err err = file_mkdirs(dir, 0755, why);
	if (err)
		return err;
	file_sweep(dir, "");
	struct blob_store *s = alloc_must_zero(1, sizeof *s);
	s->dir = alloc_must_strdup(dir);
	s->cap = cap;
	err = each(s, add_size, s, why);
	if (err)
		blob_close(s);
	else
		*out = s;
	return err;
}

void blob_close(struct blob_store *s)
{
	if (!s)
		return;
	while (s->parts)
		blob_part_close(s->parts);
	free(s->dir);
	free(s);
}

enum err blob_put(
	struct blob_store *s, const void *bytes, size_t n, struct hash *name, struct why *why)
{
	*name = hash_of(bytes, n);
	if (blob_has(s, name))
		return ERR_OK;
	enum err err = check_room(s, n, why);
	if (err)
		return err;
	char *path = path_of(s, name, "");
	err = file_write(path, bytes, n, 0644, why);
	free(path);
	if (!err)
		s->total += n;
	return err;
}

enum err blob_adopt(struct blob_store *s, const char *path, struct hash *name, struct why *why)
{
	uint64_t size = 0;
	enum err err = hash_file(path, name, &size);
	if (err)
		return err_why(why, err, "cannot read %s: %s", path, err_text(err));
	bool there = blob_has(s, name);
	if (!there)
		err = check_room(s, size, why);
	if (err)
		return err;
	char *to = path_of(s, name, "");
	if (there ? unlink(path) != 0 : rename(path, to) != 0)
		err = file_why(why, there ? "remove" : "move into the store", path, errno);
	free(to);
	if (err || there)
		return err;
	s->total += size;
	return sync_dir(s, why);
}

bool blob_has(const struct blob_store *s, const struct hash *name)
{
	uint64_t size;
	return blob_size(s, name, &size) == ERR_OK;
}

enum err blob_size(const struct blob_store *s, const struct hash *name, uint64_t *size)
{
	char *path = path_of(s, name, "");
	bool there = size_of(path, size);
	free(path);
	return there ? ERR_OK : ERR_missing;
}

char *blob_path(const struct blob_store *s, const struct hash *name)
{
	return path_of(s, name, "");
}

static enum err missing(const struct hash *name, struct why *why)
{
	char hex[HASH_HEX];
	hash_hex(name, hex);
	return err_why(why, ERR_missing, "there is no blob %s here", hex);
}

static void forget(struct blob_store *s, uint64_t bytes)
{
	s->total -= bytes < s->total ? bytes : s->total;
}

/* Takes a damaged blob away, so that it is fetched anew. */
static enum err damaged(struct blob_store *s, const char *path, uint64_t size, struct why *why)
{
	if (unlink(path) == 0)
		forget(s, size);
	return err_why(why, ERR_hash,
		"%s does not hold what its name says: it was damaged and is removed", path);
}

enum err blob_get(struct blob_store *s, const struct hash *name, size_t max, uint8_t **bytes,
	size_t *n, struct why *why)
{
	if (!blob_has(s, name))
		return missing(name, why);
	char *path = path_of(s, name, "");
	enum err err = file_read(path, max, bytes, n, why);
	struct hash is = err ? *name : hash_of(*bytes, *n);
	if (!hash_equal(&is, name)) {
		err = damaged(s, path, *n, why);
		free(*bytes);
		*bytes = NULL;
	}
	free(path);
	return err;
}

enum err blob_verify(struct blob_store *s, const struct hash *name, struct why *why)
{
	struct hash is;
	uint64_t size = 0;
	if (!blob_has(s, name))
		return missing(name, why);
	char *path = path_of(s, name, "");
	enum err err = hash_file(path, &is, &size);
	if (err)
		err = err_why(why, err, "cannot read %s: %s", path, err_text(err));
	else if (!hash_equal(&is, name))
		err = damaged(s, path, size, why);
	free(path);
	return err;
}

enum err blob_remove(struct blob_store *s, const struct hash *name, struct why *why)
{
	uint64_t size = 0;
	if (blob_size(s, name, &size))
		return missing(name, why);
	char *path = path_of(s, name, "");
	enum err err = unlink(path) == 0 ? ERR_OK : file_why(why, "remove", path, errno);
	free(path);
	if (!err)
		forget(s, size);
	return err;
}

struct list {
	struct hash *names;
	size_t n, room;
};

static bool add_name(void *arg, const struct hash *name, bool part)
{
	struct list *l = arg;
	if (part)
		return true;
	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct hash *more = alloc_try_resize(l->names, room, sizeof *more);
		if (!more)
			return false;
		l->names = more;
		l->room = room;
	}
	l->names[l->n++] = *name;
	return true;
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct hash));
}

enum err blob_list(const struct blob_store *s, struct hash **names, size_t *count, struct why *why)
{
	struct list l = {0};
	enum err err = each(s, add_name, &l, why);
	if (err) {
		free(l.names);
		return err;
	}
	if (l.n > 1)
		qsort(l.names, l.n, sizeof *l.names, compare);
	*names = l.names;
	*count = l.n;
	return ERR_OK;
}

uint64_t blob_total(const struct blob_store *s)
{
	return s->total;
}

/* ---- fetching */

/* Whether all that was promised will fit. */
static enum err check_disk(const struct blob_store *s, struct why *why)
{
	uint64_t space = 0;
	enum err err = check_room(s, 0, why);
	if (!err && file_space(s->dir, &space) == ERR_OK && space < s->promised)
		err = err_why(why, ERR_full,
			"%s has %" PRIu64 " bytes free, %" PRIu64 " are to be fetched: make room",
			s->dir, space, s->promised);
	return err;
}

/* Opens the file and finds what is there; what is longer than it may be is of no use. */
static enum err open_file(struct blob_part *p, uint64_t size, struct why *why)
{
	struct stat st;
	p->fd = open(p->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (p->fd < 0 || fstat(p->fd, &st) != 0)
		return file_why(why, "write", p->path, errno);
	uint64_t have = (uint64_t)st.st_size;
	if (have > size) {
		if (ftruncate(p->fd, 0) != 0)
			return file_why(why, "shorten", p->path, errno);
		forget(p->store, have);
		have = 0;
	}
	p->size = size;
	p->have = have;
	p->store->promised += size - have;
	return ERR_OK;
}

enum err blob_part_open(struct blob_store *s, const struct hash *name, uint64_t size,
	struct blob_part **out, struct why *why)
{
	char hex[HASH_HEX];
	hash_hex(name, hex);
	if (blob_has(s, name))
		return err_why(why, ERR_exists, "blob %s is here already", hex);
	if (size > BLOB_MAX)
		return err_why(
			why, ERR_toobig, "blob %s is said to have %" PRIu64 " bytes", hex, size);
	for (struct blob_part *p = s->parts; p; p = p->next)
		if (hash_equal(&p->name, name))
			return err_why(why, ERR_busy, "blob %s is being fetched already", hex);
	struct blob_part *p = alloc_must_zero(1, sizeof *p);
	*p = (struct blob_part){.next = s->parts, .store = s, .name = *name, .fd = -1};
	p->path = path_of(s, name, PART);
	s->parts = p;
	enum err err = open_file(p, size, why);
	if (!err)
		err = check_disk(s, why);
	if (err)
		blob_part_close(p);
	else
		*out = p;
	return err;
}

uint64_t blob_part_have(const struct blob_part *p)
{
	return p->have;
}

enum err blob_part_put(struct blob_part *p, const void *bytes, size_t n, struct why *why)
{
	const uint8_t *at = bytes;
	if (n > p->size - p->have)
		return err_why(why, ERR_toobig,
			"%zu bytes come after byte %" PRIu64 " of a blob of %" PRIu64, n, p->have,
			p->size);
	while (n > 0) {
		ssize_t done = pwrite(p->fd, at, n, (off_t)p->have);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return file_why(why, "write", p->path, errno);
		at += done;
		n -= (size_t)done;
		p->have += (uint64_t)done;
		p->store->total += (uint64_t)done;
		p->store->promised -= (uint64_t)done;
	}
	return ERR_OK;
}

/* The file is whole: true to its name, on the disk, and then under its name. */
static enum err publish(struct blob_part *p, struct why *why)
{
	struct hash is;
	uint64_t size = 0;
	enum err err = hash_file(p->path, &is, &size);
	if (err)
		return err_why(why, err, "cannot read %s: %s", p->path, err_text(err));
	if (size != p->size || !hash_equal(&is, &p->name)) {
		if (unlink(p->path) == 0)
			forget(p->store, p->have);
		return err_why(why, ERR_hash,
			"what was fetched into %s is not what was asked for: fetch it anew, from "
			"another source",
			p->path);
	}
	char *path = path_of(p->store, &p->name, "");
	if (fsync(p->fd) != 0 || rename(p->path, path) != 0)
		err = file_why(why, "finish", p->path, errno);
	free(path);
	return err ? err : sync_dir(p->store, why);
}

enum err blob_part_commit(struct blob_part *p, struct why *why)
{
	enum err err = ERR_OK;
	if (p->have != p->size)
		err = err_why(why, ERR_truncated,
			"%" PRIu64 " of %" PRIu64 " bytes of a blob have come", p->have, p->size);
	else
		err = publish(p, why);
	blob_part_close(p);
	return err;
}

void blob_part_close(struct blob_part *p)
{
	if (!p)
		return;
	struct blob_part **at = &p->store->parts;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->store->promised -= p->size - p->have;
	if (p->fd >= 0)
		close(p->fd);
	free(p->path);
	free(p);
}
