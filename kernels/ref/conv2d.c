#include "kernels/ref/ref.h"

/* x [images,in,height,width] and y [images,out,rows,columns] under a window of high x wide. */
struct size {
	uint64_t images, in, height, width, out, high, wide, rows, columns, stride, pad;
};

static struct size size_of(const struct kernel_call *c)
{
	const struct shape *x = ref_shape(c, 0), *w = ref_shape(c, 1);
	const struct shape *y = &c->graph->tensors[c->node->out].shape;
	return (struct size){.images = x->dim[0],
		.in = x->dim[1],
		.height = x->dim[2],
		.width = x->dim[3],
		.out = w->dim[0],
		.high = w->dim[2],
		.wide = w->dim[3],
		.rows = y->dim[2],
		.columns = y->dim[3],
		.stride = c->node->stride,
		.pad = c->node->pad};
}

/* Element at of the kernel of one output channel. */
struct tap {
	uint64_t i, r, s;
};

static struct tap tap_of(const struct size *z, uint64_t at)
{
	return (struct tap){at / z->wide / z->high, at / z->wide % z->high, at % z->wide};
}

static uint64_t taps(const struct size *z)
{
	return z->in * z->high * z->wide;
}

/* The element of x that is under a tap of the window at a place (row and column as one number) of
 * image n; false over the padding.  Before the first row the difference wraps round to far beyond
 * the last. */
static bool x_under(const struct size *z, uint64_t n, uint64_t place, struct tap t, uint64_t *x)
{
	uint64_t row = place / z->columns * z->stride + t.r - z->pad;
	uint64_t column = place % z->columns * z->stride + t.s - z->pad;
	*x = ((n * z->in + t.i) * z->height + row) * z->width + column;
	return row < z->height && column < z->width;
}

static void forward(const struct kernel_call *c, const struct size *z)
{
	const real *x = ref_at(c->in[0]), *w = ref_at(c->in[1]), *bias = ref_at(c->in[2]);
	real *y = ref_at(c->out);
	uint64_t area = z->rows * z->columns, at;
	for (uint64_t k = 0; k < z->images * z->out * area; k++) {
		uint64_t n = k / area / z->out, o = k / area % z->out;
		double sum = bias ? (double)bias[o] : 0;
		for (uint64_t t = 0; t < taps(z); t++)
			if (x_under(z, n, k % area, tap_of(z, t), &at))
				sum += (double)x[at] * (double)w[o * taps(z) + t];
		y[k] = (real)sum;
	}
}

static void backward_weight(const struct kernel_call *c, const struct size *z, real *grad)
{
	const real *x = ref_at(c->in[0]), *grad_y = ref_at(c->grad_out);
	uint64_t area = z->rows * z->columns, at;
	for (uint64_t k = 0; k < z->out * taps(z); k++) {
		uint64_t o = k / taps(z);
		struct tap t = tap_of(z, k % taps(z));
		double sum = 0;
		for (uint64_t p = 0; p < z->images * area; p++) {
			uint64_t n = p / area;
			if (x_under(z, n, p % area, t, &at))
				sum += (double)x[at] *
				       (double)grad_y[(n * z->out + o) * area + p % area];
		}
		grad[k] += (real)sum;
	}
}

/* The place whose window has its element r over element x of one dimension, if there is one. */
static bool place_over(const struct size *z, uint64_t x, uint64_t r, uint64_t *place)
{
	uint64_t from = x + z->pad;
	*place = (from - r) / z->stride;
	return from >= r && (from - r) % z->stride == 0;
}

/* What element x of image n gets from output channel o. */
static double from_channel(
	const struct kernel_call *c, const struct size *z, uint64_t x, uint64_t o)
{
	const real *w = ref_at(c->in[1]), *grad_y = ref_at(c->grad_out);
	uint64_t plane = x / z->width / z->height, n = plane / z->in, i = plane % z->in;
	uint64_t row, column, window = z->high * z->wide;
	double sum = 0;
	for (uint64_t t = 0; t < window; t++) {
		if (!place_over(z, x / z->width % z->height, t / z->wide, &row) ||
			!place_over(z, x % z->width, t % z->wide, &column) || row >= z->rows ||
			column >= z->columns)
			continue;
		uint64_t at = ((n * z->out + o) * z->rows + row) * z->columns + column;
		sum += (double)grad_y[at] * (double)w[o * taps(z) + i * window + t];
	}
	return sum;
}

static void backward_x(const struct kernel_call *c, const struct size *z, real *grad)
{
	for (uint64_t x = 0; x < z->images * z->in * z->height * z->width; x++) {
		double sum = 0;
		for (uint64_t o = 0; o < z->out; o++)
			sum += from_channel(c, z, x, o);
		grad[x] += (real)sum;
	}
}

static void backward_bias(const struct kernel_call *c, const struct size *z, real *grad)
{
	const real *grad_y = ref_at(c->grad_out);
	uint64_t area = z->rows * z->columns;
	for (uint64_t o = 0; o < z->out; o++) {
		double sum = 0;
		for (uint64_t p = 0; p < z->images * area; p++)
			sum += (double)grad_y[(p / area * z->out + o) * area + p % area];
		grad[o] += (real)sum;
	}
}

void REF(conv2d)(const struct kernel_call *c)
{
	struct size z = size_of(c);
	if (!c->backward) {
		forward(c, &z);
		return;
	}
	real *grad_x = ref_grad(c, 0), *grad_w = ref_grad(c, 1);
	real *grad_bias = c->node->n_in == 3 ? ref_grad(c, 2) : NULL;
	if (grad_x)
		backward_x(c, &z, grad_x);
	if (grad_w)
		backward_weight(c, &z, grad_w);
	if (grad_bias)
		backward_bias(c, &z, grad_bias);
}
