#include <string.h>
#include "kernels/cpu/cpu.h"

#define COLUMNS 16 /* a cache line: no two threads write to one */

struct embed {
	const struct vec *vec;
	uint64_t rows, width;
	const int32_t *tokens;
	const float *table, *grad_y;
	float *y, *grad_table;
};

static void forward(void *arg, struct cpu_range r)
{
	const struct embed *s = arg;
	for (uint64_t row = r.first; row < r.first + r.n; row++)
		memcpy(s->y + row * s->width, s->table + (uint64_t)s->tokens[row] * s->width,
			s->width * sizeof *s->y);
}

/* Each range has columns of its own and goes through all tokens in order, so that a token that
 * comes twice is added up the same way by any number of threads. */
static void backward(void *arg, struct cpu_range r)
{
	const struct embed *s = arg;
	uint64_t first = r.first * COLUMNS, end = (r.first + r.n) * COLUMNS;
	if (end > s->width)
		end = s->width;
	for (uint64_t row = 0; row < s->rows; row++) {
		float *to = s->grad_table + (uint64_t)s->tokens[row] * s->width + first;
		s->vec->add(to, to, s->grad_y + row * s->width + first, end - first);
	}
}

void cpu_token_embed(struct device *d, const struct kernel_call *c)
{
	struct embed s = {.vec = d->vec,
		.rows = shape_count(cpu_shape(c, 0)),
		.width = shape_last(cpu_shape(c, 1)),
		.tokens = cpu_tokens(c->in[0])};
	if (!c->backward) {
		s.table = cpu_at(c->in[1]);
		s.y = cpu_at(c->out);
		cpu_ranges(d, s.rows, s.width, forward, &s);
		return;
	}
	s.grad_y = cpu_at(c->grad_out);
	s.grad_table = cpu_at(c->grad_in[1]);
	if (!cpu_adds(c, 1))
		cpu_zero(d, s.grad_table, shape_count(cpu_shape(c, 1)));
	cpu_ranges(d, (s.width + COLUMNS - 1) / COLUMNS, COLUMNS * s.rows, backward, &s);
}
