#include "compress/merge.h"
#include <stdlib.h>
#include "base/alloc.h"
#include "compress/chunks.h"
#include "compress/floats.h"
#include "compress/kept.h"

struct merge {
	const struct merge_config *config;
	struct codec_reader **readers; /* one for each input */
	double *sum, *parts;           /* of one chunk: weighted values, and parts of who sent */
	double total;                  /* parts of all */
};

/* ---- life */

static enum err check(const struct merge_config *c, struct why *why)
{
	if (c->count < 1)
		return err_why(why, ERR_shape, "there is nothing to merge");
	const struct codec_vector *first = c->inputs[0].vector;
	for (size_t i = 1; i < c->count; i++) {
		const struct codec_vector *v = c->inputs[i].vector;
		if (v->n != first->n || v->params.chunk != first->params.chunk ||
			v->params.dct != first->params.dct)
			return err_why(why, ERR_shape,
				"vector %zu has %zu values in %schunks of %u, the first %zu in "
				"%schunks of %u",
				i, v->n, v->params.dct ? "a DCT's " : "", v->params.chunk, first->n,
				first->params.dct ? "a DCT's " : "", first->params.chunk);
	}
	return ERR_OK;
}

void merge_free(struct merge *m)
{
	if (!m)
		return;
	for (size_t i = 0; m->readers && i < m->config->count; i++)
		codec_reader_free(m->readers[i]);
	free(m->readers);
	free(m->sum);
	free(m->parts);
	free(m);
}

static enum err take_memory(struct merge *m)
{
	const struct merge_config *c = m->config;
	uint32_t chunk = c->inputs[0].vector->params.chunk;
	m->sum = alloc_try(chunk, sizeof *m->sum);
	m->parts = alloc_try(chunk, sizeof *m->parts);
	m->readers = alloc_try(c->count, sizeof(*m->readers));
	if (!m->sum || !m->parts || !m->readers)
		return ERR_nomem;
	enum err err = ERR_OK;
	for (size_t i = 0; i < c->count && !err; i++)
		err = codec_reader_new(c->inputs[i].vector, &m->readers[i]);
	return err;
}

enum err merge_new(const struct merge_config *config, struct merge **out, struct why *why)
{
	*out = NULL;
	enum err err = check(config, why);
	if (err)
		return err;
	struct merge *m = alloc_must_zero(1, sizeof *m);
	m->config = config;
	for (size_t i = 0; i < config->count; i++)
		m->total += config->inputs[i].part;
	if (take_memory(m)) {
		merge_free(m);
		return err_why(why, ERR_nomem, "no memory to merge %zu vectors", config->count);
	}
	*out = m;
	return ERR_OK;
}

/* ---- chunks */

static void clear(struct merge *m, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++) {
		m->sum[i] = -0.0; // adding to it changes nothing, not even -0.0
		m->parts[i] = 0;
	}
}

static void add(struct merge *m, const struct merge_input *in, const struct codec_chunk *c)
{
	for (uint32_t j = 0; j < c->m; j++) {
		uint32_t at = c->place ? c->place[j] : j;
		m->sum[at] += in->weight * (double)c->value[j];
		m->parts[at] += in->part;
	}
}

static void divide(struct merge *m, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++) {
		double by = m->config->per_sender ? m->parts[i] : m->total;
		m->sum[i] = m->parts[i] > 0 ? m->sum[i] / by : 0;
	}
}

bool merge_next(struct merge *m, struct merge_chunk *out)
{
	struct codec_chunk c = {0};
	for (size_t i = 0; i < m->config->count; i++) {
		if (!codec_reader_next(m->readers[i], &c))
			return false;
		if (i == 0)
			clear(m, c.len);
		add(m, &m->config->inputs[i], &c);
	}
	divide(m, c.len);
	*out = (struct merge_chunk){c.first, c.len, m->sum};
	return true;
}

/* ---- as a vector of its own */

/* Nobody needs to be told where values are that all have at the same places. */
static bool same_places(const struct merge_config *c)
{
	const struct codec_params *first = &c->inputs[0].vector->params;
	bool same = !select_row(first->select)->sends_places;
	for (size_t i = 1; i < c->count; i++) {
		const struct codec_params *p = &c->inputs[i].vector->params;
		same = same && p->select == first->select && p->k == first->k &&
		       p->seed == first->seed;
	}
	return same;
}

struct codec_params merge_params(const struct merge_config *config, enum values values)
{
	struct codec_params p = config->inputs[0].vector->params;
	p.values = values;
	if (same_places(config))
		return p;
	p.select = SELECT_topk;
	p.k = p.chunk;
	p.threshold = 0;
	p.seed = 0;
	return p;
}

/* What comes out, as it is gathered. */
struct gather {
	const struct codec_params *p;
	const struct select_row *row;
	uint32_t *m;
	uint16_t *place; /* NULL: all are kept */
	float *value;
	size_t count;
};

static enum err take_room(struct gather *g, const struct merge_config *c, size_t n)
{
	size_t room = 0;
	for (size_t i = 0; i < c->count && room < n; i++)
		room += c->inputs[i].vector->count;
	room = room < n ? room : n;
	g->m = alloc_try(chunks_count(g->p, n), sizeof *g->m);
	g->value = alloc_try(room + 1, sizeof *g->value);
	if (g->row->choose)
		g->place = alloc_try(room + 1, sizeof *g->place);
	return g->m && g->value && (g->place || !g->row->choose) ? ERR_OK : ERR_nomem;
}

/* The places of a chunk that are kept, into place; how many. */
static uint32_t places_of(
	const struct gather *g, const struct merge_chunk *c, size_t chunk, uint16_t *place)
{
	if (!g->row->sends_places) {
		const struct select_from from = {.len = c->len,
			.k = chunks_k(g->p, c->len),
			.chunk = chunk,
			.seed = g->p->seed};
		return g->row->choose(&from, place);
	}
	uint32_t m = 0;
	for (uint32_t i = 0; i < c->len; i++)
		if (floats_magnitude((float)c->value[i]) >= FLOATS_NORMAL)
			place[m++] = (uint16_t)i;
	return m;
}

static enum err gather_chunk(
	struct gather *g, const struct merge_chunk *c, size_t chunk, struct why *why)
{
	uint16_t *place = g->place ? g->place + g->count : NULL;
	uint32_t m = place ? places_of(g, c, chunk, place) : c->len;
	float *value = g->value + g->count;
	for (uint32_t i = 0; i < m; i++) {
		value[i] = (float)c->value[place ? place[i] : i];
		if (!floats_finite(value[i]))
			return err_why(why, ERR_not_finite,
				"value %zu of what is merged is beyond what a float holds",
				c->first + (place ? place[i] : i));
	}
	g->m[chunk] = m;
	g->count += m;
	return ERR_OK;
}

static enum err encode(
	struct gather *g, struct merge *m, struct pool *pool, struct planes *to, struct why *why)
{
	const size_t n = m->config->inputs[0].vector->n;
	struct merge_chunk c;
	if (take_room(g, m->config, n))
		return err_why(why, ERR_nomem, "no memory to merge %zu values", n);
	for (size_t chunk = 0; merge_next(m, &c); chunk++) {
		enum err err = gather_chunk(g, &c, chunk, why);
		if (err)
			return err;
	}
	const struct kept kept = {.n = n,
		.count = g->count,
		.m = g->m,
		.place = g->row->sends_places ? g->place : NULL,
		.value = g->value};
	return kept_put(g->p, &kept, pool, to, why);
}

enum err merge_encode(const struct merge_config *config, enum values values, struct pool *pool,
	struct planes *to, struct why *why)
{
	struct merge *m;
	enum err err = merge_new(config, &m, why);
	if (err)
		return err;
	const struct codec_params p = merge_params(config, values);
	struct gather g = {.p = &p, .row = select_row(p.select)};
	planes_clear(to);
	err = encode(&g, m, pool, to, why);
	merge_free(m);
	free(g.m);
	free(g.place);
	free(g.value);
	return err;
}
