#include "base/arena.h"
#include <sys/mman.h>

#define PAGE 4096u

enum err arena_init(struct arena *a, size_t size)
{
	*a = (struct arena){0};
	if (size > SIZE_MAX - PAGE)
		return ERR_nomem;
	size_t bytes = size ? (size + PAGE - 1) / PAGE * PAGE : PAGE;
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return ERR_nomem;
	// Only a wish: a kernel without huge pages serves as well, more slowly.
	(void)madvise(base, bytes, MADV_HUGEPAGE);
	a->base = base;
	a->size = bytes;
	return ERR_OK;
}

void arena_release(struct arena *a)
{
	if (a && a->base)
		munmap(a->base, a->size);
	if (a)
		*a = (struct arena){0};
}
