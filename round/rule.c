#include "round/rule.h"
#include <string.h>
#include "base/buf.h"
#include "compress/dct.h"
#include "compress/floats.h"
#include "round/weighed.h"

static const struct rule_row *const rows[] = {
#define X(name) &rule_##name,
	RULE_LIST(X)
#undef X
};
#define N_ROWS (sizeof rows / sizeof rows[0])

enum err rule_find(
	const char *name, double lr, double momentum, struct rule_params *out, struct why *why)
{
	struct buf list;
	buf_init(&list, 1000);
	for (size_t i = 0; i < N_ROWS; i++) {
		if (!strcmp(rows[i]->name, name)) {
			buf_release(&list);
			*out = (struct rule_params){rows[i], lr, momentum};
			return ERR_OK;
		}
		buf_printf(&list, " %s", rows[i]->name);
	}
	enum err err =
		err_why(why, ERR_unsupported, "there is no rule \"%s\"; this program knows:%s",
			name, buf_ok(&list) ? (const char *)list.data : " others");
	buf_release(&list);
	return err;
}

enum err rule_suits(const struct rule_params *p, const struct codec_params *codec, struct why *why)
{
	if (!p->row->parameters || codec_lossless(codec))
		return ERR_OK;
	char name[CODEC_NAME_MAX];
	codec_describe(codec, name);
	return err_why(why, ERR_unsupported,
		"rule %s averages parameters, which codec %s would distort: use "
		"{\"select\": \"all\", \"values\": \"f32\"} without dct",
		p->row->name, name);
}

/* ---- the step */

void rule_descend(const struct rule_params *p, const struct rule_block *b)
{
	for (size_t i = 0; i < b->n; i++)
		b->params[i] = (float)((double)b->params[i] - p->lr * b->delta[i]);
}

static enum err check_block(const struct rule_block *b, size_t first, struct why *why)
{
	for (size_t i = 0; i < b->n; i++)
		if (!floats_finite(b->params[i]) || (b->momentum && !floats_finite(b->momentum[i])))
			return err_why(why, ERR_not_finite,
				"value %zu of the outcome is beyond what a float holds", first + i);
	return ERR_OK;
}

/* D is what is merged. */
static enum err step(const struct rule_params *p, const struct merge_config *config,
	struct rule_state *state, struct why *why)
{
	const bool dct = config->inputs[0].vector->params.dct;
	struct merge *m;
	struct merge_chunk c;
	enum err err = merge_new(config, &m, why);
	while (!err && merge_next(m, &c)) {
		if (dct)
			dct_inverse_double(c.value, c.len);
		const struct rule_block b = {c.len, c.value, state->params + c.first,
			state->momentum ? state->momentum + c.first : NULL};
		p->row->step(p, &b);
		err = check_block(&b, c.first, why);
	}
	merge_free(m);
	return err;
}

enum err rule_apply(const struct rule_params *p, const struct rule_input *inputs, size_t count,
	struct rule_state *state, struct why *why)
{
	if (count == 0)
		return ERR_OK;
	struct weighed w;
	enum err err = weighed_init(p, inputs, count, state->n, &w, why);
	if (!err)
		err = step(p, &w.config, state, why);
	weighed_release(&w);
	return err;
}

enum err rule_apply_merged(const struct rule_params *p, const struct codec_vector *merged,
	struct rule_state *state, struct why *why)
{
	const struct merge_input one = {.vector = merged, .weight = 1, .part = 1};
	const struct merge_config config = {.inputs = &one, .count = 1};
	if (merged->n != state->n)
		return err_why(why, ERR_shape, "a merged update has %zu values, wanted are %zu",
			merged->n, state->n);
	return step(p, &config, state, why);
}
