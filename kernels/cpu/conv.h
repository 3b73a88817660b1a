/*
 * A convolution as products.  Under the window, x is a matrix with a row for each tap (an element
 * of the kernel: K = C R S of them) and a column for each place of y; it is never whole in memory,
 * only the rows and columns that a tile works on.  The columns come in sets: a part of one image's
 * places or, where an image has few, all places of several images, so that products stay large.
 */
#ifndef KERNELS_CPU_CONV_H
#define KERNELS_CPU_CONV_H
#include "kernels/cpu/cpu.h"

struct conv {
	const struct device *d;
	uint64_t images, in, height, width; /* x */
	uint64_t out, rows, columns;        /* y */
	uint64_t high, wide, stride, pad;   /* the window */
	uint64_t taps, places;              /* K; rows * columns */
	bool plain; /* 1 x 1 without stride and pad: the matrix is x itself */
	uint64_t sets_each, images_each, places_each; /* sets of an image; size of a set */
	const float *x, *w, *bias, *grad_y;
	float *y, *grad_x, *grad_w, *grad_bias;
	bool add_x, add_w, add_bias;
};

/* Columns: places [place, place + places) of images [image, image + images); several images only
 * with all of their places. */
struct conv_set {
	uint64_t image, images, place, places;
};

struct conv conv_of(const struct device *d, const struct kernel_call *c);
uint64_t conv_sets(const struct conv *z);
struct conv_set conv_set_at(const struct conv *z, uint64_t i);
static inline uint64_t conv_set_size(struct conv_set s)
{
	return s.images * s.places;
}

/* Rows of the matrix, without gaps. */
void conv_fill(const struct conv *z, struct conv_set set, struct cpu_span taps, float *to);
/* What is there for these rows, added to the elements of x that they came from. */
void conv_add_back(
	const struct conv *z, struct conv_set set, struct cpu_span taps, const float *from);
/* Rows (channels) of y, or of its gradient, without gaps; and back. */
void conv_gather(const struct conv *z, struct conv_set set, struct cpu_span channels, float *to);
void conv_scatter(
	const struct conv *z, struct conv_set set, struct cpu_span channels, const float *from);

#endif
