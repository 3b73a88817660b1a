/* A model cut over several peers gives the same bits as the whole on one. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "tests/help_graph.h"
#include "tests/help_kernels.h"

static const struct params_step adamw = {.lr = 1e-2,
	.beta1 = 0.9,
	.beta2 = 0.95,
	.eps = 1e-8,
	.weight_decay = 0.1,
	.clip = 1,
	.step = 1};

/* ---- a model on several peers, who hand border tensors to each other through host memory */

enum { PEERS_MAX = 4, STAGES_MAX = 64, MICRO_BATCHES = 2, SEED = 3 };

struct peer {
	struct params *p;
	struct exec *x;
};

struct stage {
	struct peer *peer;
	uint32_t segment;
};

struct crew {
	const struct help_kernels *k;
	const struct graph *g;
	struct peer peers[PEERS_MAX];
	uint32_t n_peers;
	struct stage stages[STAGES_MAX]; /* in the order of the graph */
	uint32_t n_stages;
	void **value, **grad; /* by tensor: what travels; NULL: nothing yet */
};

static const struct segment *segment_of(const struct stage *s)
{
	return &exec_segments(s->peer->x)->at[s->segment];
}

static int by_place(const void *a, const void *b)
{
	uint32_t x = segment_of(a)->first_node, y = segment_of(b)->first_node;
	return x < y ? -1 : x > y;
}

/* holder[s] is the peer that holds shard s. */
static void crew_init(struct crew *c, const struct help_kernels *k, const struct graph *g,
	const uint32_t *holder, enum exec_mode mode)
{
	*c = (struct crew){.k = k, .g = g};
	c->value = alloc_must_zero(g->n_tensors, sizeof *c->value);
	c->grad = alloc_must_zero(g->n_tensors, sizeof *c->grad);
	for (uint32_t i = 0; i < PEERS_MAX; i++) {
		uint32_t held[GRAPH_SHARDS_MAX], n = 0;
		for (uint32_t s = 0; s < c->g->n_shards; s++)
			if (holder[s] == i)
				held[n++] = s;
		if (!n)
			continue;
		struct peer *p = &c->peers[c->n_peers++];
		p->p = help_kernels_params(c->k, c->g, held, n, SEED);
		p->x = help_kernels_exec(c->g, p->p, mode);
		for (uint32_t s = 0; s < exec_segments(p->x)->n; s++)
			c->stages[c->n_stages++] = (struct stage){p, s};
	}
	qsort(c->stages, c->n_stages, sizeof *c->stages, by_place);
}

static void crew_forget(struct crew *c)
{
	for (uint32_t i = 0; i < c->g->n_tensors; i++) {
		free(c->value[i]);
		free(c->grad[i]);
		c->value[i] = c->grad[i] = NULL;
	}
}

static void crew_release(struct crew *c)
{
	crew_forget(c);
	free(c->value);
	free(c->grad);
	for (uint32_t i = 0; i < c->n_peers; i++) {
		exec_free(c->peers[i].x);
		params_free(c->peers[i].p);
	}
}

static uint64_t count(const struct crew *c, uint32_t tensor)
{
	return shape_count(&c->g->tensors[tensor].shape);
}

static void *fresh(struct crew *c, void **slot, uint32_t tensor)
{
	free(slot[tensor]);
	return slot[tensor] = alloc_must_zero(count(c, tensor), c->k->backend->real_size);
}

static void stage_forward(struct crew *c, const struct stage *s)
{
	const struct segment *seg = segment_of(s);
	for (uint32_t i = 0; i < seg->n_in; i++)
		exec_put(s->peer->x, seg->in[i], c->value[seg->in[i]]);
	exec_forward(s->peer->x, s->segment);
	for (uint32_t i = 0; i < seg->n_out; i++)
		exec_get(s->peer->x, seg->out[i], 0, count(c, seg->out[i]),
			fresh(c, c->value, seg->out[i]));
}

static void stage_backward(struct crew *c, const struct stage *s)
{
	const struct segment *seg = segment_of(s);
	for (uint32_t i = 0; i < seg->n_out; i++)
		exec_put_grad(s->peer->x, seg->out[i], c->grad[seg->out[i]]);
	for (uint32_t i = 0; i < seg->n_in; i++)
		if (c->grad[seg->in[i]])
			exec_put_grad(s->peer->x, seg->in[i], c->grad[seg->in[i]]);
	exec_backward(s->peer->x, s->segment);
	for (uint32_t i = 0; i < seg->n_in; i++)
		exec_get_grad(s->peer->x, seg->in[i], fresh(c, c->grad, seg->in[i]));
}

/* One micro-batch through all stages; the loss. */
static double crew_train(struct crew *c, uint64_t seed)
{
	int32_t *tokens = help_kernels_tokens(c->g, seed);
	int32_t *targets = help_kernels_tokens(c->g, seed + 100);
	bool images = c->g->images_in != GRAPH_NONE;
	void *pixels = images ? help_kernels_images(c->k, c->g, seed) : NULL;
	const struct exec_batch batch = {
		.tokens = tokens, .images = pixels, .targets = targets, .loss_rows = 20};
	for (uint32_t i = 0; i < c->n_peers; i++)
		assert_int_equal(exec_begin(c->peers[i].x, &batch, NULL), ERR_OK);
	for (uint32_t i = 0; i < c->n_stages; i++)
		stage_forward(c, &c->stages[i]);
	double loss = exec_loss(c->stages[c->n_stages - 1].peer->x);
	for (uint32_t i = c->n_stages; i-- > 0;)
		stage_backward(c, &c->stages[i]);
	crew_forget(c);
	free(tokens);
	free(targets);
	free(pixels);
	return loss;
}

static const struct peer *holder_of(const struct crew *c, uint32_t shard)
{
	for (uint32_t i = 0; i < c->n_peers; i++)
		if (params_count(c->peers[i].p, shard))
			return &c->peers[i];
	return NULL;
}

static void same_part(
	const struct crew *a, const struct crew *b, uint32_t shard, enum params_part part)
{
	const struct params *p = holder_of(a, shard) ? holder_of(a, shard)->p : NULL;
	if (!p)
		return; /* a shard without parameters */
	double *x = help_kernels_part(a->k, p, shard, part);
	double *y = help_kernels_part(b->k, holder_of(b, shard)->p, shard, part);
	if (memcmp(x, y, params_count(p, shard) * sizeof *x))
		fail_msg("%s: shard %u differs in part %d", a->k->backend->name, shard, (int)part);
	free(x);
	free(y);
}

/* Train on the shards as these peers hold them, and with one peer for all: the same bits. */
static void same_as_whole(const struct help_kernels *k, const struct graph *g,
	const uint32_t *holder, enum exec_mode mode)
{
	uint32_t *one = alloc_must_zero(g->n_shards, sizeof *one);
	struct crew whole, cut;
	crew_init(&whole, k, g, one, EXEC_train);
	crew_init(&cut, k, g, holder, mode);
	for (uint64_t m = 0; m < MICRO_BATCHES; m++) {
		double a = crew_train(&whole, m), b = crew_train(&cut, m);
		assert_memory_equal(&a, &b, sizeof a);
	}
	for (uint32_t s = 0; s < g->n_shards; s++)
		same_part(&whole, &cut, s, PARAMS_grad);
	for (uint32_t i = 0; i < cut.n_peers; i++)
		assert_int_equal(params_adamw(cut.peers[i].p, &adamw, NULL, NULL), ERR_OK);
	assert_int_equal(params_adamw(whole.peers[0].p, &adamw, NULL, NULL), ERR_OK);
	for (uint32_t s = 0; s < g->n_shards; s++)
		for (int part = PARAMS_value; part <= PARAMS_v; part++)
			same_part(&whole, &cut, s, (enum params_part)part);
	crew_release(&whole);
	crew_release(&cut);
	free(one);
}

static void cuts_of_a_gpt_change_no_bit(void **state)
{
	(void)state;
	static const struct {
		bool tied;
		uint32_t layers, holder[4];
	} cuts[] = {
		{false, 3, {0, 0, 0}},
		{false, 3, {0, 1, 1}},
		{false, 3, {0, 0, 1}},
		{false, 3, {0, 1, 2}},
		{false, 3, {1, 0, 1}},
		{true, 3, {0, 1, 0}},
		{true, 4, {0, 1, 2, 0}},
		{true, 4, {0, 1, 1, 0}},
	};
	for (size_t b = 0; backend_at(b); b++) {
		struct help_kernels k = help_kernels_open(backend_at(b)->name);
		for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
			struct model_config m = help_graph_config(cuts[i].layers, cuts[i].tied);
			struct graph *g = help_graph_build(&m, 2, 5);
			same_as_whole(&k, g, cuts[i].holder, EXEC_train);
			same_as_whole(&k, g, cuts[i].holder, EXEC_recompute);
			graph_free(g);
		}
		help_kernels_close(&k);
	}
}

static void cuts_of_a_network_on_images_change_no_bit(void **state)
{
	(void)state;
	static const uint32_t apart[] = {0, 1};
	for (size_t b = 0; backend_at(b); b++) {
		struct help_kernels k = help_kernels_open(backend_at(b)->name);
		struct graph *g = help_graph_images(3);
		same_as_whole(&k, g, apart, EXEC_train);
		same_as_whole(&k, g, apart, EXEC_recompute);
		graph_free(g);
		help_kernels_close(&k);
	}
}

/* Random graphs, in which a tensor is read by several later shards, on peers that hold any of them.
 */
static void cuts_of_any_graph_change_no_bit(void **state)
{
	(void)state;
	for (size_t b = 0; backend_at(b); b++) {
		struct help_kernels k = help_kernels_open(backend_at(b)->name);
		for (uint64_t seed = 0; seed < 40; seed++) {
			struct graph *g = help_graph_random(seed, 2 + (uint32_t)(seed % 5));
			uint32_t holder[8];
			for (uint32_t s = 0; s < g->n_shards; s++)
				holder[s] = (uint32_t)rng_below(seed, 8, s, PEERS_MAX);
			same_as_whole(&k, g, holder, seed % 2 ? EXEC_recompute : EXEC_train);
			graph_free(g);
		}
		help_kernels_close(&k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_of_a_gpt_change_no_bit),
		cmocka_unit_test(cuts_of_a_network_on_images_change_no_bit),
		cmocka_unit_test(cuts_of_any_graph_change_no_bit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
