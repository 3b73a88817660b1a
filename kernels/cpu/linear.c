#include "kernels/cpu/linear.h"
#include <string.h>

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

struct tiled {
	struct linear call;
	float *grad_bias;
	bool add_bias;
	struct grid y_grid, x_grid, weight_grid;
	size_t x_tiles, weight_tiles, bias_tiles;
};

static void forward(void *arg, size_t tile, unsigned thread)
{
	const struct tiled *t = arg;
	const struct linear *s = &t->call;
	struct cpu_span rows = cpu_span_of(s->rows, t->y_grid.rows, tile / t->y_grid.across);
	struct cpu_span out = cpu_span_of(s->out, t->y_grid.columns, tile % t->y_grid.across);
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

static void backward_x(const struct tiled *t, size_t tile, unsigned thread)
{
	const struct linear *s = &t->call;
	struct cpu_span rows = cpu_span_of(s->rows, t->x_grid.rows, tile / t->x_grid.across);
	struct cpu_span in = cpu_span_of(s->in, t->x_grid.columns, tile % t->x_grid.across);
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

static void backward_weight(const struct tiled *t, size_t tile, unsigned thread)
{
	const struct linear *s = &t->call;
	struct cpu_span out =
		cpu_span_of(s->out, t->weight_grid.rows, tile / t->weight_grid.across);
	struct cpu_span in =
		cpu_span_of(s->in, t->weight_grid.columns, tile % t->weight_grid.across);
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

static void backward_bias(const struct tiled *t, size_t tile)
{
	const struct linear *s = &t->call;
	struct cpu_span out = cpu_span_of(s->out, TILE_ROWS, tile);
	float *to = t->grad_bias + out.first;
	if (!t->add_bias)
		memset(to, 0, out.n * sizeof *to);
	for (uint64_t r = 0; r < s->rows; r++)
		s->d->vec->add(to, to, s->grad_y + r * s->out + out.first, out.n);
}

static void backward(void *arg, size_t tile, unsigned thread)
{
	const struct tiled *t = arg;
	if (tile < t->x_tiles)
		backward_x(t, tile, thread);
	else if (tile < t->x_tiles + t->weight_tiles)
		backward_weight(t, tile - t->x_tiles, thread);
	else
		backward_bias(t, tile - t->x_tiles - t->weight_tiles);
}

static void run_backward(struct device *d, const struct kernel_call *c, struct tiled *t)
{
	struct linear *s = &t->call;
	s->grad_y = cpu_at(c->grad_out);
	s->grad_x = cpu_at(c->grad_in[0]);
	s->grad_weight = cpu_at(c->grad_in[1]);
	s->add_x = cpu_adds(c, 0);
	s->add_weight = cpu_adds(c, 1);
	t->grad_bias = c->node->n_in == 3 ? cpu_at(c->grad_in[2]) : NULL;
	t->add_bias = cpu_adds(c, 2);
	t->bias_tiles = t->grad_bias ? (s->out + TILE_ROWS - 1) / TILE_ROWS : 0;
	uint64_t cost = t->grad_bias ? s->rows * s->out : 0;
	if (cpu_linear_takes_bf16(s)) {
		cpu_tiles(d, t->bias_tiles, cost, backward, t);
		cpu_linear_bf16_backward(s);
		return;
	}
	t->x_grid = grid_of(s->rows, s->in);
	t->weight_grid = grid_of(s->out, s->in);
	t->x_tiles = s->grad_x ? t->x_grid.down * t->x_grid.across : 0;
	t->weight_tiles = s->grad_weight ? t->weight_grid.down * t->weight_grid.across : 0;
	uint64_t product = s->rows * s->in * s->out / (CPU_UNIT_FLOPS / 2);
	cost += s->grad_x ? product : 0;
	cost += s->grad_weight ? product : 0;
	cpu_tiles(d, t->x_tiles + t->weight_tiles + t->bias_tiles, cost, backward, t);
}

static void run_forward(struct device *d, struct tiled *t)
{
	struct linear *s = &t->call;
	if (cpu_linear_takes_bf16(s)) {
		cpu_linear_bf16_forward(s);
		return;
	}
	t->y_grid = grid_of(s->rows, s->out);
	uint64_t cost = s->rows * s->in * s->out / (CPU_UNIT_FLOPS / 2);
	cpu_tiles(d, t->y_grid.down * t->y_grid.across, cost, forward, t);
}

void cpu_linear(struct device *d, const struct kernel_call *c)
{
	struct tiled t = {.call = {.d = d,
				  .rows = shape_rows(cpu_shape(c, 0)),
				  .in = shape_last(cpu_shape(c, 0)),
				  .out = cpu_shape(c, 1)->dim[0],
				  .x = cpu_at(c->in[0]),
				  .weight = cpu_at(c->in[1])}};
	if (c->backward) {
		run_backward(d, c, &t);
		return;
	}
	t.call.bias = c->node->n_in == 3 ? cpu_at(c->in[2]) : NULL;
	t.call.y = cpu_at(c->out);
	run_forward(d, &t);
}
