/* The builder of residual networks for images (He et al.), with the layers, strides and names of
 * torchvision's: a bottleneck strides in its 3x3 convolution. */
#ifndef MODEL_RESNET_H
#define MODEL_RESNET_H
#include "base/err.h"
#include "model/graph.h"

/* As graph_build, for a micro-batch of batch images; seq is 1. */
enum err resnet_build(const struct model_config *m, uint32_t batch, uint32_t seq,
	struct graph **out, struct why *why) MUST_CHECK;

#endif
