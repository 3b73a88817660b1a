#include <stdlib.h>
#include "base/alloc.h"
#include "coordinator/store_sql.h"

void store_pool_put(struct store *s, const struct span *spans, size_t n)
{
	struct buf b;
	buf_init(&b, STORE_FACT_MAX);
	for (size_t i = 0; i < n; i++) {
		buf_put_u64(&b, spans[i].first);
		buf_put_u64(&b, spans[i].last);
	}
	if (store_sql_ready(s, &b))
		store_put(s, "pool", b.data, b.len);
	buf_release(&b);
}

enum err store_pool_get(struct store *s, struct span **spans, size_t *n, struct why *why)
{
	uint8_t *bytes;
	size_t len;
	struct rd r;
	*spans = NULL;
	*n = 0;
	enum err err = store_get(s, "pool", &bytes, &len, why);
	if (err)
		return err == ERR_missing ? ERR_OK : err;
	*spans = alloc_try(len / 16 + 1, sizeof **spans);
	if (!*spans) {
		free(bytes);
		return err_why(why, ERR_nomem, "no memory for %zu spans of sequences", len / 16);
	}
	rd_init(&r, bytes, len);
	while (rd_left(&r) >= 16) {
		(*spans)[*n].first = rd_u64(&r);
		(*spans)[(*n)++].last = rd_u64(&r);
	}
	free(bytes);
	return ERR_OK;
}
