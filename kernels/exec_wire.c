#include <stdlib.h>
#include "base/alloc.h"
#include "kernels/exec_in.h"

/* ---- sizes */

uint64_t exec_input_size(const struct graph *g, const struct backend *b, uint32_t tensor)
{
	if (tensor == GRAPH_NONE ||
		(tensor != g->tokens_in && tensor != g->images_in && tensor != g->targets_in))
		return 0;
	const struct tensor *t = &g->tensors[tensor];
	return shape_count(&t->shape) * (t->dtype == DTYPE_token ? sizeof(int32_t) : b->real_size);
}

uint64_t exec_inputs_size(const struct graph *g, const struct backend *b)
{
	return exec_input_size(g, b, g->tokens_in) + exec_input_size(g, b, g->images_in);
}

static uint64_t bytes_of(const struct memplan *plan, const struct graph *g, const struct backend *b)
{
	return plan->total * b->real_size + exec_inputs_size(g, b) +
	       exec_input_size(g, b, g->targets_in);
}

/* ---- wiring */

struct view exec_value_view(const struct exec *x, uint32_t tensor)
{
	const struct tensor *t = &x->g->tensors[tensor];
	switch (t->role) {
	case TENSOR_param: return params_view(x->params, t->shard, PARAMS_value, t->offset);
	case TENSOR_input:
		return (struct view){tensor == x->g->targets_in ? x->targets : x->inputs, 0};
	case TENSOR_value: break;
	}
	return (struct view){x->arena, x->plan.value[tensor]};
}

/* As backward finds it. */
static struct view late_view(const struct exec *x, uint32_t tensor)
{
	if (x->plan.again[tensor] == MEMPLAN_NONE)
		return exec_value_view(x, tensor);
	return (struct view){x->arena, x->plan.again[tensor]};
}

struct view exec_grad_view(const struct exec *x, uint32_t tensor)
{
	const struct tensor *t = &x->g->tensors[tensor];
	if (!x->plan.differs[tensor])
		return (struct view){NULL, 0};
	if (t->role == TENSOR_param)
		return params_view(x->params, t->shard, PARAMS_grad, t->offset);
	return (struct view){x->arena, x->plan.grad[tensor]};
}

/* Absent where no backward follows. */
static struct view saved_view(const struct exec *x, const struct node *n)
{
	uint64_t at = x->plan.saved[n - x->g->nodes];
	return at == MEMPLAN_NONE ? (struct view){NULL, 0} : (struct view){x->arena, at};
}

/* The first time, or again for backward. */
static void wire_forward(struct exec *x, const struct node *n, bool again, struct kernel_call *c)
{
	struct view (*view)(const struct exec *, uint32_t) = again ? late_view : exec_value_view;
	*c = (struct kernel_call){
		.graph = x->g, .node = n, .train = again, .again = again, .out = view(x, n->out)};
	for (uint32_t i = 0; i < n->n_in; i++)
		c->in[i] = view(x, n->in[i]);
	if (x->plan.reruns[n - x->g->nodes] == again)
		c->saved = saved_view(x, n);
}

static void wire_backward(struct exec *x, const struct node *n, struct kernel_call *c)
{
	const struct op_def *def = op_def(n->op);
	*c = (struct kernel_call){.graph = x->g, .node = n, .backward = true};
	c->saved = saved_view(x, n);
	c->grad_out = exec_grad_view(x, n->out);
	if (def->backward_out)
		c->out = late_view(x, n->out);
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (def->backward_in >> i & 1)
			c->in[i] = late_view(x, n->in[i]);
		if (def->gradient_in >> i & 1)
			c->grad_in[i] = exec_grad_view(x, n->in[i]);
	}
}

static enum err wire_segment(struct exec *x, const struct segment *seg, struct why *why)
{
	const struct graph *g = x->g;
	for (uint32_t i = seg->first_node; i < seg->first_node + seg->n_nodes; i++) {
		const struct node *n = &g->nodes[i];
		if (!x->plan.runs[i])
			continue;
		if (!x->backend->supports(x->device, g, n))
			return err_why(why, ERR_unsupported, "the backend %s does not do %s",
				x->backend->name, g->tensors[n->out].name);
		for (uint32_t j = 0; j < n->n_in; j++)
			if (g->tensors[n->in[j]].role == TENSOR_input &&
				!exec_input_size(g, x->backend, n->in[j]))
				return err_why(why, ERR_unsupported,
					"input %s of the graph is neither its tokens nor its "
					"images nor its targets",
					g->tensors[n->in[j]].name);
		wire_forward(x, n, false, &x->forward[i]);
		if (x->plan.reruns[i])
			wire_forward(x, n, true, &x->again[i]);
		if (exec_trains(x) && x->plan.differs[n->out])
			wire_backward(x, n, &x->backward[i]);
	}
	return ERR_OK;
}

static enum err wire(struct exec *x, struct why *why)
{
	const struct graph *g = x->g;
	x->forward = alloc_try(g->n_nodes, sizeof *x->forward);
	x->again = alloc_try(g->n_nodes, sizeof *x->again);
	x->backward = alloc_try(g->n_nodes, sizeof *x->backward);
	x->has_value = alloc_try(g->n_tensors, sizeof *x->has_value);
	x->has_grad = alloc_try(g->n_tensors, sizeof *x->has_grad);
	enum err e = ERR_nomem;
	if (x->forward && x->again && x->backward && x->has_value && x->has_grad)
		e = x->backend->alloc(x->device, x->plan.total * x->backend->real_size, &x->arena);
	if (!e)
		e = x->backend->alloc(x->device, exec_inputs_size(x->g, x->backend), &x->inputs);
	if (!e)
		e = x->backend->alloc(
			x->device, exec_input_size(g, x->backend, g->targets_in), &x->targets);
	if (e)
		return err_why(why, e,
			"out of memory: a micro-batch of %u x %u tokens needs %.1f MiB on the %s "
			"device "
			"beside the parameters; take a smaller one (train.micro_batch)",
			g->batch, g->seq, (double)exec_bytes(x) / 1048576, x->backend->name);
	for (uint32_t i = 0; i < x->segs.n && !e; i++)
		e = wire_segment(x, &x->segs.at[i], why);
	return e;
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
	return e ? e : wire(x, why);
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
