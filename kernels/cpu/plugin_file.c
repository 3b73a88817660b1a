#include "kernels/cpu/plugin_file.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENTS_MAX 64

/* Its code runs with our rights: its owner is root, us or the program's own, and it is not open to
 * everybody, unless the program is too (file systems that know no modes). */
static bool is_ours(const struct stat *st)
{
	struct stat self;
	if (stat("/proc/self/exe", &self) != 0)
		return false;
	bool owner = st->st_uid == 0 || st->st_uid == geteuid() || st->st_uid == self.st_uid;
	return owner && (!(st->st_mode & S_IWOTH) || (self.st_mode & S_IWOTH));
}

/* The linker maps what the segments announce, and dies when it touches what is behind the end. */
static bool is_whole(int fd, uint64_t size)
{
	ElfW(Ehdr) head;
	ElfW(Phdr) segments[SEGMENTS_MAX];
	if (pread(fd, &head, sizeof head, 0) != sizeof head ||
		memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phnum > SEGMENTS_MAX ||
		head.e_phentsize != sizeof *segments || head.e_phoff > size)
		return false;
	size_t n = head.e_phnum * sizeof *segments;
	if (pread(fd, segments, n, (off_t)head.e_phoff) != (ssize_t)n)
		return false;
	for (unsigned i = 0; i < head.e_phnum; i++) {
		const ElfW(Phdr) *s = &segments[i];
		if (s->p_offset > size || s->p_filesz > size - s->p_offset)
			return false;
	}
	return true;
}

bool plugin_file_check(const char *path, char *why, size_t size)
{
	struct stat st;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	/* Not waiting for the writer of a named pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) != 0)
		snprintf(why, size, "cannot read %s: %s", name, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		snprintf(why, size, "%s is not a plain file: install it anew", name);
	else if (!is_ours(&st))
		snprintf(why, size,
			"%s could be changed by others than the program itself: give it the "
			"program's owner, chmod o-w",
			name);
	else if (!is_whole(fd, (uint64_t)st.st_size))
		snprintf(why, size, "%s is cut off or damaged: install it anew", name);
	else {
		close(fd);
		return true;
	}
	if (fd >= 0)
		close(fd);
	return false;
}
