#include "model/spec_model.h"
#include <string.h>
#include "model/builder.h"
#include "model/spec_in.h"
#include "model/usergraph.h"

#define X(name, file) #name,
static const char *const builders[] = {BUILDER_LIST(X) NULL};
#undef X

/* ---- shards */

/* The first layer of each shard; layers is the most there may be when their number is wrong. */
static void read_shard_list(struct json_in *in, struct model_config *m, uint32_t layers)
{
	const json_t *list = json_get_array(in, "shards", GRAPH_SHARDS_MAX, false);
	size_t n = list ? json_array_size(list) : 0;
	if (list && n == 0)
		json_mistake(in, "shards", "must name the first layer of each shard, as in [0, 1]");
	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_array_get(list, i);
		json_int_t first = json_is_integer(item) ? json_integer_value(item) : -1;
		json_int_t least = i ? (json_int_t)m->shard_first[i - 1] + 1 : 0;
		if (first < least || first >= layers || (i == 0 && first != 0)) {
			json_mistake(in, "shards",
				"must be whole numbers, rising from 0, each below layers (%u); "
				"item %zu is not",
				layers, i + 1);
			return;
		}
		m->shard_first[i] = (uint32_t)first;
	}
	m->n_shards = (uint32_t)n;
}

static void read_shards(struct json_in *in, struct model_config *m, uint32_t layers)
{
	if (json_is_array(json_object_get(in->object, "shards"))) {
		read_shard_list(in, m, layers);
		return;
	}
	uint32_t most = layers < GRAPH_SHARDS_MAX ? layers : GRAPH_SHARDS_MAX;
	m->n_shards = spec_in_u32_or(in, "shards", 1, most, 1);
	for (uint32_t i = 0; i < m->n_shards; i++)
		m->shard_first[i] = (uint32_t)((uint64_t)i * m->layers / m->n_shards);
}

static void read_layers(struct json_in *in, struct model_config *m)
{
	size_t before = in->mistakes->len;
	m->layers = spec_in_u32(in, "layers", 1, BUILDER_LAYERS_MAX);
	read_shards(in, m, in->mistakes->len == before ? m->layers : BUILDER_LAYERS_MAX);
}

/* ---- texts */

static void read_text(struct json_in *in, struct model_config *m)
{
	m->context = spec_in_u32(in, "context", 1, BUILDER_TOKENS_MAX);
	m->vocab = spec_in_u32(in, "vocab", 2, BUILDER_TOKENS_MAX);
}

static void read_width(struct json_in *in, struct model_config *m)
{
	size_t before = in->mistakes->len;
	m->width = spec_in_u32(in, "width", 1, BUILDER_WIDTH_MAX);
	m->heads = spec_in_u32(in, "heads", 1, BUILDER_HEADS_MAX);
	if (in->mistakes->len == before && m->width % m->heads)
		json_mistake(in, "width", "must be a multiple of heads: %u is not one of %u",
			m->width, m->heads);
}

static void read_gpt(struct json_in *in, struct spec *s)
{
	struct model_config *m = &s->model;
	static const bool tied = true;
	read_layers(in, m);
	read_width(in, m);
	read_text(in, m);
	m->tied = json_get_flag(in, "tied", &tied);
	m->norm_eps = spec_in_real_or(in, "norm_eps", 1e-12, 1, BUILDER_NORM_EPS);
}

static void read_llama(struct json_in *in, struct spec *s)
{
	struct model_config *m = &s->model;
	static const bool tied = false;
	read_layers(in, m);
	size_t before = in->mistakes->len;
	read_width(in, m);
	m->kv_heads = spec_in_u32_or(in, "kv_heads", 1, BUILDER_HEADS_MAX, m->heads);
	bool fine = in->mistakes->len == before;
	if (fine && m->heads % m->kv_heads)
		json_mistake(
			in, "kv_heads", "must divide heads (%u), is %u", m->heads, m->kv_heads);
	if (fine && m->width / m->heads % 2)
		json_mistake(in, "width",
			"must be a multiple of twice the heads: %u is not one of %u, and positions "
			"turn pairs",
			m->width, 2 * m->heads);
	m->hidden = spec_in_u32(in, "hidden", 1, BUILDER_HIDDEN_MAX);
	read_text(in, m);
	m->tied = json_get_flag(in, "tied", &tied);
	m->rope_theta = spec_in_real_or(in, "rope_theta", 2, 1e12, BUILDER_ROPE_THETA);
	m->norm_eps = spec_in_real_or(in, "norm_eps", 1e-12, 1, BUILDER_NORM_EPS);
}

/* ---- images */

static void read_images(struct json_in *in, struct model_config *m)
{
	const json_t *list = json_get_array(in, "image", 3, true);
	for (size_t i = 0; list && i < 3; i++) {
		json_int_t size = json_integer_value(json_array_get(list, i));
		if (size < 1 || size > BUILDER_IMAGE_MAX) {
			json_mistake(in, "image",
				"must be channels, height and width, each from 1 to %u",
				BUILDER_IMAGE_MAX);
			return;
		}
		m->image[i] = (uint32_t)size;
	}
	m->vocab = spec_in_u32(in, "classes", 2, BUILDER_TOKENS_MAX);
}

static void read_blocks(struct json_in *in, struct model_config *m)
{
	static const uint32_t usual[MODEL_STAGES] = {2, 2, 2, 2};
	bool given = json_object_get(in->object, "blocks") != NULL;
	const json_t *list = json_get_array(in, "blocks", MODEL_STAGES, false);
	size_t n = given ? json_array_size(list) : MODEL_STAGES;
	if (list && !n)
		json_mistake(in, "blocks", "must have from 1 to %d stages", MODEL_STAGES);
	for (size_t i = 0; i < n; i++) {
		json_int_t count = given ? json_integer_value(json_array_get(list, i)) : usual[i];
		if (count < 1 || count > BUILDER_LAYERS_MAX / MODEL_STAGES) {
			json_mistake(in, "blocks",
				"must be the number of blocks of each stage, each from 1 to %d",
				BUILDER_LAYERS_MAX / MODEL_STAGES);
			return;
		}
		m->blocks[i] = (uint32_t)count;
		m->layers += (uint32_t)count;
	}
}

static void read_resnet(struct json_in *in, struct spec *s)
{
	struct model_config *m = &s->model;
	static const char *const stems[] = {"large", "small", NULL};
	static const bool off = false;
	size_t before = in->mistakes->len;
	read_blocks(in, m);
	read_shards(in, m, in->mistakes->len == before ? m->layers : BUILDER_LAYERS_MAX);
	m->width = spec_in_u32_or(in, "width", 1, BUILDER_CHANNELS_MAX, 64);
	m->bottleneck = json_get_flag(in, "bottleneck", &off);
	m->small_stem = json_get_choice(in, "stem", stems, stems[0]) == 1;
	read_images(in, m);
}

/* ---- the user's own */

static void read_graph(struct json_in *in, struct spec *s)
{
	struct model_config *m = &s->model;
	size_t before = in->mistakes->len;
	if (json_object_get(in->object, "image"))
		read_images(in, m);
	else
		read_text(in, m);
	const json_t *graph = json_get_object(in, "graph", true);
	if (!graph || in->mistakes->len != before)
		return;
	m->n_shards = usergraph_check(graph, m, in->mistakes);
	m->user = s->user = json_canonical(graph);
	if (!m->user)
		json_mistake(in, "graph", "there is no memory to keep it");
}

void spec_model_read(struct json_in *in, struct spec *s)
{
	static void (*const readers[])(struct json_in *, struct spec *) = {
#define X(name, file) read_##name,
		BUILDER_LIST(X)
#undef X
	};
	size_t which = json_get_choice(in, "builder", builders, NULL);
	memcpy(s->model.builder, builders[which], strlen(builders[which]) + 1);
	readers[which](in, s);
}
