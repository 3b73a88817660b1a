#include "compress/planes.h"
#include <assert.h>

void planes_init(struct planes *p, size_t max)
{
	buf_init(&p->bytes, max);
	p->n = 0;
}

void planes_release(struct planes *p)
{
	if (!p)
		return;
	buf_release(&p->bytes);
	p->n = 0;
}

void planes_clear(struct planes *p)
{
	buf_clear(&p->bytes);
	p->n = 0;
}

void planes_end(struct planes *p)
{
	assert(p->n < PLANES_MAX);
	p->end[p->n++] = p->bytes.len;
}
