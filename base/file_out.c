#include "base/alloc.h"
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct file_out {
	char *path, *temporary;
	int fd;
	int errno_value; // of the first failure; a file with a hole in it is never committed
};

enum err file_out_open(const char *path, int mode, struct file_out **out, struct why *why)
{
	struct file_out *f = alloc_must_zero(1, sizeof *f);
	f->path = alloc_must_strdup(path);
	f->temporary = alloc_must_printf("%s.XXXXXX.tmp", path);
	f->fd = mkostemps(f->temporary, 4, O_CLOEXEC);
	int e = f->fd < 0 ? errno : fchmod(f->fd, (mode_t)mode) != 0 ? errno : 0;
	if (e != 0) {
		file_out_discard(f);
		return file_why(why, "write", path, e);
	}
	*out = f;
	return ERR_OK;
}

enum err file_out_put(struct file_out *f, const void *bytes, size_t n, struct why *why)
{
	const uint8_t *at = bytes;
	while (n > 0 && f->errno_value == 0) {
		ssize_t done = write(f->fd, at, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0) {
			f->errno_value = errno;
			break;
		}
		at += done;
		n -= (size_t)done;
	}
	if (f->errno_value)
		return file_why(why, "write", f->path, f->errno_value);
	return ERR_OK;
}

static int sync_folder_of(const char *path)
{
	char *folder = alloc_must_strdup(path);
	char *slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	int e = file_sync_folder(slash ? folder : ".");
	free(folder);
	return e;
}

static void forget(struct file_out *f)
{
	if (f->fd >= 0)
		close(f->fd);
	free(f->temporary);
	free(f->path);
	free(f);
}

enum err file_out_commit(struct file_out *f, struct why *why)
{
	int e = f->errno_value;
	if (e == 0 && fsync(f->fd) != 0)
		e = errno;
	if (e == 0) {
		// Closing may be where a network file system tells of a full disk.
		e = close(f->fd) != 0 ? errno : 0;
		f->fd = -1;
	}
	if (e == 0 && rename(f->temporary, f->path) != 0)
		e = errno;
	if (e != 0) {
		enum err err = file_why(why, "write", f->path, e);
		file_out_discard(f);
		return err;
	}
	e = sync_folder_of(f->path);
	enum err err = e ? file_why(why, "sync the folder of", f->path, e) : ERR_OK;
	forget(f);
	return err;
}

void file_out_discard(struct file_out *f)
{
	if (!f)
		return;
	unlink(f->temporary);
	forget(f);
}
