/*
 * The engine of net/link.h, without thread and mailbox of commands: sockets, sessions by key,
 * admission, and the loop's two steps.  Its calls mean what link's of the same name mean.  One
 * thread.
 */
#ifndef NET_PLANE_H
#define NET_PLANE_H
#include "net/link.h"

struct plane;
/* config is borrowed. */
enum err plane_new(
	const struct link_config *config, struct plane **out, struct why *why) MUST_CHECK;
/* Sends what is queued for at most linger_ns; blocks that long. */
void plane_free(struct plane *p);
uint16_t plane_port(const struct plane *p);

/* Wait until something arrived, fd is readable or a step is due; then do all that is to be done. */
void plane_wait(struct plane *p, int fd);
void plane_turn(struct plane *p);
void plane_counters(const struct plane *p, struct link_counters *out);

void plane_admit(struct plane *p, const uint8_t *keys, size_t n);
void plane_connect(struct plane *p, const uint8_t key[static LINK_KEY], const char *address,
	const shoal_hello *hello);
void plane_hello(struct plane *p, const uint8_t key[static LINK_KEY], const shoal_hello *hello);
void plane_status(struct plane *p, const shoal_heartbeat *status);
void plane_forget(struct plane *p, const uint8_t key[static LINK_KEY]);
void plane_send(struct plane *p, const uint8_t key[static LINK_KEY], const shoal_header *header,
	struct shared *payload);
void plane_push(
	struct plane *p, const uint8_t key[static LINK_KEY], const struct link_object *object);
void plane_cancel(struct plane *p, const uint8_t key[static LINK_KEY], uint64_t ref);
void plane_answer(
	struct plane *p, const uint8_t key[static LINK_KEY], uint64_t ref, const struct why *why);

#endif
