#include "base/alloc.h"
#include "kernels/exec_wire.h"

/* ---- sizes */

uint64_t exec_wire_input_size(const struct graph *g, const struct backend *b, uint32_t tensor)
{
	if (tensor == GRAPH_NONE ||
		(tensor != g->tokens_in && tensor != g->images_in && tensor != g->targets_in))
		return 0;
	const struct tensor *t = &g->tensors[tensor];
	return shape_count(&t->shape) * (t->dtype == DTYPE_token ? sizeof(int32_t) : b->real_size);
}

uint64_t exec_wire_inputs_size(const struct graph *g, const struct backend *b)
{
	return exec_wire_input_size(g, b, g->tokens_in) + exec_wire_input_size(g, b, g->images_in);
}

/* ---- wiring */

struct view exec_wire_value(const struct exec *x, uint32_t tensor)
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
		return exec_wire_value(x, tensor);
	return (struct view){x->arena, x->plan.again[tensor]};
}

struct view exec_wire_grad(const struct exec *x, uint32_t tensor)
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
	struct view (*view)(const struct exec *, uint32_t) = again ? late_view : exec_wire_value;
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
	c->grad_out = exec_wire_grad(x, n->out);
	if (def->backward_out)
		c->out = late_view(x, n->out);
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (def->backward_in >> i & 1)
			c->in[i] = late_view(x, n->in[i]);
		if (def->gradient_in >> i & 1)
			c->grad_in[i] = exec_wire_grad(x, n->in[i]);
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
				!exec_wire_input_size(g, x->backend, n->in[j]))
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

enum err exec_wire(struct exec *x, struct why *why)
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
		e = x->backend->alloc(
			x->device, exec_wire_inputs_size(x->g, x->backend), &x->inputs);
	if (!e)
		e = x->backend->alloc(
			x->device, exec_wire_input_size(g, x->backend, g->targets_in), &x->targets);
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
