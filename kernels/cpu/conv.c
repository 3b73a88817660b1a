#include <string.h>
#include "kernels/cpu/conv.h"

/* Columns of a set, and places of an image from which it is worth working on one image alone.
 * With the block sizes of conv2d.c both factors of a product fit into the scratch. */
#define COLUMNS 192
#define FEW 128

struct conv conv_of(const struct device *d, const struct kernel_call *c)
{
	const struct shape *x = cpu_shape(c, 0), *w = cpu_shape(c, 1);
	const struct shape *y = &c->graph->tensors[c->node->out].shape;
	struct conv z = {.d = d,
		.images = x->dim[0],
		.in = x->dim[1],
		.height = x->dim[2],
		.width = x->dim[3],
		.out = w->dim[0],
		.rows = y->dim[2],
		.columns = y->dim[3],
		.high = w->dim[2],
		.wide = w->dim[3],
		.stride = c->node->stride,
		.pad = c->node->pad,
		.x = cpu_at(c->in[0]),
		.w = cpu_at(c->in[1])};
	z.taps = z.in * z.high * z.wide;
	z.places = z.rows * z.columns;
	z.plain = z.high == 1 && z.wide == 1 && z.stride == 1 && !z.pad;
	z.images_each = z.places < FEW ? FEW / z.places : 1;
	uint64_t parts = (z.places + COLUMNS - 1) / COLUMNS;
	z.places_each = z.places;
	if (parts > 1)
		z.places_each = ((z.places + parts - 1) / parts + 15) / 16 * 16;
	z.sets_each = (z.places + z.places_each - 1) / z.places_each;
	return z;
}

uint64_t conv_sets(const struct conv *z)
{
	return (z->images + z->images_each - 1) / z->images_each * z->sets_each;
}

struct conv_set conv_set_at(const struct conv *z, uint64_t i)
{
	struct conv_set s = {.image = i / z->sets_each * z->images_each,
		.place = i % z->sets_each * z->places_each};
	s.images = cpu_least(z->images_each, z->images - s.image);
	s.places = cpu_least(z->places_each, z->places - s.place);
	return s;
}

/* ---- the matrix */

/* A row of it within one image: from element (0, 0) of a channel, under tap (r, s). */
struct line {
	float *x; /* the channel */
	uint64_t r, s;
	uint64_t first, end; /* columns of y where the tap is over the picture */
};

static struct line line_of(const struct conv *z, float *x, uint64_t image, uint64_t tap)
{
	uint64_t i = tap / z->wide / z->high, from = z->width + z->pad;
	struct line l = {.x = x + (image * z->in + i) * z->height * z->width,
		.r = tap / z->wide % z->high,
		.s = tap % z->wide};
	l.first = l.s < z->pad ? (z->pad - l.s + z->stride - 1) / z->stride : 0;
	l.end = from > l.s ? cpu_least((from - l.s - 1) / z->stride + 1, z->columns) : 0;
	return l;
}

/* A stretch of a line within one row of y: columns of y, of them those over the picture (from
 * begin, n of them), and where in x these are. */
struct stretch {
	uint64_t n, begin, over;
	float *x;
};

static struct stretch stretch_of(
	const struct conv *z, const struct line *l, uint64_t place, uint64_t end)
{
	uint64_t column = place % z->columns, row = place / z->columns * z->stride + l->r;
	struct stretch t = {.n = cpu_least(z->columns - column, end - place)};
	uint64_t from = column > l->first ? column : l->first, to = cpu_least(column + t.n, l->end);
	if (row < z->pad || row - z->pad >= z->height || from >= to)
		return t;
	t.begin = from - column;
	t.over = to - from;
	t.x = l->x + (row - z->pad) * z->width + (from * z->stride + l->s - z->pad);
	return t;
}

static void fill_line(const struct conv *z, const struct line *l, struct conv_set set, float *to)
{
	uint64_t end = set.place + set.places;
	for (uint64_t place = set.place; place < end;) {
		struct stretch t = stretch_of(z, l, place, end);
		uint64_t rest = t.begin + t.over;
		memset(to, 0, t.begin * sizeof *to);
		if (z->stride == 1 && t.over)
			memcpy(to + t.begin, t.x, t.over * sizeof *to);
		else
			for (uint64_t i = 0; i < t.over; i++)
				to[t.begin + i] = t.x[i * z->stride];
		memset(to + rest, 0, (t.n - rest) * sizeof *to);
		to += t.n;
		place += t.n;
	}
}

static void add_line(
	const struct conv *z, const struct line *l, struct conv_set set, const float *from)
{
	uint64_t end = set.place + set.places;
	for (uint64_t place = set.place; place < end;) {
		struct stretch t = stretch_of(z, l, place, end);
		if (z->stride == 1 && t.over)
			z->d->vec->add(t.x, t.x, from + t.begin, t.over);
		else
			for (uint64_t i = 0; i < t.over; i++)
				t.x[i * z->stride] += from[t.begin + i];
		from += t.n;
		place += t.n;
	}
}

void conv_fill(const struct conv *z, struct conv_set set, struct cpu_span taps, float *to)
{
	for (uint64_t tap = taps.first; tap < taps.first + taps.n; tap++)
		for (uint64_t i = 0; i < set.images; i++, to += set.places) {
			/* It is only read from. */
			struct line l = line_of(z, (float *)(uintptr_t)z->x, set.image + i, tap);
			fill_line(z, &l, set, to);
		}
}

void conv_add_back(
	const struct conv *z, struct conv_set set, struct cpu_span taps, const float *from)
{
	for (uint64_t tap = taps.first; tap < taps.first + taps.n; tap++)
		for (uint64_t i = 0; i < set.images; i++, from += set.places) {
			struct line l = line_of(z, z->grad_x, set.image + i, tap);
			add_line(z, &l, set, from);
		}
}

/* ---- y */

static uint64_t y_at(const struct conv *z, struct conv_set set, uint64_t image, uint64_t channel)
{
	return ((set.image + image) * z->out + channel) * z->places + set.place;
}

void conv_gather(const struct conv *z, struct conv_set set, struct cpu_span channels, float *to)
{
	for (uint64_t o = channels.first; o < channels.first + channels.n; o++)
		for (uint64_t i = 0; i < set.images; i++, to += set.places)
			memcpy(to, z->grad_y + y_at(z, set, i, o), set.places * sizeof *to);
}

void conv_scatter(
	const struct conv *z, struct conv_set set, struct cpu_span channels, const float *from)
{
	for (uint64_t o = channels.first; o < channels.first + channels.n; o++)
		for (uint64_t i = 0; i < set.images; i++, from += set.places)
			memcpy(z->y + y_at(z, set, i, o), from, set.places * sizeof *from);
}
