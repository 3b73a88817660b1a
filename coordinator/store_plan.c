#include "coordinator/store_sql.h"

void store_plan_add(struct store *s, const struct store_plan *p)
{
	struct buf b, listed;
	buf_init(&b, sizeof p->spans);
	buf_init(&listed, sizeof p->listed);
	for (uint32_t i = 0; i < p->n_spans; i++) {
		buf_put_u64(&b, p->spans[i].first);
		buf_put_u64(&b, p->spans[i].last);
	}
	for (uint32_t f = 0; f < SPEC_FRAGMENTS_MAX; f++)
		buf_put_u64(&listed, p->listed[f]);
	if (store_sql_ready(s, &b) && store_sql_ready(s, &listed))
		store_sql_write(s, "INSERT INTO plan VALUES (?, ?, ?, ?, ?)", "unnbb", p->member,
			p->round, p->steps, b.data, b.len, listed.data, listed.len);
	buf_release(&b);
	buf_release(&listed);
}

void store_plan_remove(struct store *s, uint32_t member)
{
	store_sql_write(s, "DELETE FROM plan WHERE member = ?", "u", member);
}

void store_plan_clear(struct store *s)
{
	store_sql_write(s, "DELETE FROM plan", "");
}

enum err store_plan_list(struct store *s, store_plan_fn *fn, void *arg, struct why *why)
{
	struct store_sql q = store_sql_query(
		s, "SELECT member, round, steps, spans, listed FROM plan ORDER BY member", "");
	while (store_sql_next(&q)) {
		struct store_plan p = {.member = store_sql_u32(&q, 0),
			.round = store_sql_u64(&q, 1),
			.steps = store_sql_u64(&q, 2)};
		uint8_t bytes[16 * SPAN_MAX], listed[8 * SPEC_FRAGMENTS_MAX] = {0};
		size_t n = (size_t)sqlite3_column_bytes(q.st, 3);
		struct rd r;
		store_sql_bytes(&q, 3, bytes, sizeof bytes);
		rd_init(&r, bytes, n < sizeof bytes ? n : sizeof bytes);
		while (rd_left(&r) >= 16) {
			p.spans[p.n_spans].first = rd_u64(&r);
			p.spans[p.n_spans++].last = rd_u64(&r);
		}
		store_sql_bytes(&q, 4, listed, sizeof listed);
		rd_init(&r, listed, sizeof listed);
		for (uint32_t f = 0; f < SPEC_FRAGMENTS_MAX; f++)
			p.listed[f] = rd_u64(&r);
		fn(arg, &p);
	}
	return store_sql_end(&q, why);
}
