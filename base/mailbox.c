#include "base/mailbox.h"
#include "base/alloc.h"
#include "base/clock.h"
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct mailbox {
	pthread_mutex_t lock;
	struct mail *first, **last;
	int fd; // readable exactly while first is not NULL
};

struct mailbox *mailbox_new(void)
{
	struct mailbox *b = alloc_must_zero(1, sizeof *b);
	pthread_mutex_init(&b->lock, NULL);
	b->last = &b->first;
	b->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->fd < 0) {
		perror("no descriptor for a mailbox");
		abort();
	}
	return b;
}

void mailbox_free(struct mailbox *b)
{
	if (!b)
		return;
	for (struct mail *m; (m = mailbox_take(b));)
		m->drop(m);
	close(b->fd);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

int mailbox_fd(const struct mailbox *b)
{
	return b->fd;
}

void mailbox_put(struct mailbox *b, struct mail *m)
{
	m->next = NULL;
	pthread_mutex_lock(&b->lock);
	if (!b->first)
		eventfd_write(b->fd, 1);
	*b->last = m;
	b->last = &m->next;
	pthread_mutex_unlock(&b->lock);
}

struct mail *mailbox_take(struct mailbox *b)
{
	pthread_mutex_lock(&b->lock);
	struct mail *m = b->first;
	if (m && !(b->first = m->next)) {
		eventfd_t drained;
		b->last = &b->first;
		eventfd_read(b->fd, &drained);
	}
	pthread_mutex_unlock(&b->lock);
	if (m)
		m->next = NULL;
	return m;
}

struct mail *mailbox_wait(struct mailbox *b, uint64_t timeout_ns)
{
	uint64_t start = clock_now_ns();
	struct mail *m;
	while (!(m = mailbox_take(b))) {
		uint64_t gone = clock_now_ns() - start;
		if (gone >= timeout_ns)
			return NULL;
		uint64_t left = timeout_ns - gone;
		struct timespec t = {.tv_sec = (time_t)(left / CLOCK_SECOND),
			.tv_nsec = (long)(left % CLOCK_SECOND)};
		struct pollfd p = {.fd = b->fd, .events = POLLIN};
		ppoll(&p, 1, timeout_ns == UINT64_MAX ? NULL : &t, NULL);
	}
	return m;
}
