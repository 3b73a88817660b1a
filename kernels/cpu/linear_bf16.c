#include <string.h>
#include "kernels/cpu/linear.h"
#include "kernels/cpu/provider.h"

/*
 * linear with both factors rounded to bfloat16.  Each factor is rounded once and, where a product
 * wants it so, turned or brought into the library's own order; then tiles are multiplied.  All of
 * that lies in areas of a fixed size that every call uses again, so a large call goes over rows and
 * outputs by pieces.
 *
 * Nothing is kept between calls, weights neither.  With 256 rows and AMX, rounding and packing of
 * all factors took about as long as the products forward and half as long backward; copies of
 * packed weights would save a part of it when several micro-batches share a step.
 */
enum { X, GRAD_Y, WEIGHT, X_PACKED, GRAD_Y_TURNED, WEIGHT_PACKED, AREAS };
_Static_assert(AREAS == CPU_HALF_AREAS, "one each");

#define OUTPUTS 4096u  /* at once */
#define ROWS_LEAST 64u /* with fewer, packing the weights costs more than bf16 saves */
#define SIDE_LEAST 32u
#define PRODUCT_LEAST (1u << 22) /* multiplications */

/* Measured with AMX, 256 rows: the result of 256 by 192 stays in the second cache with its factors,
 * and leaves four tiles of a width of 768. */
#define TILE_ROWS 256u
#define TILE_COLUMNS 192u
#define TILE_COLUMNS_DEEP 128u
#define DEEP 1024u
_Static_assert(TILE_ROWS *TILE_COLUMNS <= CPU_SCRATCH, "a result must fit");

#define ROUND_ROWS 32u /* in a tile of rounding */
#define TURN_ROWS 128u

struct round {
	const float *from;
	uint64_t from_step, rows, columns;
	uint16_t *to; /* without gaps */
};

/* b [k,n] of a product, packed in columns of so many. */
struct pack {
	struct half_matrix from;
	uint64_t k, n, columns;
	uint16_t *to;
};

/* c [m,n] = (or +=) a [m,k] b, then the bias to each row. */
struct multiply {
	uint64_t m;
	const uint16_t *a;
	const struct pack *b;
	float *c;
	uint64_t c_step;
	const float *bias;
	bool add;
};

/* What is done at once on a piece of the rows and outputs. */
struct piece {
	struct device *d;
	struct cpu_span rows, out;
	uint16_t *area[AREAS];
	struct round rounds[3];
	struct pack packs[2];
	struct multiply products[2];
	size_t n_rounds, n_packs, n_products;
	bool turn;
};

static uint64_t count(uint64_t n, uint64_t each)
{
	return (n + each - 1) / each;
}

static uint64_t padded(uint64_t n)
{
	return count(n, 64) * 64;
}

bool cpu_linear_takes_bf16(const struct linear *s)
{
	return s->d->bf16 && s->rows >= ROWS_LEAST && s->in >= SIDE_LEAST && s->out >= SIDE_LEAST &&
	       s->rows * s->in * s->out >= PRODUCT_LEAST && padded(s->in) <= CPU_HALF_AREA / 64;
}

/* ---- stages: each is a list of things that are cut into tiles one after the other */

static void round_tile(void *arg, size_t tile, unsigned thread)
{
	(void)thread;
	const struct piece *p = arg;
	const struct round *r = p->rounds;
	for (; tile >= count(r->rows, ROUND_ROWS); r++)
		tile -= count(r->rows, ROUND_ROWS);
	struct cpu_span rows = cpu_span_of(r->rows, ROUND_ROWS, tile);
	for (uint64_t i = rows.first; i < rows.first + rows.n; i++)
		p->d->vec->to_bf16(r->to + i * r->columns, r->from + i * r->from_step, r->columns);
}

static void round_all(struct piece *p)
{
	size_t tiles = 0;
	uint64_t cost = 0;
	for (size_t i = 0; i < p->n_rounds; i++) {
		tiles += count(p->rounds[i].rows, ROUND_ROWS);
		cost += p->rounds[i].rows * p->rounds[i].columns;
	}
	cpu_tiles(p->d, tiles, cost, round_tile, p);
}

static void turn_tile(const struct piece *p, size_t tile, unsigned thread)
{
	struct cpu_span out = cpu_span_of(p->out.n, TURN_ROWS, tile);
	const struct half_matrix from = {p->area[GRAD_Y] + out.first, p->out.n, false};
	p->d->products.plugin->turn(p->d->products.library, thread, &from, p->rows.n, out.n,
		p->area[GRAD_Y_TURNED] + out.first * p->rows.n);
}

static uint16_t *packed_at(const struct pack *k, size_t tile)
{
	return k->to + tile * provider_packed(k->k, k->columns);
}

static void pack_tile(void *arg, size_t tile, unsigned thread)
{
	const struct piece *p = arg;
	size_t turns = p->turn ? count(p->out.n, TURN_ROWS) : 0;
	if (tile < turns) {
		turn_tile(p, tile, thread);
		return;
	}
	tile -= turns;
	const struct pack *k = p->packs;
	for (; tile >= count(k->n, k->columns); k++)
		tile -= count(k->n, k->columns);
	struct cpu_span n = cpu_span_of(k->n, k->columns, tile);
	struct half_matrix b = k->from;
	b.at += n.first * (b.turned ? b.step : 1);
	p->d->products.plugin->pack(
		p->d->products.library, thread, &b, k->k, n.n, packed_at(k, tile));
}

static void pack_all(struct piece *p)
{
	size_t tiles = p->turn ? count(p->out.n, TURN_ROWS) : 0;
	uint64_t cost = p->turn ? p->out.n * p->rows.n : 0;
	for (size_t i = 0; i < p->n_packs; i++) {
		tiles += count(p->packs[i].n, p->packs[i].columns);
		cost += p->packs[i].n * p->packs[i].k;
	}
	cpu_tiles(p->d, tiles, cost, pack_tile, p);
}

static size_t product_tiles(const struct multiply *p)
{
	return count(p->m, TILE_ROWS) * count(p->b->n, p->b->columns);
}

static void product_tile(void *arg, size_t tile, unsigned thread)
{
	const struct piece *p = arg;
	const struct multiply *s = p->products;
	for (; tile >= product_tiles(s); s++)
		tile -= product_tiles(s);
	const struct pack *b = s->b;
	size_t across = count(b->n, b->columns);
	struct cpu_span m = cpu_span_of(s->m, TILE_ROWS, tile / across);
	struct cpu_span n = cpu_span_of(b->n, b->columns, tile % across);
	/* Into a result of its own: with gaps between its rows oneDNN is up to three times slower.
	 */
	float *c = cpu_scratch(p->d, thread), *to = s->c + m.first * s->c_step + n.first;
	p->d->products.plugin->half_product(p->d->products.library, thread,
		&(struct half_product){.m = m.n,
			.n = n.n,
			.k = b->k,
			.a = s->a + m.first * b->k,
			.a_step = b->k,
			.b = packed_at(b, tile % across),
			.c = c});
	for (uint64_t i = 0; i < m.n; i++, to += s->c_step, c += n.n)
		if (s->add)
			p->d->vec->add(to, to, c, n.n);
		else if (s->bias)
			p->d->vec->add(to, c, s->bias + n.first, n.n);
		else
			memcpy(to, c, n.n * sizeof *c);
}

static void multiply_all(struct piece *p)
{
	size_t tiles = 0;
	uint64_t cost = 0;
	for (size_t i = 0; i < p->n_products; i++) {
		const struct multiply *s = &p->products[i];
		tiles += product_tiles(s);
		cost += s->m * s->b->n * s->b->k / (4 * CPU_UNIT_FLOPS);
	}
	cpu_tiles(p->d, tiles, cost, product_tile, p);
}

static void run(struct piece *p)
{
	round_all(p);
	pack_all(p);
	multiply_all(p);
}

/* ---- pieces */

/* So that a piece of each factor fits its area, packed too. */
static uint64_t outputs_at_once(const struct linear *s)
{
	return cpu_least(OUTPUTS, CPU_HALF_AREA / padded(s->in) / 64 * 64);
}

static uint64_t rows_at_once(const struct linear *s)
{
	uint64_t in = padded(s->in), out = padded(cpu_least(s->out, outputs_at_once(s)));
	return CPU_HALF_AREA / (in > out ? in : out) / 64 * 64;
}

static struct piece piece_of(const struct linear *s, struct cpu_span rows, struct cpu_span out)
{
	struct piece p = {.d = s->d, .rows = rows, .out = out};
	for (size_t i = 0; i < AREAS; i++)
		p.area[i] = (uint16_t *)(void *)s->d->halves.base + i * CPU_HALF_AREA;
	return p;
}

static void add_round(struct piece *p, const float *from, uint64_t from_step, struct cpu_span rows,
	struct cpu_span columns, int area)
{
	p->rounds[p->n_rounds++] = (struct round){from + rows.first * from_step + columns.first,
		from_step, rows.n, columns.n, p->area[area]};
}

static const struct pack *add_pack(
	struct piece *p, int from, bool turned, uint64_t k, uint64_t n, int area)
{
	struct pack *pack = &p->packs[p->n_packs++];
	*pack = (struct pack){.from = {p->area[from], turned ? k : n, turned},
		.k = k,
		.n = n,
		.columns = k > DEEP ? TILE_COLUMNS_DEEP : TILE_COLUMNS,
		.to = p->area[area]};
	return pack;
}

static void forward_piece(const struct linear *s, struct cpu_span rows, struct cpu_span out)
{
	struct cpu_span in = {0, s->in};
	struct piece p = piece_of(s, rows, out);
	if (out.first == 0)
		add_round(&p, s->x, s->in, rows, in, X);
	add_round(&p, s->weight, s->in, out, in, WEIGHT);
	p.products[p.n_products++] = (struct multiply){.m = rows.n,
		.a = p.area[X],
		.b = add_pack(&p, WEIGHT, true, s->in, out.n, WEIGHT_PACKED),
		.c = s->y + rows.first * s->out + out.first,
		.c_step = s->out,
		.bias = s->bias ? s->bias + out.first : NULL};
	run(&p);
}

/* x is packed at the first piece of the outputs and lies there for the others. */
static void backward_piece(const struct linear *s, struct cpu_span rows, struct cpu_span out)
{
	struct cpu_span in = {0, s->in};
	struct piece p = piece_of(s, rows, out);
	struct pack x = {.k = rows.n, .n = s->in, .to = p.area[X_PACKED]};
	x.columns = rows.n > DEEP ? TILE_COLUMNS_DEEP : TILE_COLUMNS;
	add_round(&p, s->grad_y, s->out, rows, out, GRAD_Y);
	if (s->grad_weight && out.first == 0) {
		add_round(&p, s->x, s->in, rows, in, X);
		add_pack(&p, X, false, rows.n, s->in, X_PACKED);
	}
	p.turn = s->grad_weight != NULL;
	if (s->grad_weight)
		p.products[p.n_products++] = (struct multiply){.m = out.n,
			.a = p.area[GRAD_Y_TURNED],
			.b = &x,
			.c = s->grad_weight + out.first * s->in,
			.c_step = s->in,
			.add = s->add_weight || rows.first > 0};
	if (s->grad_x) {
		add_round(&p, s->weight, s->in, out, in, WEIGHT);
		p.products[p.n_products++] = (struct multiply){.m = rows.n,
			.a = p.area[GRAD_Y],
			.b = add_pack(&p, WEIGHT, false, out.n, s->in, WEIGHT_PACKED),
			.c = s->grad_x + rows.first * s->in,
			.c_step = s->in,
			.add = s->add_x || out.first > 0};
	}
	run(&p);
}

static void each_piece(const struct linear *s,
	void (*piece)(const struct linear *s, struct cpu_span rows, struct cpu_span out))
{
	uint64_t rows = rows_at_once(s), out = outputs_at_once(s);
	for (size_t r = 0; r < count(s->rows, rows); r++)
		for (size_t o = 0; o < count(s->out, out); o++)
			piece(s, cpu_span_of(s->rows, rows, r), cpu_span_of(s->out, out, o));
}

void cpu_linear_bf16_forward(const struct linear *s)
{
	each_piece(s, forward_piece);
}

void cpu_linear_bf16_backward(const struct linear *s)
{
	each_piece(s, backward_piece);
}
