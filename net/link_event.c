#include "net/link_event.h"
#include "base/alloc.h"
#include <stdlib.h>
#include <string.h>

static void drop(struct mail *m)
{
	link_event_free((struct link_event *)m); // mail is the first member
}

struct link_event *link_event_new(enum link_event_kind kind, const uint8_t key[static LINK_KEY])
{
	struct link_event *e = alloc_must_zero(1, sizeof *e);
	e->mail.kind = (int)kind;
	e->mail.drop = drop;
	memcpy(e->key, key, LINK_KEY);
	return e;
}

struct link_event *link_event_of_transfer(
	const struct transfer_event *t, const uint8_t key[static LINK_KEY])
{
	static const enum link_event_kind kinds[] = {[TRANSFER_received] = LINK_object,
		[TRANSFER_delivered] = LINK_delivered,
		[TRANSFER_declined] = LINK_declined};
	struct link_event *e = link_event_new(kinds[t->what], key);
	e->ref = t->ref;
	e->object_kind = t->kind;
	e->name = t->name;
	e->meta_len = t->meta_len;
	memcpy(e->meta, t->meta, t->meta_len);
	e->size = t->size;
	e->taken_ns = t->taken_ns;
	e->why = t->why;
	e->payload = t->bytes;
	e->payload_len = t->bytes ? (size_t)t->size : 0;
	return e;
}

void link_event_free(struct link_event *e)
{
	if (e)
		free(e->payload);
	free(e);
}

struct link_event *link_event_of(struct mail *m)
{
	return m && m->drop == drop ? (struct link_event *)m : NULL;
}

const char *link_event_name(enum link_event_kind kind)
{
	static const char *const names[] = {
#define X(name) #name,
		LINK_EVENT_LIST(X)
#undef X
	};
	return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}
