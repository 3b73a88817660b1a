#include "peer/inbox.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

void inbox_init(struct inbox *in)
{
	*in = (struct inbox){.most = INBOX_RECORDS, .bytes_most = INBOX_BYTES};
}

void inbox_release(struct inbox *in)
{
	inbox_drop(in, UINT64_MAX);
	free(in->items);
	*in = (struct inbox){0};
}

/* The place of the first item with at least this sequence number. */
static size_t place(const struct inbox *in, uint64_t sequence)
{
	size_t at = 0;
	while (at < in->n && in->items[at].sequence < sequence)
		at++;
	return at;
}

enum err inbox_put(struct inbox *in, uint64_t sequence, uint8_t *bytes, size_t len, uint64_t after)
{
	size_t at = place(in, sequence);
	bool there = at < in->n && in->items[at].sequence == sequence;
	bool room = in->n < in->most && len <= in->bytes_most - in->bytes;
	if (sequence <= after || there || !room) {
		free(bytes);
		return sequence <= after || there ? ERR_duplicate : ERR_full;
	}
	if (in->n == in->cap) {
		in->cap = in->cap ? 2 * in->cap : 16;
		in->items = alloc_must_resize(in->items, in->cap, sizeof *in->items);
	}
	memmove(&in->items[at + 1], &in->items[at], (in->n - at) * sizeof *in->items);
	in->items[at] = (struct inbox_item){sequence, bytes, len};
	in->n++;
	in->bytes += len;
	return ERR_OK;
}

static void remove_first(struct inbox *in, size_t count)
{
	for (size_t i = 0; i < count; i++)
		in->bytes -= in->items[i].len;
	in->n -= count;
	if (in->n)
		memmove(in->items, in->items + count, in->n * sizeof *in->items);
}

void inbox_drop(struct inbox *in, uint64_t upto)
{
	size_t count = 0;
	while (count < in->n && in->items[count].sequence <= upto)
		free(in->items[count++].bytes);
	if (count)
		remove_first(in, count);
}

bool inbox_take(
	struct inbox *in, uint64_t after, uint64_t upto, struct standing_record **out, size_t *n)
{
	inbox_drop(in, after);
	if (upto <= after || inbox_reaches(in, after) < upto)
		return false;
	uint64_t want = upto - after;
	*out = alloc_must_zero(want, sizeof **out);
	*n = want;
	for (size_t i = 0; i < want; i++)
		(*out)[i] = (struct standing_record){in->items[i].bytes, in->items[i].len};
	remove_first(in, want);
	return true;
}

uint64_t inbox_reaches(const struct inbox *in, uint64_t after)
{
	for (size_t i = 0; i < in->n; i++)
		if (in->items[i].sequence == after + 1)
			after++;
	return after;
}
