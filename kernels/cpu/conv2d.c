#include "kernels/cpu/conv.h"
#include <string.h>

/*
 * Blocks: at most so many output channels in a tile, and as many taps at a time as the scratch has
 * room for beside what else is in it.  Sums are cut in the same places for any number of threads.
 */
#define CHANNELS 256
#define TAPS_LEAST 32 /* of a tile of the weight's gradient */
#define TILES 8       /* so many at least, where it has the taps for them */

static uint64_t pieces(uint64_t n, uint64_t most)
{
	return (n + most - 1) / most;
}

/* Piece i of n things in pieces of about the same size, none above most. */
static struct cpu_span piece(uint64_t n, uint64_t most, uint64_t i)
{
	uint64_t each = pieces(n, pieces(n, most)), first = cpu_least(i * each, n);
	return (struct cpu_span){first, cpu_least(each, n - first)};
}

/* Taps at a time beside kept floats of scratch. */
static uint64_t taps_at_once(uint64_t columns, uint64_t kept)
{
	return cpu_least((CPU_SCRATCH - kept) / columns, 2 * CHANNELS);
}

/* ---- forward: y [out, columns] = w [out, K] matrix [K, columns] */

static uint64_t out_blocks(const struct conv *z)
{
	return pieces(z->out, CHANNELS);
}

static void multiply(const struct conv *z, unsigned thread, struct conv_set set,
	struct cpu_span out, float *free_scratch, float *y, uint64_t y_step)
{
	uint64_t n = conv_set_size(set);
	float *end = cpu_scratch(z->d, thread) + CPU_SCRATCH;
	bool direct = z->plain && set.images == 1;
	uint64_t most =
		direct ? z->taps : cpu_least((uint64_t)(end - free_scratch) / n, 2 * CHANNELS);
	for (uint64_t i = 0; i < pieces(z->taps, most); i++) {
		struct cpu_span taps = piece(z->taps, most, i);
		struct product p = {.m = out.n,
			.n = n,
			.k = taps.n,
			.a = {z->w + out.first * z->taps + taps.first, z->taps, false},
			.b = {free_scratch, n, false},
			.alpha = 1,
			.c = y,
			.c_step = y_step,
			.add = i || z->bias};
		if (direct)
			p.b = (struct matrix){
				z->x + set.image * z->in * z->places + set.place, z->places, false};
		else
			conv_fill(z, set, taps, free_scratch);
		cpu_product(z->d, thread, &p);
	}
}

static void forward(void *arg, size_t tile, unsigned thread)
{
	const struct conv *z = arg;
	struct conv_set set = conv_set_at(z, tile / out_blocks(z));
	struct cpu_span out = piece(z->out, CHANNELS, tile % out_blocks(z));
	float *scratch = cpu_scratch(z->d, thread), *y = scratch;
	uint64_t n = conv_set_size(set), step = n;
	if (set.images == 1) { /* the product's result is y itself */
		y = z->y + (set.image * z->out + out.first) * z->places + set.place;
		step = z->places;
	} else {
		scratch += out.n * n;
	}
	for (uint64_t o = 0; o < out.n && z->bias; o++)
		for (uint64_t i = 0; i < n; i++)
			y[o * step + i] = z->bias[out.first + o];
	multiply(z, thread, set, out, scratch, y, step);
	if (set.images > 1)
		conv_scatter(z, set, out, y);
}

/* ---- x: matrix' gradient [K, columns] = w' [K, out] grad_y [out, columns], added back */

static uint64_t x_channels(const struct conv *z)
{
	return cpu_least(pieces(CHANNELS, z->high * z->wide), z->in);
}

/* grad_y's rows of some output channels as a factor, gathered into at where they are not together.
 */
static struct matrix grad_y_rows(
	const struct conv *z, struct conv_set set, struct cpu_span out, float *at)
{
	if (set.images == 1)
		return (struct matrix){
			z->grad_y + (set.image * z->out + out.first) * z->places + set.place,
			z->places, false};
	conv_gather(z, set, out, at);
	return (struct matrix){at, conv_set_size(set), false};
}

static void back_to_taps(
	const struct conv *z, unsigned thread, struct conv_set set, struct cpu_span taps)
{
	float *rows = cpu_scratch(z->d, thread), *gathered = rows + taps.n * conv_set_size(set);
	uint64_t most = set.images == 1 ? z->out : CHANNELS;
	bool direct = z->plain && set.images == 1;
	for (uint64_t i = 0; i < pieces(z->out, most); i++) {
		struct cpu_span out = piece(z->out, most, i);
		struct product p = {.m = taps.n,
			.n = conv_set_size(set),
			.k = out.n,
			.a = {z->w + out.first * z->taps + taps.first, z->taps, true},
			.b = grad_y_rows(z, set, out, gathered),
			.alpha = 1,
			.c = rows,
			.c_step = conv_set_size(set),
			.add = i};
		if (direct) {
			p.c = z->grad_x + (set.image * z->in + taps.first) * z->places + set.place;
			p.c_step = z->places;
			p.add = true;
		}
		cpu_product(z->d, thread, &p);
	}
	if (!direct)
		conv_add_back(z, set, taps, rows);
}

/* A tile: some channels of the images of one set or, where an image has several, of all of its
 * sets, in order. */
static void backward_x(const struct conv *z, size_t tile, unsigned thread)
{
	uint64_t blocks = pieces(z->in, x_channels(z)), window = z->high * z->wide;
	struct cpu_span in = piece(z->in, x_channels(z), tile % blocks);
	uint64_t first = tile / blocks * z->sets_each, area = z->height * z->width;
	struct conv_set set = conv_set_at(z, first);
	for (uint64_t i = 0; i < set.images && !z->add_x; i++)
		memset(z->grad_x + ((set.image + i) * z->in + in.first) * area, 0,
			in.n * area * sizeof *z->grad_x);
	for (uint64_t s = first; s < first + z->sets_each; s++) {
		set = conv_set_at(z, s);
		uint64_t n = conv_set_size(set), kept = set.images == 1 ? 0 : CHANNELS * n;
		uint64_t most = taps_at_once(n, kept), all = in.n * window;
		for (uint64_t i = 0; i < pieces(all, most); i++) {
			struct cpu_span taps = piece(all, most, i);
			taps.first += in.first * window;
			back_to_taps(z, thread, set, taps);
		}
	}
}

/* ---- weight: [out, K] = sum over sets of grad_y [out, columns] matrix' [columns, K] */

static uint64_t weight_taps(const struct conv *z)
{
	uint64_t columns = z->images_each * z->places_each;
	uint64_t kept = z->images_each > 1 ? CHANNELS * columns : 0;
	uint64_t wanted = pieces(z->taps, pieces(TILES, out_blocks(z)));
	wanted = wanted < TAPS_LEAST ? TAPS_LEAST : (wanted + 15) / 16 * 16;
	return cpu_least(wanted, taps_at_once(columns, kept));
}

static void backward_weight(const struct conv *z, size_t tile, unsigned thread)
{
	struct cpu_span out = piece(z->out, CHANNELS, tile % out_blocks(z));
	struct cpu_span taps = piece(z->taps, weight_taps(z), tile / out_blocks(z));
	float *rows = cpu_scratch(z->d, thread);
	for (uint64_t s = 0; s < conv_sets(z); s++) {
		struct conv_set set = conv_set_at(z, s);
		uint64_t n = conv_set_size(set);
		struct product p = {.m = out.n,
			.n = taps.n,
			.k = n,
			.a = grad_y_rows(z, set, out, rows + taps.n * n),
			.b = {rows, n, true},
			.alpha = 1,
			.c = z->grad_w + out.first * z->taps + taps.first,
			.c_step = z->taps,
			.add = s || z->add_w};
		if (z->plain && set.images == 1)
			p.b = (struct matrix){
				z->x + (set.image * z->in + taps.first) * z->places + set.place,
				z->places, true};
		else
			conv_fill(z, set, taps, rows);
		cpu_product(z->d, thread, &p);
	}
}

static void backward_bias(const struct conv *z, uint64_t channel)
{
	float sum = 0;
	for (uint64_t n = 0; n < z->images; n++)
		sum += z->d->vec->sum(z->grad_y + (n * z->out + channel) * z->places, z->places);
	z->grad_bias[channel] = z->add_bias ? z->grad_bias[channel] + sum : sum;
}

/* ---- the op */

static void backward_x_tile(void *arg, size_t tile, unsigned thread)
{
	backward_x(arg, tile, thread);
}

static void backward_weight_tile(void *arg, size_t tile, unsigned thread)
{
	backward_weight(arg, tile, thread);
}

static void backward_bias_range(void *arg, struct cpu_range r)
{
	for (uint64_t i = r.first; i < r.first + r.n; i++)
		backward_bias(arg, i);
}

void cpu_conv2d(struct device *d, const struct kernel_call *c)
{
	struct conv z = conv_of(d, c);
	uint64_t cost = z.images * z.places * z.out * z.taps / (CPU_UNIT_FLOPS / 2);
	if (!c->backward) {
		z.bias = c->node->n_in == 3 ? cpu_at(c->in[2]) : NULL;
		z.y = cpu_at(c->out);
		cpu_tiles(d, conv_sets(&z) * out_blocks(&z), cost, forward, &z);
		return;
	}
	z.grad_y = cpu_at(c->grad_out);
	z.grad_x = cpu_at(c->grad_in[0]);
	z.grad_w = cpu_at(c->grad_in[1]);
	z.grad_bias = c->node->n_in == 3 ? cpu_at(c->grad_in[2]) : NULL;
	z.add_x = cpu_adds(c, 0);
	z.add_w = cpu_adds(c, 1);
	z.add_bias = cpu_adds(c, 2);
	uint64_t groups = conv_sets(&z) / z.sets_each;
	if (z.grad_x)
		cpu_tiles(d, groups * pieces(z.in, x_channels(&z)), cost, backward_x_tile, &z);
	if (z.grad_w)
		cpu_tiles(d, out_blocks(&z) * pieces(z.taps, weight_taps(&z)), cost,
			backward_weight_tile, &z);
	if (z.grad_bias)
		cpu_ranges(d, z.out, z.images * z.places, backward_bias_range, &z);
}
