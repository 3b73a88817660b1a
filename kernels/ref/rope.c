#include <math.h>
#include "kernels/ref/ref.h"

struct turn {
	double cos, sin;
};

static struct turn turn_of(const struct node *n, uint64_t position, uint64_t i, uint64_t size)
{
	double angle = (double)position * pow((double)n->theta, -2 * (double)i / (double)size);
	return (struct turn){cos(angle), sin(angle)};
}

/* Backward turns by the negative angles, which is the transpose. */
void REF(rope)(const struct kernel_call *c)
{
	const struct shape *s = ref_shape(c, 0);
	uint64_t rows = shape_rows(s), width = s->dim[2], size = width / c->node->heads;
	const real *from = ref_at(c->backward ? c->grad_out : c->in[0]);
	real *to = c->backward ? ref_grad(c, 0) : ref_at(c->out);
	bool add = c->backward && c->accumulate & 1;
	for (uint64_t r = 0; r < rows; r++)
		for (uint64_t head = 0; head < c->node->heads; head++)
			for (uint64_t i = 0; i < size / 2; i++) {
				uint64_t at = r * width + head * size + i, pair = at + size / 2;
				struct turn by = turn_of(c->node, c->past + r % s->dim[1], i, size);
				double a = (double)from[at], b = (double)from[pair];
				double sin = c->backward ? -by.sin : by.sin;
				real first = (real)(a * by.cos - b * sin);
				real second = (real)(b * by.cos + a * sin);
				to[at] = add ? to[at] + first : first;
				to[pair] = add ? to[pair] + second : second;
			}
}
