#include "base/file.h"
#include "base/alloc.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define READ_FIRST ((size_t)1 << 16)

static const char *cure(int errno_value)
{
	if (errno_value == EISDIR)
		return "give a file";
	switch (err_from_errno(errno_value)) {
	case ERR_full: return "free some space or choose another folder";
	case ERR_missing: return "check that the name is right";
	case ERR_permission: return "check owner and mode, or choose another place";
	case ERR_exists: return "remove it or choose another name";
	case ERR_nomem: return "close other programs or give more memory";
	default: return "check the disk and the path";
	}
}

enum err file_why(struct why *why, const char *what, const char *path, int errno_value)
{
	return err_why(why, err_from_errno(errno_value), "cannot %s %s: %s; %s", what, path,
		strerror(errno_value), cure(errno_value));
}

static enum err too_big(const char *path, size_t max, struct why *why)
{
	return err_why(why, ERR_toobig,
		"%s is larger than the %zu bytes allowed for such a file; check that it is the "
		"right one",
		path, max);
}

/* Opened for reading and found to be no folder.  Opening waits for nobody; reading then waits for
 * those who write into a pipe. */
static enum err open_read(const char *path, int *fd, struct stat *st, struct why *why)
{
	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (*fd < 0)
		return file_why(why, "read", path, errno);
	int e = fstat(*fd, st) != 0           ? errno
		: S_ISDIR(st->st_mode)        ? EISDIR
		: fcntl(*fd, F_SETFL, 0) != 0 ? errno
					      : 0;
	if (e == 0)
		return ERR_OK;
	close(*fd);
	return file_why(why, "read", path, e);
}

struct reading {
	int fd;
	const char *path;
	size_t max, cap; /* bytes allowed; room in bytes, for a NUL too */
	uint8_t *bytes;
	size_t len;
};

/* To the end of the file, and a NUL after it. */
static enum err read_all(struct reading *r, struct why *why)
{
	for (ssize_t got = 1; got != 0;) {
		if (r->len + 1 >= r->cap) {
			size_t cap = r->cap > r->max / 2 ? r->max + 2 : r->cap * 2;
			uint8_t *more = alloc_try_resize(r->bytes, cap, 1);
			if (!more)
				return file_why(why, "read", r->path, ENOMEM);
			r->bytes = more;
			r->cap = cap;
		}
		got = read(r->fd, r->bytes + r->len, r->cap - 1 - r->len);
		if (got < 0 && errno != EINTR)
			return file_why(why, "read", r->path, errno);
		r->len += got > 0 ? (size_t)got : 0;
		if (r->len > r->max)
			return too_big(r->path, r->max, why);
	}
	r->bytes[r->len] = 0;
	return ERR_OK;
}

enum err file_read(const char *path, size_t max, uint8_t **bytes, size_t *len, struct why *why)
{
	struct stat st;
	struct reading r = {.path = path, .max = max < SIZE_MAX / 2 ? max : SIZE_MAX / 2};
	*bytes = NULL;
	*len = 0;
	enum err err = open_read(path, &r.fd, &st, why);
	if (err)
		return err;
	// The size only sizes the first try; pipes and /proc say 0, and files may grow meanwhile.
	uint64_t size = st.st_size > 0 ? (uint64_t)st.st_size : 0;
	r.cap = size > 0 ? (size_t)(size < r.max ? size : r.max) + 2 : READ_FIRST;
	if (size > r.max)
		err = too_big(path, r.max, why);
	else if (!(r.bytes = alloc_try_resize(NULL, r.cap, 1)))
		err = file_why(why, "read", path, ENOMEM);
	else
		err = read_all(&r, why);
	close(r.fd);
	if (err) {
		free(r.bytes);
		return err;
	}
	*bytes = r.bytes;
	*len = r.len;
	return ERR_OK;
}

enum err file_write(const char *path, const void *bytes, size_t n, int mode, struct why *why)
{
	struct file_out *out;
	enum err err = file_out_open(path, mode, &out, why);
	if (err)
		return err;
	err = file_out_put(out, bytes, n, why);
	if (!err)
		return file_out_commit(out, why);
	file_out_discard(out);
	return err;
}

static enum err make_folder(const char *path, int mode, struct why *why)
{
	struct stat st;
	if (mkdir(path, (mode_t)mode) == 0)
		return ERR_OK;
	int e = errno;
	if (stat(path, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			return ERR_OK;
		e = EEXIST;
	}
	return file_why(why, "make the folder", path, e);
}

enum err file_mkdirs(const char *path, int mode, struct why *why)
{
	char *part = alloc_must_strdup(path);
	enum err err = ERR_OK;
	for (char *at = part; !err && *at;) {
		at += strspn(at, "/");
		at += strcspn(at, "/");
		char kept = *at;
		*at = '\0';
		err = make_folder(part, mode, why);
		*at = kept;
		at += strspn(at, "/");
	}
	free(part);
	return err;
}

bool file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

int file_sync_folder(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	// Some network file systems cannot sync a folder and say so; there is nothing better to do.
	int e = fsync(fd) != 0 && errno != EINVAL ? errno : 0;
	close(fd);
	return e;
}

void file_sweep(const char *folder, const char *prefix)
{
	DIR *dir = opendir(folder);
	if (!dir)
		return;
	for (struct dirent *e; (e = readdir(dir));) {
		size_t n = strlen(e->d_name);
		if (n > 4 && strcmp(e->d_name + n - 4, ".tmp") == 0 &&
			strncmp(e->d_name, prefix, strlen(prefix)) == 0)
			unlinkat(dirfd(dir), e->d_name, 0);
	}
	closedir(dir);
}

enum err file_space(const char *path, uint64_t *bytes)
{
	char *at = alloc_must_strdup(path);
	struct statvfs vfs;
	int e = 0;
	// What is not there yet will be on the file system of the nearest folder above that is.
	while (statvfs(*at ? at : ".", &vfs) != 0) {
		e = errno;
		char *slash = strrchr(at, '/');
		if (e != ENOENT || !*at || strcmp(at, "/") == 0)
			break;
		if (slash)
			slash[slash == at] = '\0';
		else
			*at = '\0';
		e = 0;
	}
	free(at);
	if (e == 0)
		*bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
	return err_from_errno(e);
}

/* Who wrote its number into the lock file; "another process" while that is not to be read. */
static void holder(int fd, char *text, size_t room)
{
	char digits[16] = "";
	ssize_t n = pread(fd, digits, sizeof digits - 1, 0);
	size_t len = n > 0 ? strspn(digits, "0123456789") : 0;
	if (len > 0)
		snprintf(text, room, "process %.*s", (int)len, digits);
	else
		snprintf(text, room, "another process");
}

enum err file_lock(const char *path, int *fd, struct why *why)
{
	int f = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (f < 0)
		return file_why(why, "lock", path, errno);
	if (flock(f, LOCK_EX | LOCK_NB) != 0) {
		int e = errno;
		char who[40];
		holder(f, who, sizeof who);
		close(f);
		if (e != EWOULDBLOCK)
			return file_why(why, "lock", path, e);
		return err_why(why, ERR_busy,
			"%s is in use by %s; stop it first or choose another folder", path, who);
	}
	char pid[24];
	int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
	if (ftruncate(f, 0) != 0 || pwrite(f, pid, (size_t)n, 0) != n) {
		enum err err = file_why(why, "lock", path, errno);
		close(f);
		return err;
	}
	*fd = f;
	return ERR_OK;
}

enum err file_map(const char *path, struct file_map *out, struct why *why)
{
	int fd;
	struct stat st;
	*out = (struct file_map){0};
	enum err err = open_read(path, &fd, &st, why);
	if (err)
		return err;
	if (!S_ISREG(st.st_mode))
		err = err_why(
			why, ERR_unsupported, "%s is not a plain file; copy it into one", path);
	else if (st.st_size == 0)
		err = err_why(why, ERR_truncated, "%s is empty; fetch or make it again", path);
	if (!err) {
		size_t len = (size_t)st.st_size;
		void *data = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
		if (data == MAP_FAILED)
			err = file_why(why, "map", path, errno);
		else
			*out = (struct file_map){.data = data, .len = len};
	}
	close(fd);
	return err;
}

void file_unmap(struct file_map *m)
{
	if (!m || !m->data)
		return;
	munmap((void *)(uintptr_t)m->data, m->len);
	*m = (struct file_map){0};
}
