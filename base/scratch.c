#include "base/scratch.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/file.h"

enum err scratch_take(const char *dir, size_t bytes, void **out, struct why *why)
{
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return file_why(why, "make a file in", dir, errno);
	int said = posix_fallocate(fd, 0, (off_t)bytes);
	void *at = MAP_FAILED;
	if (!said) {
		at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		said = errno;
	}
	close(fd);
	if (at == MAP_FAILED)
		return file_why(why, "make room for the model in", dir, said);
	*out = at;
	return ERR_OK;
}

void scratch_release(void *at, size_t bytes)
{
	if (at)
		munmap(at, bytes);
}
