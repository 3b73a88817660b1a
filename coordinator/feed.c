#include "coordinator/feed.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "net/sse.h"

#define CLIENTS_MOST 256
#define BEHIND_MOST (1u << 20)
#define PING (15 * CLOCK_SECOND)
#define IDS_PER_SECOND 1000 /* more events than that within a process's life are no harm */
#define EVENT_MAX 16

struct told {
	uint64_t id;
	char event[EVENT_MAX], *data;
	size_t len;
};

struct feed {
	struct sse *sse;
	struct told kept[FEED_KEPT]; /* a ring: n from at */
	size_t at, n, bytes;
	uint64_t next;  /* number of the next kept event */
	char *overview; /* the newest */
};

static struct told *kept(struct feed *f, size_t i)
{
	return &f->kept[(f->at + i) % FEED_KEPT];
}

static void forget_oldest(struct feed *f)
{
	struct told *t = kept(f, 0);
	f->bytes -= t->len;
	free(t->data);
	*t = (struct told){0};
	f->at = (f->at + 1) % FEED_KEPT;
	f->n--;
}

/* Whether everything after last is still here. */
static bool have_since(struct feed *f, uint64_t last)
{
	return last + 1 == f->next || (last < f->next && f->n && last + 1 >= kept(f, 0)->id);
}

static void arrived(void *arg, struct sse_client *c, const uint64_t *last)
{
	struct feed *f = arg;
	if (last && !have_since(f, *last))
		sse_tell(c, f->next - 1, "reset", "{}");
	for (size_t i = 0; last && have_since(f, *last) && i < f->n; i++)
		if (kept(f, i)->id > *last)
			sse_tell(c, kept(f, i)->id, kept(f, i)->event, kept(f, i)->data);
	if (f->overview)
		sse_tell(c, f->next - 1, "overview", f->overview);
}

struct feed *feed_new(struct event_base *base, uint64_t wall_s)
{
	struct feed *f = alloc_must_zero(1, sizeof *f);
	const struct sse_config config = {.clients_most = CLIENTS_MOST,
		.behind_most = BEHIND_MOST,
		.ping_ns = PING,
		.arrived = arrived,
		.arg = f};
	f->sse = sse_new(base, &config);
	f->next = wall_s * IDS_PER_SECOND;
	return f;
}

void feed_free(struct feed *f)
{
	if (!f)
		return;
	sse_free(f->sse);
	while (f->n)
		forget_oldest(f);
	free(f->overview);
	free(f);
}

static char *text_of(json_t *doc)
{
	char *data = json_dumps(doc, JSON_COMPACT | JSON_REAL_PRECISION(9));
	json_decref(doc);
	return data;
}

void feed_tell(struct feed *f, const char *event, json_t *doc)
{
	char *data = text_of(doc);
	if (!data)
		return;
	if (f->n == FEED_KEPT)
		forget_oldest(f);
	struct told *t = kept(f, f->n++);
	*t = (struct told){.id = f->next++, .data = data, .len = strlen(data)};
	memcpy(t->event, event, strnlen(event, EVENT_MAX - 1));
	f->bytes += t->len;
	sse_send(f->sse, t->id, t->event, data);
	while (f->bytes > FEED_BYTES && f->n > 1)
		forget_oldest(f);
}

void feed_now(struct feed *f, const char *event, json_t *doc)
{
	char *data = text_of(doc);
	if (!data)
		return;
	/* Under the number of the last kept event: whoever comes back with it has missed none. */
	sse_send(f->sse, f->next - 1, event, data);
	if (strcmp(event, "overview")) {
		free(data);
		return;
	}
	free(f->overview);
	f->overview = data;
}

void feed_open(struct feed *f, struct https_request *r)
{
	sse_open(f->sse, r);
}

size_t feed_clients(const struct feed *f)
{
	return sse_count(f->sse);
}
