#include "model/spec.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#define TOKENS_MAX 1000000000000000 /* exact as a double, and more than anybody trains on */
#define LAYERS_MAX 4096             /* keeps the graph below GRAPH_NODES_MAX */

#define X(name) #name,
static const char *const builders[] = {BUILDER_LIST(X) NULL};
#undef X
static const char *const modes[] = {[SPEC_fixed] = "fixed", [SPEC_timed] = "timed", NULL};

/* ---- the members, section by section.  Each reader notes its mistakes and goes on.  What depends
 * on two members is checked only when both of them are right by themselves. */

static uint32_t get_u32(struct json_in *in, const char *name, uint32_t least, uint32_t most)
{
	return (uint32_t)json_get_int(in, name, least, most, NULL);
}

static uint32_t get_u32_or(
	struct json_in *in, const char *name, uint32_t least, uint32_t most, uint32_t fallback)
{
	const int64_t value = fallback;
	return (uint32_t)json_get_int(in, name, least, most, &value);
}

static double get_real_or(
	struct json_in *in, const char *name, double least, double most, double fallback)
{
	return json_get_real(in, name, least, most, &fallback);
}

/* A name of a run, rule or codec: it stands in logs, on the page and in file names. */
static void get_name(struct json_in *in, const char *name, char *out, size_t size)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_-.";
	const char *text = json_get_text(in, name, size - 1, NULL);
	size_t n = strlen(text);
	memcpy(out, text, n);
	out[n] = 0;
	const json_t *value = json_object_get(in->object, name);
	if (json_is_string(value) && !json_string_length(value))
		json_mistake(in, name, "must not be empty");
	if (strspn(out, allowed) != n)
		json_mistake(in, name, "may have letters, digits and the signs _ - . only");
}

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
	m->n_shards = get_u32_or(in, "shards", 1, most, 1);
	for (uint32_t i = 0; i < m->n_shards; i++)
		m->shard_first[i] = (uint32_t)((uint64_t)i * m->layers / m->n_shards);
}

static void read_model(struct json_in *in, struct model_config *m)
{
	static const bool tied = true;
	const char *builder = builders[json_get_choice(in, "builder", builders, NULL)];
	memcpy(m->builder, builder, strlen(builder) + 1);
	size_t before = in->mistakes->len;
	m->layers = get_u32(in, "layers", 1, LAYERS_MAX);
	read_shards(in, m, in->mistakes->len == before ? m->layers : LAYERS_MAX);
	before = in->mistakes->len;
	m->width = get_u32(in, "width", 1, 1u << 16);
	m->heads = get_u32(in, "heads", 1, 1u << 12);
	if (in->mistakes->len == before && m->width % m->heads)
		json_mistake(in, "width", "must be a multiple of heads: %u is not one of %u",
			m->width, m->heads);
	m->context = get_u32(in, "context", 1, 1u << 20);
	m->vocab = get_u32(in, "vocab", 2, 1u << 20);
	m->tied = json_get_flag(in, "tied", &tied);
}

/* context is 0 when it is not known. */
static void read_train(struct json_in *in, struct spec_train *t, uint32_t context)
{
	size_t before = in->mistakes->len;
	t->batch = get_u32(in, "batch", 1, 1u << 16);
	t->micro_batch = get_u32_or(in, "micro_batch", 1, 1u << 16, t->batch);
	if (in->mistakes->len == before && t->batch % t->micro_batch)
		json_mistake(in, "micro_batch", "must divide batch (%u), is %u", t->batch,
			t->micro_batch);
	t->seq = get_u32_or(in, "seq", 1, 1u << 20, context);
	if (context && t->seq > context)
		json_mistake(
			in, "seq", "must be at most model.context (%u), is %u", context, t->seq);

	static const int64_t none = 0;
	before = in->mistakes->len;
	t->warmup_tokens = (uint64_t)json_get_int(in, "warmup_tokens", 0, TOKENS_MAX, &none);
	t->total_tokens = (uint64_t)json_get_int(in, "total_tokens", 1, TOKENS_MAX, NULL);
	if (in->mistakes->len == before && t->warmup_tokens > t->total_tokens)
		json_mistake(in, "warmup_tokens", "must be at most total_tokens (%llu), is %llu",
			(unsigned long long)t->total_tokens, (unsigned long long)t->warmup_tokens);

	t->lr = json_get_real(in, "lr", 1e-9, 10, NULL);
	t->final_lr = get_real_or(in, "final_lr", 0, 1, 0.1);
	t->beta1 = get_real_or(in, "beta1", 0, 0.99999, 0.9);
	t->beta2 = get_real_or(in, "beta2", 0, 0.99999, 0.95);
	t->eps = get_real_or(in, "eps", 1e-16, 1, 1e-8);
	t->weight_decay = get_real_or(in, "weight_decay", 0, 10, 0.1);
	t->clip = get_real_or(in, "clip", 0, 1e9, 1);
}

/* The length of a round; the other mode's would be silently ignored, so that it is a mistake. */
static void read_length(struct json_in *in, struct spec_round *r)
{
	r->mode = (enum spec_mode)json_get_choice(in, "mode", modes, NULL);
	const char *word = json_string_value(json_object_get(in->object, "mode"));
	bool known = word && !strcmp(word, modes[r->mode]);
	const char *other = r->mode == SPEC_fixed ? "seconds" : "steps";
	if (known && r->mode == SPEC_fixed)
		r->steps = get_u32(in, "steps", 1, 1u << 24);
	else if (known)
		r->seconds = json_get_real(in, "seconds", 0.1, 7 * 86400.0, NULL);
	else
		(void)get_real_or(in, "steps", 0, 1e9, 0);
	if (json_object_get(in->object, other)) {
		(void)get_real_or(in, other, 0, 1e9, 0);
		if (known)
			json_mistake(in, other, "belongs to another mode than \"%s\"", word);
	}
}

static void read_round(struct json_in *in, struct spec_round *r)
{
	read_length(in, r);
	r->peers_min = get_u32_or(in, "peers_min", 1, 100000, 1);
	r->quorum = get_real_or(in, "quorum", 0.01, 1, r->mode == SPEC_fixed ? 1 : 0.67);
	r->validate_every = get_u32_or(in, "validate_every", 0, 1u << 24, 10);
	r->snapshot_every = get_u32_or(in, "snapshot_every", 1, 1u << 24, 20);
}

static void read_outer(struct json_in *in, struct spec_outer *o)
{
	get_name(in, "rule", o->rule, sizeof o->rule);
	o->lr = get_real_or(in, "lr", 0, 100, 1);
	o->momentum = get_real_or(in, "momentum", 0, 0.9999, 0);
}

static void read_codec(struct json_in *in, struct spec_codec *c)
{
	get_name(in, "name", c->name, sizeof c->name);
	size_t before = in->mistakes->len;
	c->chunk = get_u32_or(in, "chunk", 1, 1u << 16, 4096);
	c->k = get_u32_or(in, "k", 1, 1u << 16, 64);
	if (in->mistakes->len == before && c->k > c->chunk)
		json_mistake(in, "k", "must be at most codec.chunk (%u), is %u", c->chunk, c->k);
	c->decay = get_real_or(in, "decay", 0, 1, 0.95);
}

/* ---- the whole */

/* Opens a section; false when it is absent or no object, which json_get_object has noted. */
static bool section(struct json_in *top, const char *name, bool required, struct json_in *in)
{
	const json_t *object = json_get_object(top, name, required);
	if (object)
		json_in_init(in, object, name, top->mistakes);
	return object != NULL;
}

static void read_sections(struct json_in *top, struct spec *s)
{
	struct json_in in;
	uint32_t context = 0;
	size_t before = top->mistakes->len;
	if (section(top, "model", true, &in)) {
		read_model(&in, &s->model);
		context = top->mistakes->len == before ? s->model.context : 0;
		json_in_finish(&in);
	}
	if (section(top, "data", false, &in)) {
		s->manifest = json_get_hash(&in, "manifest", false);
		json_in_finish(&in);
	}
	if (section(top, "train", true, &in)) {
		read_train(&in, &s->train, context);
		json_in_finish(&in);
	}
	if (section(top, "round", true, &in)) {
		read_round(&in, &s->round);
		json_in_finish(&in);
	}
	if (section(top, "outer", true, &in)) {
		read_outer(&in, &s->outer);
		json_in_finish(&in);
	}
	if (section(top, "codec", true, &in)) {
		read_codec(&in, &s->codec);
		json_in_finish(&in);
	}
}

static void read_all(const json_t *doc, struct spec *s, struct buf *mistakes)
{
	struct json_in top;
	json_in_init(&top, doc, "", mistakes);
	int64_t version = json_get_int(&top, "shoal", 1, 1 << 20, NULL);
	if (version > SPEC_VERSION)
		json_mistake(&top, "shoal",
			"is %lld, this program reads specs up to version %d: install a newer one",
			(long long)version, SPEC_VERSION);
	get_name(&top, "name", s->name, sizeof s->name);
	s->seed = (uint64_t)json_get_int(&top, "seed", 0, INT64_MAX, NULL);
	s->init = json_get_hash(&top, "init", false);
	read_sections(&top, s);
	json_in_finish(&top);

	/* Averaging parameters works on the parameters themselves, and nothing else does. */
	bool average = !strcmp(s->outer.rule, "average"), raw = !strcmp(s->codec.name, "raw");
	if (average != raw && s->outer.rule[0] && s->codec.name[0])
		json_mistake(&top, "codec",
			"rule \"average\" and codec \"raw\" need each other: here are \"%s\" and "
			"\"%s\"",
			s->outer.rule, s->codec.name);
}

/* The first line of the mistakes and how many follow, as the one sentence. */
static enum err first_mistake(const struct buf *mistakes, struct why *why)
{
	const char *text = (const char *)mistakes->data;
	size_t n = mistakes->len, lines = 0, first = n;
	for (size_t i = n; i-- > 0;)
		if (text[i] == '\n') {
			first = i;
			lines++;
		}
	if (lines < 2)
		return err_why(why, ERR_range, "%.*s", (int)first, text);
	return err_why(why, ERR_range, "%.*s (and %zu more)", (int)first, text, lines - 1);
}

static enum err from_document(
	const json_t *doc, struct spec **out, struct buf *mistakes, struct why *why)
{
	struct buf own;
	buf_init(&own, SPEC_MISTAKES_MAX);
	struct spec *s = alloc_must_zero(1, sizeof *s);
	if (json_is_object(doc))
		read_all(doc, s, &own);
	else
		buf_printf(&own, "a spec must be a JSON object: {\"shoal\": 1, …}\n");
	if (own.len || !buf_ok(&own)) {
		enum err err = own.len ? first_mistake(&own, why)
				       : json_verdict(&own, "this spec is wrong", why);
		if (mistakes && own.len)
			buf_put(mistakes, own.data, own.len);
		buf_release(&own);
		spec_free(s);
		return err;
	}
	buf_release(&own);
	s->text = json_canonical(doc);
	if (!s->text) {
		spec_free(s);
		return err_why(why, ERR_nomem, "no memory for the text of a spec");
	}
	s->id = hash_of(s->text, strlen(s->text));
	*out = s;
	return ERR_OK;
}

enum err spec_parse(
	const void *text, size_t n, struct spec **out, struct buf *mistakes, struct why *why)
{
	json_t *doc = NULL;
	enum err err = json_parse(text, n, SPEC_MAX_BYTES, &doc, why);
	if (err)
		return err;
	err = from_document(doc, out, mistakes, why);
	json_decref(doc);
	return err;
}

void spec_free(struct spec *s)
{
	if (!s)
		return;
	free(s->text);
	free(s);
}

/* ---- overrides */

/* The member that path names, in an object that is made when it is not there yet; NULL when path is
 * no path.  Cuts path in place, so that the member's name is what *name points at. */
static json_t *object_at(json_t *doc, char *path, const char **name)
{
	json_t *at = doc;
	char *dot = strchr(path, '.');
	if (dot) {
		*dot = 0;
		at = json_object_get(doc, path);
		if (!at && *path && !json_object_set_new(doc, path, json_object()))
			at = json_object_get(doc, path);
	}
	*name = dot ? dot + 1 : path;
	return json_is_object(at) && **name && !strchr(*name, '.') ? at : NULL;
}

static enum err set_member(json_t *object, const char *name, const char *text)
{
	json_t *value = NULL;
	/* What is a text stays one: a run may be named 7. */
	if (*text == '"' || !json_is_string(json_object_get(object, name)))
		value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
	if (!value)
		value = json_string(text);
	return value && !json_object_set_new(object, name, value) ? ERR_OK : ERR_syntax;
}

static enum err override(json_t *doc, const char *text, struct why *why)
{
	const char *equals = strchr(text, '=');
	if (!equals)
		return err_why(why, ERR_usage,
			"\"%s\" must be PATH=VALUE, as in train.lr=0.001 or round.steps=10", text);
	char *path = alloc_must_printf("%.*s", (int)(equals - text), text);
	const char *name = NULL;
	json_t *object = json_is_object(doc) ? object_at(doc, path, &name) : NULL;
	enum err err = ERR_OK;
	if (!object)
		err = err_why(why, ERR_usage,
			"\"%s\" does not name a member of a spec, as train.lr=0.001 does", text);
	else if (set_member(object, name, equals + 1))
		err = err_why(why, ERR_syntax, "\"%s\" is not UTF-8", text);
	free(path);
	return err;
}

enum err spec_load(const char *path, const char *const *overrides, size_t n_overrides,
	struct spec **out, struct buf *mistakes, struct why *why)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	enum err err = file_read(path, SPEC_MAX_BYTES, &bytes, &n, why);
	if (err)
		return err;
	json_t *doc = NULL;
	struct why inner = {0};
	err = json_parse(bytes, n, SPEC_MAX_BYTES, &doc, &inner);
	free(bytes);
	for (size_t i = 0; i < n_overrides && !err; i++)
		err = override(doc, overrides[i], &inner);
	if (!err)
		err = from_document(doc, out, mistakes, &inner);
	json_decref(doc);
	return err ? err_why(why, err, "%s: %s", path, inner.text) : ERR_OK;
}

/* ---- differences */

static void print_value(const json_t *value, struct buf *out)
{
	char *text =
		value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15))
		      : NULL;
	buf_printf(out, "%s", text ? text : "not set");
	free(text);
}

static void diff(const json_t *here, const json_t *there, const char *path, struct buf *out)
{
	if (here && there && json_equal(here, there))
		return;
	if (!json_is_object(here) || !json_is_object(there)) {
		buf_printf(out, "%s: ", path);
		print_value(here, out);
		buf_printf(out, " here, ");
		print_value(there, out);
		buf_printf(out, " there\n");
		return;
	}
	const char *name;
	json_t *value;
	const char *dot = *path ? "." : "";
	json_object_foreach((json_t *)(uintptr_t)here, name, value)
	{
		char *inner = alloc_must_printf("%s%s%s", path, dot, name);
		diff(value, json_object_get(there, name), inner, out);
		free(inner);
	}
	json_object_foreach((json_t *)(uintptr_t)there, name, value)
	{
		if (json_object_get(here, name))
			continue;
		char *inner = alloc_must_printf("%s%s%s", path, dot, name);
		diff(NULL, value, inner, out);
		free(inner);
	}
}

void spec_diff(const struct spec *here, const struct spec *there, struct buf *out)
{
	json_t *a = json_loads(here->text, JSON_REJECT_DUPLICATES, NULL);
	json_t *b = json_loads(there->text, JSON_REJECT_DUPLICATES, NULL);
	diff(a, b, "", out);
	json_decref(a);
	json_decref(b);
}

/* ---- schedule */

uint64_t spec_step_tokens(const struct spec *s)
{
	return (uint64_t)s->train.batch * s->train.seq;
}

/* cos(pi x) for x in [0, 1], as sin(pi (1/2 - x)) by its Taylor series: with |argument| <= pi/2 the
 * first term left out is below 2e-18.  Horner in a fixed order. */
static double cos_pi(double x)
{
	static const double inverse_factorial[] = {1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040,
		1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000,
		1.0 / 355687428096000, -1.0 / 121645100408832000, 1.0 / 51090942171709440000.0};
	double a = 3.14159265358979323846 * (0.5 - x), square = a * a, sum = 0;
	for (size_t i = sizeof inverse_factorial / sizeof *inverse_factorial; i-- > 0;)
		sum = sum * square + inverse_factorial[i];
	return a * sum;
}

double spec_lr(const struct spec_train *t, uint64_t tokens)
{
	if (tokens < t->warmup_tokens)
		return t->lr * ((double)tokens / (double)t->warmup_tokens);
	if (tokens >= t->total_tokens)
		return t->lr * t->final_lr;
	double done =
		(double)(tokens - t->warmup_tokens) / (double)(t->total_tokens - t->warmup_tokens);
	return t->lr * (t->final_lr + (1 - t->final_lr) * 0.5 * (1 + cos_pi(done)));
}
