#include "kernels/exec.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "kernels/exec_wire.h"

/* ---- life */

static uint64_t bytes_of(const struct memplan *plan, const struct graph *g, const struct backend *b)
{
	return plan->total * b->real_size + exec_wire_inputs_size(g, b) +
	       exec_wire_input_size(g, b, g->targets_in);
}

static const enum memplan_goal goals[] = {
	[EXEC_train] = MEMPLAN_train,
	[EXEC_recompute] = MEMPLAN_recompute,
	[EXEC_loss] = MEMPLAN_loss,
	[EXEC_logits] = MEMPLAN_logits,
};

static enum err build(struct exec *x, struct why *why)
{
	uint32_t n_shards;
	const uint32_t *shards = params_shards(x->params, &n_shards);
	enum err e = params_match(x->params, x->g, why);
	if (!e)
		e = segment_cut(x->g, shards, n_shards, &x->segs, why);
	if (!e)
		e = memplan_make(&x->segs, goals[x->mode], &x->plan, why);
	return e ? e : exec_wire(x, why);
}

enum err exec_need(const struct backend *b, const struct graph *g, enum exec_mode mode,
	uint64_t *bytes, struct why *why)
{
	struct segments all = {0};
	struct memplan plan = {0};
	enum err e = segment_cut(g, NULL, 0, &all, why);
	if (!e)
		e = memplan_make(&all, goals[mode], &plan, why);
	if (!e)
		*bytes = bytes_of(&plan, g, b);
	memplan_release(&plan);
	segment_release(&all);
	return e;
}

enum err exec_new(const struct graph *g, struct params *p, enum exec_mode mode, struct exec **out,
	struct why *why)
{
	if (mode <= EXEC_recompute && !params_training(p))
		return err_why(
			why, ERR_state, "these parameters have no gradient: made for inference");
	struct exec *x = alloc_try(1, sizeof *x);
	if (!x)
		return err_why(why, ERR_nomem, "out of memory for an executor");
	x->g = g;
	x->params = p;
	x->backend = params_backend(p);
	x->device = params_device(p);
	x->mode = mode;
	x->passes = EXEC_NOT_BEGUN;
	enum err e = build(x, why);
	if (e) {
		exec_free(x);
		return e;
	}
	*out = x;
	return ERR_OK;
}

void exec_free(struct exec *x)
{
	if (!x)
		return;
	x->backend->free(x->device, x->arena);
	x->backend->free(x->device, x->inputs);
	x->backend->free(x->device, x->targets);
	segment_release(&x->segs);
	memplan_release(&x->plan);
	free(x->forward);
	free(x->again);
	free(x->backward);
	free(x->has_value);
	free(x->has_grad);
	free(x);
}

uint64_t exec_bytes(const struct exec *x)
{
	return bytes_of(&x->plan, x->g, x->backend);
}

const struct segments *exec_segments(const struct exec *x)
{
	return &x->segs;
}

/* ---- a micro-batch begins */

static enum err check_tokens(const struct exec *x, const struct node *n, const int32_t *tokens,
	uint64_t count, struct why *why)
{
	const struct op_def *def = op_def(n->op);
	int64_t limit = def->token_limit(x->g, n), least = def->token_skip ? INT32_MIN : 0;
	for (uint64_t i = 0; i < count; i++)
		if (tokens[i] < least || tokens[i] >= limit)
			return err_why(why, ERR_range,
				"token %d at place %llu of the batch: the vocabulary of this model "
				"ends at "
				"%lld; was the data prepared with another tokenizer?",
				tokens[i], (unsigned long long)i, (long long)limit - 1);
	return ERR_OK;
}

static enum err check_node(
	const struct exec *x, const struct node *n, const struct exec_batch *b, struct why *why)
{
	const struct op_def *def = op_def(n->op);
	if (def->context && (uint64_t)b->past + x->g->seq > def->context(x->g, n))
		return err_why(why, ERR_range, "%u tokens after %u: the model's context holds %u",
			x->g->seq, b->past, def->context(x->g, n));
	for (uint32_t i = 0; i < n->n_in; i++) {
		assert(n->in[i] != x->g->images_in || b->images);
		if (!(def->token_in >> i & 1))
			continue;
		const int32_t *tokens = n->in[i] == x->g->tokens_in ? b->tokens : b->targets;
		assert(tokens);
		uint64_t count = shape_count(&x->g->tensors[n->in[i]].shape);
		enum err e = check_tokens(x, n, tokens, count, why);
		if (e)
			return e;
	}
	return ERR_OK;
}

static enum err check_batch(const struct exec *x, const struct exec_batch *b, struct why *why)
{
	assert(x->mode == EXEC_logits || (!b->cache && !b->past));
	assert(b->cache ? kvcache_batch(b->cache) == x->g->batch : !b->past);
	if (b->cache && (uint64_t)b->past + x->g->seq > kvcache_capacity(b->cache))
		return err_why(why, ERR_range, "%u tokens after %u: the cache holds %u", x->g->seq,
			b->past, kvcache_capacity(b->cache));
	for (uint32_t i = 0; i < x->g->n_nodes; i++) {
		enum err e =
			x->forward[i].node ? check_node(x, x->forward[i].node, b, why) : ERR_OK;
		if (e)
			return e;
	}
	return ERR_OK;
}

static void set_calls(struct exec *x, const struct exec_batch *b)
{
	uint32_t attention = 0;
	for (uint32_t i = 0; i < x->g->n_nodes; i++) {
		struct kernel_call *c = &x->forward[i];
		c->loss_rows = x->again[i].loss_rows = x->backward[i].loss_rows = b->loss_rows;
		c->past = b->past;
		c->train = exec_trains(x) && !b->evaluate;
		if (x->g->nodes[i].op != OP_attention)
			continue;
		c->cache = b->cache ? kvcache_view(b->cache, attention) : (struct view){NULL, 0};
		c->cache_len = b->cache ? kvcache_capacity(b->cache) : 0;
		attention++;
	}
}

enum err exec_begin(struct exec *x, const struct exec_batch *b, struct why *why)
{
	x->passes = EXEC_NOT_BEGUN;
	enum err e = check_batch(x, b, why);
	if (e)
		return e;
	const void *inputs = x->g->images_in != GRAPH_NONE ? b->images : b->tokens;
	if (inputs)
		x->backend->write(
			x->device, x->inputs, 0, inputs, exec_wire_inputs_size(x->g, x->backend));
	if (b->targets)
		x->backend->write(x->device, x->targets, 0, b->targets,
			exec_wire_input_size(x->g, x->backend, x->g->targets_in));
	set_calls(x, b);
	x->evaluates = b->evaluate;
	memset(x->has_value, 0, x->g->n_tensors * sizeof *x->has_value);
	memset(x->has_grad, 0, x->g->n_tensors * sizeof *x->has_grad);
	x->passes = 0;
	return ERR_OK;
}

/* ---- what crosses a border */

static bool listed(const uint32_t *list, uint32_t n, uint32_t tensor)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i] == tensor)
			return true;
	return false;
}

/* The segment that the next or the last backward pass is over. */
static const struct segment *backward_segment(const struct exec *x, uint32_t pass)
{
	assert(exec_trains(x) && !x->evaluates && pass >= x->segs.n && pass < 2 * x->segs.n);
	return &x->segs.at[2 * x->segs.n - 1 - pass];
}

static void put(struct exec *x, struct view to, uint32_t tensor, const void *reals)
{
	size_t size = x->backend->real_size;
	x->backend->write(x->device, to.mem, to.at * size, reals,
		shape_count(&x->g->tensors[tensor].shape) * size);
}

static void get(struct exec *x, struct view from, uint64_t n, void *reals)
{
	size_t size = x->backend->real_size;
	x->backend->read(x->device, from.mem, from.at * size, reals, n * size);
}

void exec_put(struct exec *x, uint32_t tensor, const void *reals)
{
	assert(x->passes < x->segs.n);
	const struct segment *seg = &x->segs.at[x->passes];
	assert(listed(seg->in, seg->n_in, tensor));
	put(x, exec_wire_value(x, tensor), tensor, reals);
	x->has_value[tensor] = true;
}

void exec_get(struct exec *x, uint32_t tensor, uint64_t first, uint64_t n, void *reals)
{
	assert(x->passes != EXEC_NOT_BEGUN && x->passes > 0 && x->passes <= x->segs.n);
	const struct segment *seg = &x->segs.at[x->passes - 1];
	bool logits = tensor == x->g->logits && !exec_trains(x);
	assert(x->has_value[tensor] && (logits || listed(seg->out, seg->n_out, tensor)));
	assert(first + n <= shape_count(&x->g->tensors[tensor].shape));
	struct view from = exec_wire_value(x, tensor);
	from.at += first;
	get(x, from, n, reals);
}

void exec_put_grad(struct exec *x, uint32_t tensor, const void *reals)
{
	const struct segment *seg = backward_segment(x, x->passes);
	assert(listed(seg->in, seg->n_in, tensor) || listed(seg->out, seg->n_out, tensor));
	assert(x->plan.differs[tensor]);
	put(x, exec_wire_grad(x, tensor), tensor, reals);
	x->has_grad[tensor] = true;
}

void exec_get_grad(struct exec *x, uint32_t tensor, void *reals)
{
	const struct segment *seg = backward_segment(x, x->passes - 1);
	assert(listed(seg->in, seg->n_in, tensor) && x->has_grad[tensor]);
	get(x, exec_wire_grad(x, tensor), shape_count(&x->g->tensors[tensor].shape), reals);
}

double exec_loss(struct exec *x)
{
	double as_double;
	float as_float;
	assert(x->passes != EXEC_NOT_BEGUN && x->has_value[x->g->loss]);
	bool wide = x->backend->real_size == sizeof as_double;
	get(x, exec_wire_value(x, x->g->loss), 1, wide ? (void *)&as_double : (void *)&as_float);
	return wide ? as_double : (double)as_float;
}

/* ---- passes */

void exec_forward(struct exec *x, uint32_t segment)
{
	assert(x->passes == segment && segment < x->segs.n);
	const struct segment *seg = &x->segs.at[segment];
	for (uint32_t i = 0; i < seg->n_in; i++)
		assert(x->has_value[seg->in[i]]);
	for (uint32_t i = seg->first_node; i < seg->first_node + seg->n_nodes; i++)
		if (x->forward[i].node) {
			x->backend->run(x->device, &x->forward[i]);
			x->has_value[x->g->nodes[i].out] = true;
		}
	x->passes++;
}

static bool grad_begun(struct exec *x, uint32_t tensor)
{
	if (x->g->tensors[tensor].role == TENSOR_param)
		return params_grad_begun(x->params, tensor);
	bool begun = x->has_grad[tensor];
	x->has_grad[tensor] = true;
	return begun;
}

static void backward_node(struct exec *x, struct kernel_call *c)
{
	assert(x->has_grad[c->node->out]);
	c->accumulate = 0;
	for (uint32_t i = 0; i < c->node->n_in; i++)
		if (c->grad_in[i].mem && grad_begun(x, c->node->in[i]))
			c->accumulate |= 1u << i;
	x->backend->run(x->device, c);
}

static void seed_loss(struct exec *x)
{
	const double as_double = 1;
	const float as_float = 1;
	bool wide = x->backend->real_size == sizeof as_double;
	put(x, exec_wire_grad(x, x->g->loss), x->g->loss,
		wide ? (const void *)&as_double : (const void *)&as_float);
	x->has_grad[x->g->loss] = true;
}

void exec_backward(struct exec *x, uint32_t segment)
{
	const struct segment *seg = backward_segment(x, x->passes);
	assert(seg == &x->segs.at[segment]);
	for (uint32_t end = seg->first_node + seg->n_nodes; end > seg->first_node;) {
		uint32_t first = memplan_group(x->g, seg, end - 1);
		for (uint32_t i = first; i < end; i++)
			if (x->again[i].node)
				x->backend->run(x->device, &x->again[i]);
		while (end > first) {
			struct kernel_call *c = &x->backward[--end];
			if (c->node && c->node->out == x->g->loss)
				seed_loss(x);
			if (c->node)
				backward_node(x, c);
		}
	}
	x->passes++;
}

enum err exec_whole(struct exec *x, const struct exec_batch *b, double *loss, struct why *why)
{
	assert(x->segs.n == 1 && x->segs.at[0].n_shards == x->g->n_shards);
	enum err e = exec_begin(x, b, why);
	if (e)
		return e;
	exec_forward(x, 0);
	if (exec_trains(x) && !b->evaluate)
		exec_backward(x, 0);
	if (loss && x->mode != EXEC_logits)
		*loss = exec_loss(x);
	return ERR_OK;
}
