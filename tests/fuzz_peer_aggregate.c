/* The list of contributions in gather and witness: it is read whole, or refused with a sentence. */
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "peer/aggregate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct aggregate_item *items;
	size_t n;
	struct why why = {0};
	struct buf again;
	enum err err = aggregate_list(data, size, &items, &n, &why);
	if (err) {
		if (why.code != err || !why.text[0] || items || n)
			abort();
		return 0;
	}
	buf_init(&again, size + 1);
	for (size_t i = 0; i < n; i++) {
		if (i && items[i].peer <= items[i - 1].peer)
			abort();
		buf_put_u32(&again, items[i].peer);
		buf_put(&again, items[i].id.b, sizeof items[i].id.b);
	}
	if (again.len != size || (size && memcmp(again.data, data, size)))
		abort();
	buf_release(&again);
	free(items);
	return 0;
}
