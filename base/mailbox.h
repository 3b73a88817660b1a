/*
 * How threads talk: a queue of owned messages with a descriptor that is readable while it is not
 * empty.  Any thread may put; one thread takes.
 */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mail {
	struct mail *next;            /* the mailbox's */
	int kind;                     /* the receiver's own enum */
	void (*drop)(struct mail *m); /* frees m and what it owns, when nobody will take it */
};

struct mailbox;
struct mailbox *mailbox_new(void);    /* ends the process when there is no descriptor */
void mailbox_free(struct mailbox *b); /* drops what is left */
int mailbox_fd(const struct mailbox *b);
void mailbox_put(struct mailbox *b, struct mail *m); /* takes m */
struct mail *mailbox_take(struct mailbox *b);        /* NULL when empty; caller owns */
/* Wait for a message; NULL after timeout_ns (UINT64_MAX: for ever) */
struct mail *mailbox_wait(struct mailbox *b, uint64_t timeout_ns);

#endif
