/* An opened backend and what tests do with one: tensors as doubles, models, tokens. */
#ifndef TESTS_HELP_KERNELS_H
#define TESTS_HELP_KERNELS_H
#include <stdint.h>
#include "kernels/exec.h"

struct help_kernels {
	const struct backend *backend;
	struct device *device;
};

struct help_kernels help_kernels_open(const char *backend);
void help_kernels_close(struct help_kernels *k);

/* n reals of device memory, widened or narrowed. */
void help_kernels_read(const struct help_kernels *k, struct view from, uint64_t n, double *to);
void help_kernels_write(
	const struct help_kernels *k, struct view to, uint64_t n, const double *from);
struct view help_kernels_alloc(const struct help_kernels *k, uint64_t n);

/* Parameters of these shards (NULL: all) for training, with the initial values of seed. */
struct params *help_kernels_params(const struct help_kernels *k, const struct graph *g,
	const uint32_t *shards, uint32_t n_shards, uint64_t seed);
struct exec *help_kernels_exec(const struct graph *g, struct params *p, enum exec_mode mode);
/* One part of one shard as doubles; caller frees. */
double *help_kernels_part(const struct help_kernels *k, const struct params *p, uint32_t shard,
	enum params_part part);
/* B*T tokens below the vocabulary of g, the same for the same seed; caller frees. */
int32_t *help_kernels_tokens(const struct graph *g, uint64_t seed);

/* Normal values in the place of g's images, in the backend's reals; caller frees. */
void *help_kernels_images(const struct help_kernels *k, const struct graph *g, uint64_t seed);

/* ||a - b|| / ||b||, 0 for two vectors of zeros. */
double help_kernels_distance(const double *a, const double *b, uint64_t n);

#endif
