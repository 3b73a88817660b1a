#include <string.h>
#include "kernels/cpu/cpu.h"

/*
 * Tiles of a product's result.  A library brings both factors of each tile into its own order, so
 * a tile must be large both ways: with OpenBLAS on AVX-512 one of 256 rows by 96 columns runs at 78
 * % of the speed of a large product, by 192 at 88 %, by 384 at 95 %; oneDNN loses less.  So rows
 * are cut only above that, and columns as wide as still leaves TILES for the threads to share.
 */
#define TILE_ROWS 320
#define TILE_COLUMNS 192
#define TILES 6

struct grid {
	uint64_t rows, columns; /* of a tile */
	size_t down, across;    /* tiles */
};

/* The size of each of parts pieces of n, in whole registers. */
static uint64_t piece(uint64_t n, uint64_t parts)
{
	return ((n + parts - 1) / parts + 15) / 16 * 16;
}

static struct grid grid_of(uint64_t rows, uint64_t columns)
{
	struct grid g;
	g.rows = piece(rows, (rows + TILE_ROWS - 1) / TILE_ROWS);
	g.down = (rows + g.rows - 1) / g.rows;
	uint64_t width = 4 * TILE_COLUMNS;
	while (width > TILE_COLUMNS && g.down * ((columns + width - 1) / width) < TILES)
		width /= 2;
	g.columns = piece(columns, (columns + width - 1) / width);
	g.across = (columns + g.columns - 1) / g.columns;
	return g;
}

struct span {
	uint64_t first, n;
};

static struct span span_of(uint64_t size, uint64_t each, size_t i)
{
	uint64_t first = i * each, left = size - first;
	return (struct span){first, left < each ? left : each};
}

struct linear {
	const struct device *d;
	uint64_t rows, in, out;
	const float *x, *weight, *bias, *grad_y;
	float *y, *grad_x, *grad_weight, *grad_bias;
	struct grid y_grid, x_grid, weight_grid;
	size_t x_tiles, weight_tiles, bias_tiles;
	bool add_x, add_weight, add_bias;
};

static void forward(void *arg, size_t tile, unsigned thread)
{
	const struct linear *s = arg;
	struct span rows = span_of(s->rows, s->y_grid.rows, tile / s->y_grid.across);
	struct span out = span_of(s->out, s->y_grid.columns, tile % s->y_grid.across);
	float *y = s->y + rows.first * s->out + out.first;
	/* The bias goes first, and the product is added to it while it is still in the cache. */
	for (uint64_t r = 0; r < rows.n && s->bias; r++)
		memcpy(y + r * s->out, s->bias + out.first, out.n * sizeof *y);
	cpu_product(s->d, thread,
		&(struct product){
			.m = rows.n,
			.n = out.n,
			.k = s->in,
			.a = {s->x + rows.first * s->in, s->in, false},
			.b = {s->weight + out.first * s->in, s->in, true},
			.alpha = 1,
			.c = y,
			.c_step = s->out,
			.add = s->bias != NULL,
		});
}

static void backward_x(const struct linear *s, size_t tile, unsigned thread)
{
	struct span rows = span_of(s->rows, s->x_grid.rows, tile / s->x_grid.across);
	struct span in = span_of(s->in, s->x_grid.columns, tile % s->x_grid.across);
	cpu_product(s->d, thread,
		&(struct product){
			.m = rows.n,
			.n = in.n,
			.k = s->out,
			.a = {s->grad_y + rows.first * s->out, s->out, false},
			.b = {s->weight + in.first, s->in, false},
			.alpha = 1,
			.c = s->grad_x + rows.first * s->in + in.first,
			.c_step = s->in,
			.add = s->add_x,
		});
}

static void backward_weight(const struct linear *s, size_t tile, unsigned thread)
{
	struct span out = span_of(s->out, s->weight_grid.rows, tile / s->weight_grid.across);
	struct span in = span_of(s->in, s->weight_grid.columns, tile % s->weight_grid.across);
	cpu_product(s->d, thread,
		&(struct product){
			.m = out.n,
			.n = in.n,
			.k = s->rows,
			.a = {s->grad_y + out.first, s->out, true},
			.b = {s->x + in.first, s->in, false},
			.alpha = 1,
			.c = s->grad_weight + out.first * s->in + in.first,
			.c_step = s->in,
			.add = s->add_weight,
		});
}

static void backward_bias(const struct linear *s, size_t tile)
{
	struct span out = span_of(s->out, TILE_ROWS, tile);
	float *to = s->grad_bias + out.first;
	if (!s->add_bias)
		memset(to, 0, out.n * sizeof *to);
	for (uint64_t r = 0; r < s->rows; r++)
		s->d->vec->add(to, to, s->grad_y + r * s->out + out.first, out.n);
}

static void backward(void *arg, size_t tile, unsigned thread)
{
	const struct linear *s = arg;
	if (tile < s->x_tiles)
		backward_x(s, tile, thread);
	else if (tile < s->x_tiles + s->weight_tiles)
		backward_weight(s, tile - s->x_tiles, thread);
	else
		backward_bias(s, tile - s->x_tiles - s->weight_tiles);
}

static void run_backward(struct device *d, const struct kernel_call *c, struct linear *s)
{
	s->grad_y = cpu_at(c->grad_out);
	s->grad_x = cpu_at(c->grad_in[0]);
	s->grad_weight = cpu_at(c->grad_in[1]);
	s->grad_bias = c->node->n_in == 3 ? cpu_at(c->grad_in[2]) : NULL;
	s->add_x = cpu_adds(c, 0);
	s->add_weight = cpu_adds(c, 1);
	s->add_bias = cpu_adds(c, 2);
	s->x_grid = grid_of(s->rows, s->in);
	s->weight_grid = grid_of(s->out, s->in);
	s->x_tiles = s->grad_x ? s->x_grid.down * s->x_grid.across : 0;
	s->weight_tiles = s->grad_weight ? s->weight_grid.down * s->weight_grid.across : 0;
	s->bias_tiles = s->grad_bias ? (s->out + TILE_ROWS - 1) / TILE_ROWS : 0;
	uint64_t product = s->rows * s->in * s->out / (CPU_UNIT_FLOPS / 2);
	uint64_t cost = s->grad_x ? product : 0;
	cost += s->grad_weight ? product : 0;
	cost += s->grad_bias ? s->rows * s->out : 0;
	cpu_tiles(d, s->x_tiles + s->weight_tiles + s->bias_tiles, cost, backward, s);
}

void cpu_linear(struct device *d, const struct kernel_call *c)
{
	struct linear s = {.d = d,
		.rows = shape_rows(cpu_shape(c, 0)),
		.in = shape_last(cpu_shape(c, 0)),
		.out = cpu_shape(c, 1)->dim[0],
		.x = cpu_at(c->in[0]),
		.weight = cpu_at(c->in[1])};
	if (c->backward) {
		run_backward(d, c, &s);
		return;
	}
	s.bias = c->node->n_in == 3 ? cpu_at(c->in[2]) : NULL;
	s.y = cpu_at(c->out);
	s.y_grid = grid_of(s.rows, s.out);
	uint64_t cost = s.rows * s.in * s.out / (CPU_UNIT_FLOPS / 2);
	cpu_tiles(d, s.y_grid.down * s.y_grid.across, cost, forward, &s);
}
