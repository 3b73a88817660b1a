#include "sim/letter.h"
#include <stdlib.h>
#include "base/alloc.h"

struct letter *letter_new(enum letter_kind kind)
{
	struct letter *l = alloc_must_zero(1, sizeof *l);
	l->kind = kind;
	l->size = kind == LETTER_plan || kind == LETTER_records ? LETTER_DOCUMENT : LETTER_SMALL;
	return l;
}

void letter_add(struct letter *l, struct shared *bytes)
{
	l->bytes = alloc_must_resize(l->bytes, l->n + 1u, sizeof *l->bytes);
	l->bytes[l->n++] = shared_hold(bytes);
	l->size += shared_len(bytes);
}

void letter_free(struct letter *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; i < l->n; i++)
		shared_drop(l->bytes[i]);
	free(l->bytes);
	free(l->path);
	free(l);
}

bool letter_goes_up(const struct letter *l)
{
	return l->kind <= LETTER_loss;
}
