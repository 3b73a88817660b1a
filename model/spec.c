#include "model/spec.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_line.h"
#include "model/spec_in.h"
#include "model/spec_model.h"

#define TOKENS_MAX 1000000000000000 /* exact as a double, and more than anybody trains on */

#define X(name) #name,
static const char *const precisions[] = {PRECISION_LIST(X) NULL};
#undef X
static const char *const merged[] = {
	[SPEC_never] = "never", [SPEC_int8] = "int8", [SPEC_int4] = "int4", NULL};
static const char *const modes[] = {[SPEC_fixed] = "fixed", [SPEC_timed] = "timed", NULL};

/* ---- the members, section by section.  Each reader notes its mistakes and goes on.  What depends
 * on two members is checked only when both of them are right by themselves. */

static void read_name(struct json_in *in, const char *name, size_t size, char *out)
{
	const char *text = spec_in_name(in, name, size - 1);
	memcpy(out, text, strlen(text) + 1);
}

/* What sequences are to a model of images is one image each.  m is NULL when it is wrong. */
static void read_seq(struct json_in *in, struct spec_train *t, const struct model_config *m)
{
	t->seq = 1;
	if (m && m->image[0])
		return;
	t->seq = spec_in_u32_or(in, "seq", 1, 1u << 20, m ? m->context : 1);
	if (m && t->seq > m->context)
		json_mistake(
			in, "seq", "must be at most model.context (%u), is %u", m->context, t->seq);
}

static void read_train(struct json_in *in, struct spec_train *t, const struct model_config *m)
{
	static const bool off = false;
	size_t before = in->mistakes->len;
	t->batch = spec_in_u32(in, "batch", 1, 1u << 16);
	t->micro_batch = spec_in_u32_or(in, "micro_batch", 1, 1u << 16, t->batch);
	if (in->mistakes->len == before && t->batch % t->micro_batch)
		json_mistake(in, "micro_batch", "must divide batch (%u), is %u", t->batch,
			t->micro_batch);
	read_seq(in, t, m);

	static const int64_t none = 0;
	before = in->mistakes->len;
	t->warmup_tokens = (uint64_t)json_get_int(in, "warmup_tokens", 0, TOKENS_MAX, &none);
	t->total_tokens = (uint64_t)json_get_int(in, "total_tokens", 1, TOKENS_MAX, NULL);
	if (in->mistakes->len == before && t->warmup_tokens > t->total_tokens)
		json_mistake(in, "warmup_tokens", "must be at most total_tokens (%llu), is %llu",
			(unsigned long long)t->total_tokens, (unsigned long long)t->warmup_tokens);

	t->lr = json_get_real(in, "lr", 1e-9, 10, NULL);
	t->final_lr = spec_in_real_or(in, "final_lr", 0, 1, 0.1);
	t->beta1 = spec_in_real_or(in, "beta1", 0, 0.99999, 0.9);
	t->beta2 = spec_in_real_or(in, "beta2", 0, 0.99999, 0.95);
	t->eps = spec_in_real_or(in, "eps", 1e-16, 1, 1e-8);
	t->weight_decay = spec_in_real_or(in, "weight_decay", 0, 10, 0.1);
	t->clip = spec_in_real_or(in, "clip", 0, 1e9, 1);
	t->precision = (enum precision)json_get_choice(
		in, "precision", precisions, precisions[PRECISION_float32]);
	t->recompute = json_get_flag(in, "recompute", &off);
}

/* The length of a round; the other mode's would be silently ignored, so that it is a mistake. */
static void read_length(struct json_in *in, struct spec_round *r)
{
	r->mode = (enum spec_mode)json_get_choice(in, "mode", modes, NULL);
	const char *word = json_string_value(json_object_get(in->object, "mode"));
	bool known = word && !strcmp(word, modes[r->mode]);
	const char *other = r->mode == SPEC_fixed ? "seconds" : "steps";
	if (known && r->mode == SPEC_fixed)
		r->steps = spec_in_u32(in, "steps", 1, 1u << 24);
	else if (known)
		r->seconds = json_get_real(in, "seconds", 0.1, 7 * 86400.0, NULL);
	else
		(void)spec_in_real_or(in, "steps", 0, 1e9, 0);
	if (json_object_get(in->object, other)) {
		(void)spec_in_real_or(in, other, 0, 1e9, 0);
		if (known)
			json_mistake(in, other, "belongs to another mode than \"%s\"", word);
	}
}

static void read_round(struct json_in *in, struct spec_round *r)
{
	read_length(in, r);
	r->peers_min = spec_in_u32_or(in, "peers_min", 1, SPEC_PEERS_MAX, 1);
	r->quorum = spec_in_real_or(in, "quorum", 0.01, 1, r->mode == SPEC_fixed ? 1 : 0.67);
	const bool timed = r->mode == SPEC_timed;
	r->overlap = json_get_flag(in, "overlap", &timed);
	if (r->overlap && !timed)
		json_mistake(in, "overlap",
			"is for timed rounds: rounds of fixed steps wait for their update, so that "
			"a "
			"repeated run has the same ledger");
	r->fragments = spec_in_u32_or(in, "fragments", 1, SPEC_FRAGMENTS_MAX, 1);
	if (r->fragments > 1 && !r->overlap)
		json_mistake(in, "fragments",
			"is for rounds that overlap: the others exchange all shards at once");
	r->validate_every = spec_in_u32_or(in, "validate_every", 0, 1u << 24, 10);
	r->snapshot_every = spec_in_u32_or(in, "snapshot_every", 1, 1u << 24, 20);
}

static void read_outer(struct json_in *in, struct spec_outer *o)
{
	read_name(in, "rule", sizeof o->rule, o->rule);
	o->lr = spec_in_real_or(in, "lr", 0, 100, 1);
	o->momentum = spec_in_real_or(in, "momentum", 0, 0.9999, 0);
	o->merged = (enum spec_merged)json_get_choice(in, "merged", merged, merged[SPEC_int8]);
}

/* Codecs had names once, and were not put together from stages. */
static void refuse_codec_name(struct json_in *in)
{
	static const char *const now[][2] = {
		{"topk2", "\"select\": \"topk\", \"values\": \"two\" and k"},
		{"int8", "\"select\": \"all\", \"values\": \"int8\""},
		{"raw", "\"select\": \"all\", \"values\": \"f32\""}};
	const char *name = json_get_text(in, "name", SPEC_NAME, ""), *write = now[0][1];
	for (size_t i = 0; i < sizeof now / sizeof *now; i++)
		if (!strcmp(name, now[i][0]))
			write = now[i][1];
	json_mistake(in, "name", "is how older specs named a codec; write %s instead", write);
}

static void read_codec(struct json_in *in, struct spec_codec *c)
{
	static const bool off = false;
	bool old = json_object_get(in->object, "name") != NULL;
	if (old)
		refuse_codec_name(in);
	if (!old || json_object_get(in->object, "select"))
		read_name(in, "select", sizeof c->select, c->select);
	if (!old || json_object_get(in->object, "values"))
		read_name(in, "values", sizeof c->values, c->values);
	c->dct = json_get_flag(in, "dct", &off);
	size_t before = in->mistakes->len;
	c->chunk = spec_in_u32_or(in, "chunk", 1, 1u << 16, 4096);
	c->k = spec_in_u32_or(in, "k", 1, 1u << 16, 0);
	if (in->mistakes->len == before && c->k > c->chunk)
		json_mistake(in, "k", "must be at most codec.chunk (%u), is %u", c->chunk, c->k);
	c->threshold = spec_in_real_or(in, "threshold", 0, 1000, 0);
	c->decay = spec_in_real_or(in, "decay", 0, 1, 0.95);
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
	const struct model_config *model = NULL;
	size_t before = top->mistakes->len;
	if (section(top, "model", true, &in)) {
		spec_model_read(&in, s);
		model = top->mistakes->len == before ? &s->model : NULL;
		json_in_finish(&in);
	}
	if (section(top, "data", false, &in)) {
		s->manifest = json_get_hash(&in, "manifest", false);
		json_in_finish(&in);
	}
	if (section(top, "train", true, &in)) {
		read_train(&in, &s->train, model);
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
	read_name(&top, "name", sizeof s->name, s->name);
	s->seed = (uint64_t)json_get_int(&top, "seed", 0, INT64_MAX, NULL);
	s->init = json_get_hash(&top, "init", false);
	read_sections(&top, s);
	json_in_finish(&top);

	if (s->model.n_shards && s->round.fragments > s->model.n_shards)
		json_mistake(&top, "round.fragments",
			"is %u, and the model has %u shard%s to take turns: give that many at most",
			s->round.fragments, s->model.n_shards, s->model.n_shards == 1 ? "" : "s");
	/* Averaging parameters works on the parameters themselves. */
	const struct spec_codec *c = &s->codec;
	bool known = c->select[0] && c->values[0];
	bool whole = !strcmp(c->select, "all") && !strcmp(c->values, "f32") && !c->dct;
	if (!strcmp(s->outer.rule, "average") && known && !whole)
		json_mistake(&top, "codec",
			"rule \"average\" needs the parameters as they are: select \"all\", values "
			"\"f32\" and no dct; here are \"%s\" and \"%s\"%s",
			c->select, c->values, c->dct ? " with dct" : "");
}

/* The file that a document is from, and what was put in its place. */
struct origin {
	const char *text;
	size_t n;
	const char *const *overrides;
	size_t n_overrides;
};

static bool is_override(const struct origin *from, const char *path, size_t n)
{
	for (size_t i = 0; i < from->n_overrides; i++) {
		size_t len = strcspn(from->overrides[i], "=");
		bool whole = len == n || (len < n && strchr(".[", path[len]));
		if (whole && !memcmp(from->overrides[i], path, len))
			return true;
	}
	return false;
}

/* Says before each mistake on which line of the file it was made. */
static void put_mistakes(const struct buf *mistakes, const struct origin *from, struct buf *out)
{
	const char *at = (const char *)mistakes->data, *end = at + mistakes->len, *next;
	for (; at < end; at = next) {
		next = memchr(at, '\n', (size_t)(end - at));
		next = next ? next + 1 : end;
		const char *colon = memchr(at, ':', (size_t)(next - at));
		size_t path = colon ? (size_t)(colon - at) : 0, line = 0;
		if (from && !is_override(from, at, path))
			line = json_line_of(from->text, from->n, at, path);
		if (line)
			buf_printf(out, "line %zu: ", line);
		buf_put(out, at, (size_t)(next - at));
	}
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

static enum err refuse(
	const struct buf *found, const struct origin *from, struct buf *mistakes, struct why *why)
{
	struct buf told;
	buf_init(&told, 2 * SPEC_MISTAKES_MAX);
	put_mistakes(found, from, &told);
	enum err err = told.len ? first_mistake(&told, why)
				: json_verdict(found, "this spec is wrong", why);
	if (mistakes && told.len)
		buf_put(mistakes, told.data, told.len);
	buf_release(&told);
	return err;
}

/* from is NULL when nobody wrote the text by hand. */
static enum err from_document(const json_t *doc, const struct origin *from, struct spec **out,
	struct buf *mistakes, struct why *why)
{
	struct buf own;
	buf_init(&own, SPEC_MISTAKES_MAX);
	struct spec *s = alloc_must_zero(1, sizeof *s);
	if (json_is_object(doc))
		read_all(doc, s, &own);
	else
		buf_printf(&own, "a spec must be a JSON object: {\"shoal\": 1, …}\n");
	if (own.len || !buf_ok(&own)) {
		enum err err = refuse(&own, from, mistakes, why);
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
	err = from_document(doc, NULL, out, mistakes, why);
	json_decref(doc);
	return err;
}

void spec_free(struct spec *s)
{
	if (!s)
		return;
	free(s->text);
	free(s->user);
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
	if (json_is_null(value)) {
		json_decref(value);
		(void)json_object_del(object, name);
		return ERR_OK;
	}
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
	for (size_t i = 0; i < n_overrides && !err; i++)
		err = override(doc, overrides[i], &inner);
	const struct origin from = {(const char *)bytes, n, overrides, n_overrides};
	if (!err)
		err = from_document(doc, &from, out, mistakes, &inner);
	free(bytes);
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
