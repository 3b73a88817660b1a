#include "coordinator/store_sql.h"

void store_plan_add(struct store *s, const struct store_plan *p)
{
	struct buf b;
	buf_init(&b, sizeof p->spans);
	for (uint32_t i = 0; i < p->n_spans; i++) {
		buf_put_u64(&b, p->spans[i].first);
		buf_put_u64(&b, p->spans[i].last);
	}
	if (store_sql_ready(s, &b))
		store_sql_write(s, "INSERT INTO plan VALUES (?, ?, ?, ?)", "unnb", p->member,
			p->round, p->steps, b.data, b.len);
	buf_release(&b);
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
		s, "SELECT member, round, steps, spans FROM plan ORDER BY member", "");
	while (store_sql_next(&q)) {
		struct store_plan p = {.member = store_sql_u32(&q, 0),
			.round = store_sql_u64(&q, 1),
			.steps = store_sql_u64(&q, 2)};
		uint8_t bytes[16 * SPAN_MAX];
		size_t n = (size_t)sqlite3_column_bytes(q.st, 3);
		struct rd r;
		store_sql_bytes(&q, 3, bytes, sizeof bytes);
		rd_init(&r, bytes, n < sizeof bytes ? n : sizeof bytes);
		while (rd_left(&r) >= 16) {
			p.spans[p.n_spans].first = rd_u64(&r);
			p.spans[p.n_spans++].last = rd_u64(&r);
		}
		fn(arg, &p);
	}
	return store_sql_end(&q, why);
}
