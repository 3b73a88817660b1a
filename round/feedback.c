#include "round/feedback.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "round/section.h"

/*
 * e holds v from the cut on: what of v the ledger lists is taken off when it is listed, and nothing
 * need be taken off when it is not.  So one vector serves for both.
 */
struct feedback {
	struct feedback_config how;
	float *base;
	float *e;   /* NULL when vectors are parameters */
	float *cut; /* c, while something is in flight */
	bool in_flight;
	uint32_t k;               /* of the next cut */
	struct codec_vector sent; /* C, where there is an e */
};

static bool keeps_error(const struct feedback *f)
{
	return !f->how.rule->parameters;
}

enum err feedback_new(const struct feedback_config *config, const float *g, struct feedback **out)
{
	struct feedback *f = alloc_must_zero(1, sizeof *f);
	f->how = *config;
	f->k = config->codec.k;
	f->base = alloc_try(config->n, sizeof *f->base);
	f->cut = alloc_try(config->n, sizeof *f->cut);
	if (keeps_error(f))
		f->e = alloc_try(config->n, sizeof *f->e);
	if (!f->base || !f->cut || (keeps_error(f) && !f->e)) {
		feedback_free(f);
		return ERR_nomem;
	}
	memcpy(f->base, g, config->n * sizeof *g);
	*out = f;
	return ERR_OK;
}

void feedback_free(struct feedback *f)
{
	if (!f)
		return;
	free(f->base);
	free(f->e);
	free(f->cut);
	codec_release(&f->sent);
	free(f);
}

static void land(struct feedback *f)
{
	f->in_flight = false;
	codec_release(&f->sent);
}

/* ---- the cut */

/* Reads what is or was sent, so that it can be taken off when it is listed. */
static enum err keep_sent(struct feedback *f, const uint8_t *bytes, size_t n, struct why *why)
{
	struct buf planes;
	buf_init(&planes, codec_bound(&f->how.codec, f->how.n));
	buf_put(&planes, bytes, n);
	enum err err = ERR_OK;
	if (!buf_ok(&planes))
		err = err_why(why, n > planes.max ? ERR_toobig : ERR_nomem,
			"what was sent of shard %" PRIu32 " has %zu bytes, more than a "
			"contribution or memory holds",
			f->how.shard, n);
	if (!err)
		err = codec_open(&f->how.codec, f->how.n, &planes, &f->sent, why);
	buf_release(&planes);
	return err;
}

static enum err encode(
	struct feedback *f, uint64_t seed, const float *v, struct planes *planes, struct why *why)
{
	struct codec_params codec = f->how.codec;
	codec.k = f->k;
	if (select_row(codec.select)->takes_seed)
		codec.seed = seed;
	enum err err = codec_encode(&codec, v, f->how.n, NULL, planes, why);
	if (err || !keeps_error(f))
		return err;
	return keep_sent(f, planes->bytes.data, planes->bytes.len, why);
}

enum err feedback_cut(
	struct feedback *f, uint64_t seed, const float *w, struct planes *planes, struct why *why)
{
	if (f->in_flight)
		return err_why(why, ERR_state,
			"shard %" PRIu32 " has a contribution in flight already", f->how.shard);
	float *v = f->cut; // not in use yet
	for (size_t i = 0; i < f->how.n && keeps_error(f); i++)
		v[i] = (float)(f->how.decay * (double)f->e[i] +
			       ((double)f->base[i] - (double)w[i]));
	enum err err = encode(f, seed, keeps_error(f) ? v : w, planes, why);
	if (err) {
		land(f);
		return err;
	}
	if (keeps_error(f)) {
		f->cut = f->e;
		f->e = v;
	}
	memcpy(f->cut, w, f->how.n * sizeof *w);
	f->in_flight = true;
	return ERR_OK;
}

bool feedback_in_flight(const struct feedback *f)
{
	return f->in_flight;
}

void feedback_keep(struct feedback *f, uint32_t k)
{
	assert(k >= 1 && k <= f->how.codec.k);
	f->k = k;
}

/* ---- the join */

enum err feedback_join(struct feedback *f, bool accepted, const float *g, float *w)
{
	const float *from = f->in_flight ? f->cut : f->base;
	if (f->in_flight && accepted && keeps_error(f) && codec_add(&f->sent, -1, f->e))
		return ERR_nomem;
	// Where nothing was trained since, W becomes G to the bit, also where it is -0.0.
	for (size_t i = 0; i < f->how.n; i++)
		w[i] = w[i] == from[i] ? g[i] : g[i] + (w[i] - from[i]);
	memcpy(f->base, g, f->how.n * sizeof *g);
	land(f);
	return ERR_OK;
}

void feedback_rebase(struct feedback *f, const float *g, float *w)
{
	assert(!f->in_flight);
	memcpy(w, g, f->how.n * sizeof *g);
	memcpy(f->base, g, f->how.n * sizeof *g);
}

void feedback_reset(struct feedback *f, const float *g, float *w)
{
	memcpy(w, g, f->how.n * sizeof *g);
	memcpy(f->base, g, f->how.n * sizeof *g);
	if (keeps_error(f))
		memset(f->e, 0, f->how.n * sizeof *f->e);
	land(f);
}

double feedback_error_norm(const struct feedback *f)
{
	double sum = 0;
	for (size_t i = 0; keeps_error(f) && i < f->how.n; i++)
		sum += (double)f->e[i] * (double)f->e[i];
	return sqrt(sum);
}

/* ---- saving: "cut.N" is there exactly when something is in flight */

static struct section_vector section(const struct feedback *f, const char *what)
{
	return (struct section_vector){what, f->how.shard, f->how.n};
}

enum err feedback_save(const struct feedback *f, struct statefile_out *to, struct why *why)
{
	struct section_vector base = section(f, "base"), error = section(f, "error");
	struct section_vector cut = section(f, "cut");
	enum err err = section_put(to, &base, f->base, why);
	if (!err && keeps_error(f))
		err = section_put(to, &error, f->e, why);
	if (!err && f->in_flight)
		err = section_put(to, &cut, f->cut, why);
	if (err || !f->in_flight || !keeps_error(f))
		return err;
	char name[SECTION_NAME];
	section_name("sent", f->how.shard, name);
	return statefile_add(to, name, f->sent.planes.data, f->sent.planes.len, why);
}

/* A section of any length; NULL when there is none. */
static const struct statefile_section *find(
	const struct statefile *from, const char *what, uint32_t shard)
{
	char name[SECTION_NAME];
	section_name(what, shard, name);
	for (size_t i = 0; i < statefile_count(from); i++)
		if (!strcmp(statefile_at(from, i)->name, name))
			return statefile_at(from, i);
	return NULL;
}

static enum err load_sent(struct feedback *f, const struct statefile *from, struct why *why)
{
	const struct statefile_section *sent = find(from, "sent", f->how.shard);
	if (!sent)
		return err_why(why, ERR_missing,
			"a saved state has a cut of shard %" PRIu32 " and not what was sent of it",
			f->how.shard);
	return keep_sent(f, sent->bytes, sent->len, why);
}

enum err feedback_load(struct feedback *f, const struct statefile *from, struct why *why)
{
	struct section_vector base = section(f, "base"), error = section(f, "error");
	struct section_vector cut = section(f, "cut");
	land(f);
	enum err err = section_get(from, &base, f->base, why);
	if (!err && keeps_error(f))
		err = section_get(from, &error, f->e, why);
	if (err || !find(from, "cut", f->how.shard))
		return err;
	err = section_get(from, &cut, f->cut, why);
	if (!err && keeps_error(f))
		err = load_sent(f, from, why);
	f->in_flight = !err;
	return err;
}
