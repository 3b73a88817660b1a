#include "kernels/ref/ref.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/alloc.h"

/* There is nothing to hold: an opened device is only something to pass around. */
struct device {
	char unused;
};

/* ---- memory: without access between calls, so that a host access to it crashes */

static void protect(const struct mem *m, int access)
{
	/* It fails only for a range that is not ours or when the system has no memory for its own
	 * tables; going on would crash a line later and say less. */
	if (mprotect(m->base, m->bytes, access)) {
		perror(REF_TEXT ": mprotect");
		abort();
	}
}

static void protect_views(const struct view *views, size_t n, int access)
{
	for (size_t i = 0; i < n; i++)
		if (views[i].mem)
			protect(views[i].mem, access);
}

void REF(unlock)(const struct view *views, size_t n)
{
	protect_views(views, n, PROT_READ | PROT_WRITE);
}

void REF(lock)(const struct view *views, size_t n)
{
	protect_views(views, n, PROT_NONE);
}

static enum err ref_alloc(struct device *d, size_t bytes, struct mem **out)
{
	(void)d;
	struct mem *m = alloc_try(1, sizeof *m);
	if (!m)
		return ERR_nomem;
	m->bytes = bytes ? bytes : 1;
	/* Writable at first, so that the system refuses now what it could not give later. */
	m->base = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m->base == MAP_FAILED) {
		free(m);
		return ERR_nomem;
	}
	protect(m, PROT_NONE);
	*out = m;
	return ERR_OK;
}

static void ref_free(struct device *d, struct mem *m)
{
	(void)d;
	if (!m)
		return;
	munmap(m->base, m->bytes);
	free(m);
}

static void ref_write(struct device *d, struct mem *to, size_t at, const void *from, size_t bytes)
{
	(void)d;
	if (!bytes)
		return;
	protect(to, PROT_READ | PROT_WRITE);
	memcpy((char *)to->base + at, from, bytes);
	protect(to, PROT_NONE);
}

static void ref_read(struct device *d, const struct mem *from, size_t at, void *to, size_t bytes)
{
	(void)d;
	if (!bytes)
		return;
	protect(from, PROT_READ);
	memcpy(to, (const char *)from->base + at, bytes);
	protect(from, PROT_NONE);
}

static void ref_zero(struct device *d, struct mem *m, size_t at, size_t bytes)
{
	(void)d;
	protect(m, PROT_READ | PROT_WRITE);
	memset((char *)m->base + at, 0, bytes);
	protect(m, PROT_NONE);
}

/* ---- the device */

static enum err ref_open(const struct backend_config *config, struct device **out, struct why *why)
{
	(void)config;
	*out = alloc_try(1, sizeof **out);
	return *out ? ERR_OK : err_why(why, ERR_nomem, "out of memory for the device " REF_TEXT);
}

static void ref_close(struct device *d)
{
	free(d);
}

static uint64_t ref_own(const struct device *d)
{
	(void)d;
	return 0;
}

static void ref_describe(const struct device *d, char *out, size_t size)
{
	(void)d;
	snprintf(out, size, REF_TEXT ": plain loops on one thread, the definition of every op");
}

static void (*const kernels[OP_COUNT])(const struct kernel_call *c) = {
#define X(id, name) [OP_##name] = REF(name),
	OP_LIST(X)
#undef X
};

static bool ref_supports(const struct device *d, const struct graph *g, const struct node *n)
{
	(void)d;
	(void)g;
	(void)n;
	return true;
}

static void ref_run(struct device *d, const struct kernel_call *c)
{
	(void)d;
	const struct view others[] = {c->out, c->saved, c->grad_out, c->cache};
	size_t n = sizeof others / sizeof *others;
	REF(unlock)(c->in, NODE_IN_MAX);
	REF(unlock)(c->grad_in, NODE_IN_MAX);
	REF(unlock)(others, n);
	kernels[c->node->op](c);
	REF(lock)(others, n);
	REF(lock)(c->grad_in, NODE_IN_MAX);
	REF(lock)(c->in, NODE_IN_MAX);
}

const struct backend REF(backend) = {
	.name = REF_TEXT,
	.real_size = sizeof(real),
	.open = ref_open,
	.close = ref_close,
	.alloc = ref_alloc,
	.free = ref_free,
	.write = ref_write,
	.read = ref_read,
	.zero = ref_zero,
	.supports = ref_supports,
	.run = ref_run,
	.norm2 = REF(norm2),
	.adamw = REF(adamw),
	.own = ref_own,
	.describe = ref_describe,
};
