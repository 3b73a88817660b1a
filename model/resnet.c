#include "model/resnet.h"
#include <math.h>
#include <stdio.h>
#include "model/builder.h"

#define MOMENTUM 0.1f
#define HEAD_STD 0.01
#define BOTTLENECK 4 /* widens so many times */

/* A kernel as He et al. draw it for ReLU, by what it gives out (fan_out). */
static uint32_t conv(
	struct builder *b, const char *part, uint32_t x, struct shape kernel, uint32_t stride)
{
	uint32_t size = kernel.dim[2];
	double std = sqrt(2.0 / ((double)kernel.dim[0] * size * size));
	char name[32];
	snprintf(name, sizeof name, "%.20s.weight", part);
	uint32_t w = builder_param(b, name, kernel, INIT_normal, std);
	const struct node attrs = {.stride = stride, .pad = size / 2};
	return graph_node(b->g, b->shard, OP_conv2d, (const uint32_t[]){x, w}, 2, &attrs);
}

static uint32_t norm(struct builder *b, const char *part, uint32_t x, uint32_t channels)
{
	static const char *const kinds[] = {"weight", "bias", "running_mean", "running_var"};
	struct shape s = builder_vector(channels);
	uint32_t in[5] = {x};
	for (uint32_t i = 0; i < 4; i++) {
		char name[GRAPH_NAME];
		snprintf(name, sizeof name, "%.30s%.14s.%s", b->block, part, kinds[i]);
		enum init_kind init = i % 3 == 0 ? INIT_one : INIT_zero;
		in[i + 1] = i < 2 ? graph_param(b->g, b->shard, name, &s, init, 0)
				  : graph_buffer(b->g, b->shard, name, &s, init);
	}
	const struct node attrs = {.eps = (float)BUILDER_NORM_EPS, .momentum = MOMENTUM};
	return graph_node(b->g, b->shard, OP_batchnorm, in, 5, &attrs);
}

static uint32_t relu(struct builder *b, uint32_t x)
{
	return graph_node(b->g, b->shard, OP_relu, &x, 1, NULL);
}

/* The number-th convolution of a block, and its norm. */
static uint32_t conv_norm(
	struct builder *b, uint32_t number, uint32_t x, struct shape kernel, uint32_t stride)
{
	char conv_name[16], norm_name[16];
	snprintf(conv_name, sizeof conv_name, "conv%u", number);
	snprintf(norm_name, sizeof norm_name, "bn%u", number);
	return norm(b, norm_name, conv(b, conv_name, x, kernel, stride), kernel.dim[0]);
}

static struct shape kernel(uint32_t out, uint32_t in, uint32_t size)
{
	return shape_make(4, out, in, size, size);
}

/* One residual block; channels is what comes in and then what goes out. */
static uint32_t block(
	struct builder *b, uint32_t x, uint32_t *channels, uint32_t width, uint32_t stride)
{
	uint32_t in = *channels, out = b->m->bottleneck ? BOTTLENECK * width : width, y;
	if (b->m->bottleneck) {
		y = relu(b, conv_norm(b, 1, x, kernel(width, in, 1), 1));
		y = relu(b, conv_norm(b, 2, y, kernel(width, width, 3), stride));
		y = conv_norm(b, 3, y, kernel(out, width, 1), 1);
	} else {
		y = relu(b, conv_norm(b, 1, x, kernel(width, in, 3), stride));
		y = conv_norm(b, 2, y, kernel(width, width, 3), 1);
	}
	if (in != out || stride != 1) {
		x = conv(b, "downsample.0", x, kernel(out, in, 1), stride);
		x = norm(b, "downsample.1", x, out);
	}
	*channels = out;
	return relu(b, builder_add(b, y, x));
}

static uint32_t stem(struct builder *b)
{
	const struct model_config *m = b->m;
	struct shape images = shape_make(4, b->g->batch, m->image[0], m->image[1], m->image[2]);
	b->g->images_in = graph_input(b->g, "images", &images, DTYPE_real);
	uint32_t size = m->small_stem ? 3 : 7, stride = m->small_stem ? 1 : 2;
	uint32_t x = relu(
		b, conv_norm(b, 1, b->g->images_in, kernel(m->width, m->image[0], size), stride));
	if (m->small_stem)
		return x;
	const struct node attrs = {.window = 3, .stride = 2, .pad = 1};
	return graph_node(b->g, b->shard, OP_maxpool, &x, 1, &attrs);
}

static uint32_t stages(struct builder *b, uint32_t x, uint32_t *channels)
{
	for (uint32_t stage = 0; stage < MODEL_STAGES; stage++)
		for (uint32_t i = 0; i < b->m->blocks[stage]; i++) {
			char prefix[16];
			snprintf(prefix, sizeof prefix, "layer%u.", stage + 1);
			builder_block(b, prefix, i);
			uint32_t stride = stage > 0 && i == 0 ? 2 : 1;
			x = block(b, x, channels, b->m->width << stage, stride);
		}
	return x;
}

static void head(struct builder *b, uint32_t x, uint32_t channels)
{
	struct graph *g = b->g;
	struct shape targets = builder_vector(g->batch);
	builder_after_blocks(b);
	x = graph_node(g, b->shard, OP_global_average, &x, 1, NULL);
	uint32_t w = builder_param(
		b, "fc.weight", builder_matrix(b->m->vocab, channels), INIT_normal, HEAD_STD);
	uint32_t bias = builder_param(b, "fc.bias", builder_vector(b->m->vocab), INIT_zero, 0);
	g->logits = graph_node(g, b->shard, OP_linear, (const uint32_t[]){x, w, bias}, 3, NULL);
	g->targets_in = graph_input(g, "targets", &targets, DTYPE_token);
	g->loss = graph_node(g, b->shard, OP_cross_entropy,
		(const uint32_t[]){g->logits, g->targets_in}, 2, NULL);
}

static enum err check_blocks(const struct model_config *m, struct why *why)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < MODEL_STAGES; i++) {
		if (m->blocks[i] && i && !m->blocks[i - 1])
			return err_why(why, ERR_range,
				"model.blocks: stage %u has blocks and the one before it none",
				i + 1);
		sum += m->blocks[i];
	}
	if (sum < 1 || sum > BUILDER_LAYERS_MAX || sum != m->layers)
		return err_why(why, ERR_range,
			"model.blocks: %llu residual blocks in all, must be from 1 to %u, and "
			"model.layers (%u)",
			(unsigned long long)sum, BUILDER_LAYERS_MAX, m->layers);
	return builder_check_shards(m, why);
}

static enum err check(const struct model_config *m, uint32_t batch, uint32_t seq, struct why *why)
{
	if (m->width < 1 || m->width > BUILDER_CHANNELS_MAX)
		return err_why(why, ERR_range, "model.width: %u, must be from 1 to %u", m->width,
			BUILDER_CHANNELS_MAX);
	if (m->vocab < 1 || m->vocab > BUILDER_TOKENS_MAX)
		return err_why(why, ERR_range, "model.classes: %u, must be from 1 to %u", m->vocab,
			BUILDER_TOKENS_MAX);
	for (int i = 0; i < 3; i++)
		if (m->image[i] < 1 || m->image[i] > BUILDER_IMAGE_MAX)
			return err_why(why, ERR_range,
				"model.image: %u x %u x %u, each must be from 1 to %u", m->image[0],
				m->image[1], m->image[2], BUILDER_IMAGE_MAX);
	if (batch < 1 || seq != 1)
		return err_why(why, ERR_range,
			"a batch of %u images, sequences of %u: must be at least 1, and of length "
			"1",
			batch, seq);
	return check_blocks(m, why);
}

enum err resnet_build(const struct model_config *m, uint32_t batch, uint32_t seq,
	struct graph **out, struct why *why)
{
	struct builder b;
	enum err e = check(m, batch, seq, why);
	if (!e)
		e = builder_open(&b, m, batch, seq, why);
	if (e)
		return e;
	uint32_t channels = m->width;
	uint32_t x = stages(&b, stem(&b), &channels);
	head(&b, x, channels);
	return builder_close(&b, out, why);
}
