/* Reading a tokenizer.json. */
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "model/hftokenizer.h"
#include "model/hfwords.h"

static bool is_type(const json_t *part, const char *name)
{
	const char *type = json_string_value(json_object_get(part, "type"));
	return type && !strcmp(type, name);
}

static enum err refuse(const char *member, const char *what, struct why *why)
{
	return err_why(why, ERR_unsupported, "the tokenizer's member \"%s\" %s", member, what);
}

/* Every member must be one of the names; those with a mark '0' in front must be null or "". */
static enum err check_members(
	const char *of, const json_t *object, const char *const *names, struct why *why)
{
	for (void *it = json_object_iter((json_t *)(uintptr_t)object); it;
		it = json_object_iter_next((json_t *)(uintptr_t)object, it)) {
		const char *key = json_object_iter_key(it), *const *name = names;
		const json_t *value = json_object_iter_value(it);
		while (*name && strcmp(*name + (**name == '0'), key))
			name++;
		char full[100];
		snprintf(full, sizeof full, "%s%.60s", of, key);
		if (!*name)
			return refuse(full, "is unknown here", why);
		const char *text = json_string_value(value);
		if (**name == '0' && !json_is_null(value) && !(text && !*text))
			return refuse(full,
				"asks for what shoal does not do; only null can be used", why);
	}
	return ERR_OK;
}

/* ---- the parts around the model */

static enum err read_byte_level(const json_t *part, bool *use_regex, struct why *why)
{
	const json_t *regex = json_object_get(part, "use_regex");
	if (!is_type(part, "ByteLevel"))
		return refuse("pre_tokenizer", "is not of the type ByteLevel", why);
	if (!json_is_false(json_object_get(part, "add_prefix_space")))
		return refuse("pre_tokenizer.add_prefix_space",
			"is not false: shoal never adds a space to a text", why);
	*use_regex = !regex || json_is_true(regex);
	return ERR_OK;
}

static enum err read_split(const json_t *part, enum split *rule, struct why *why)
{
	const char *regex =
		json_string_value(json_object_get(json_object_get(part, "pattern"), "Regex"));
	const char *behavior = json_string_value(json_object_get(part, "behavior"));
	if (!is_type(part, "Split") || !regex)
		return refuse("pre_tokenizer.pretokenizers",
			"does not begin with a Split by a Regex", why);
	if (!behavior || strcmp(behavior, "Isolated") ||
		json_is_true(json_object_get(part, "invert")))
		return refuse("pre_tokenizer.behavior", "is not Isolated, or it is inverted", why);
	for (unsigned i = 0; i < SPLIT_RULES; i++)
		if (!strcmp(regex, hftokenizer_patterns[i])) {
			*rule = (enum split)i;
			return ERR_OK;
		}
	return refuse("pre_tokenizer.pattern",
		"is neither GPT-2's nor Llama 3's expression nor our own", why);
}

static enum err read_pre_tokenizer(const json_t *pre, enum split *rule, struct why *why)
{
	const json_t *parts = json_object_get(pre, "pretokenizers");
	bool use_regex;
	*rule = SPLIT_gpt2;
	if (!is_type(pre, "Sequence")) {
		enum err e = read_byte_level(pre, &use_regex, why);
		return e || use_regex ? e
				      : refuse("pre_tokenizer.use_regex",
						"is false, and nothing else splits the text", why);
	}
	if (json_array_size(parts) != 2)
		return refuse("pre_tokenizer.pretokenizers", "is not a Split and a ByteLevel", why);
	enum err e = read_split(json_array_get(parts, 0), rule, why);
	if (!e)
		e = read_byte_level(json_array_get(parts, 1), &use_regex, why);
	if (!e && use_regex)
		e = refuse("pre_tokenizer.use_regex", "splits what a Split has split", why);
	return e;
}

/* Marks around a text are for those who use the model: they change no id of the text. */
static enum err check_post_processor(const json_t *post, struct why *why)
{
	const json_t *parts = json_object_get(post, "processors"), *part;
	if (json_is_null(post) || !post || is_type(post, "ByteLevel") ||
		is_type(post, "TemplateProcessing"))
		return ERR_OK;
	bool known = is_type(post, "Sequence") && json_is_array(parts);
	size_t i;
	json_array_foreach(parts, i, part)
	{
		known = known &&
			(is_type(part, "ByteLevel") || is_type(part, "TemplateProcessing"));
	}
	return known ? ERR_OK
		     : refuse("post_processor", "is of a type that shoal does not know", why);
}

static enum err check_frame(const json_t *doc, enum split *rule, struct why *why)
{
	static const char *const names[] = {"version", "0truncation", "0padding", "added_tokens",
		"0normalizer", "pre_tokenizer", "post_processor", "decoder", "model", NULL};
	enum err e = check_members("", doc, names, why);
	if (!e)
		e = read_pre_tokenizer(json_object_get(doc, "pre_tokenizer"), rule, why);
	if (!e)
		e = check_post_processor(json_object_get(doc, "post_processor"), why);
	if (!e && !is_type(json_object_get(doc, "decoder"), "ByteLevel"))
		e = refuse("decoder", "is not of the type ByteLevel", why);
	return e;
}

/* ---- the model */

static enum err check_model(const json_t *model, struct why *why)
{
	/* Where every byte is a word, nothing is ever unknown. */
	static const char *const names[] = {"type", "0dropout", "unk_token",
		"0continuing_subword_prefix", "0end_of_word_suffix", "fuse_unk", "byte_fallback",
		"ignore_merges", "vocab", "merges", NULL};
	/* Old files do not say the type. */
	if (json_object_get(model, "type") && !is_type(model, "BPE"))
		return refuse("model.type", "is not BPE", why);
	return check_members("model.", model, names, why);
}

/* "a b", or ["a", "b"] as newer files have it. */
static enum err read_merge(const json_t *merge, struct vocabulary *v, struct why *why)
{
	const char *text = json_string_value(merge);
	if (text)
		return hfwords_merge(v, text, json_string_length(merge), why);
	const char *left = json_string_value(json_array_get(merge, 0));
	const char *right = json_string_value(json_array_get(merge, 1));
	if (!left || !right || json_array_size(merge) != 2)
		return err_why(why, ERR_syntax, "model.merges[%u] of the tokenizer is not a pair",
			v->n_merges);
	struct buf both;
	buf_init(&both, 4 * TOKENIZER_TOKEN_MAX + 2);
	buf_printf(&both, "%s %s", left, right);
	enum err e = buf_ok(&both) ? hfwords_merge(v, (const char *)both.data, both.len, why)
				   : err_why(why, ERR_toobig,
					     "model.merges[%u] of the tokenizer is too long",
					     v->n_merges);
	buf_release(&both);
	return e;
}

static enum err read_model(const json_t *doc, struct vocabulary *v, struct why *why)
{
	const json_t *model = json_object_get(doc, "model"), *merges, *merge;
	enum err e = check_model(model, why);
	if (!e)
		e = hfwords_read(json_object_get(model, "vocab"),
			json_object_get(doc, "added_tokens"), v, why);
	merges = json_object_get(model, "merges");
	if (!e && (!json_is_array(merges) || json_array_size(merges) > TOKENIZER_MERGES_MAX))
		e = err_why(why, ERR_syntax,
			"model.merges of the tokenizer is not a list of up to %u merges",
			TOKENIZER_MERGES_MAX);
	for (size_t i = 0; !e && (merge = json_array_get(merges, i)); i++)
		e = read_merge(merge, v, why);
	return e;
}

/* Our own kinds: the bytes, and one word more for each merge. */
static enum err make_bpe(const struct vocabulary *v, struct tokenizer **out, struct why *why)
{
	enum err e = v->n_merges ? tokenizer_new_bpe(v->merges, v->n_merges, out, why)
				 : tokenizer_new_byte(out, why);
	if (e)
		return e;
	const struct vocabulary *made = tokenizer_vocabulary(*out);
	bool same = made->n_words == v->n_words &&
		    !memcmp(made->at, v->at, (v->n_words + 1u) * sizeof *v->at) &&
		    !memcmp(made->bytes, v->bytes, v->at[v->n_words]);
	for (uint32_t id = 0; id < v->n_words && same; id++)
		same = !v->special[id];
	if (same)
		return ERR_OK;
	tokenizer_free(*out);
	*out = NULL;
	return refuse("model.vocab", "is not what its merges make of the 256 bytes", why);
}

enum err hftokenizer_parse(const void *text, size_t n, struct tokenizer **out, struct why *why)
{
	json_t *doc;
	enum split rule;
	struct vocabulary v = {0};
	enum err e = json_parse(text, n, HFTOKENIZER_FILE_MAX, &doc, why);
	if (e)
		return e;
	bool ignore = json_is_true(json_object_get(json_object_get(doc, "model"), "ignore_merges"));
	e = check_frame(doc, &rule, why);
	if (!e)
		e = read_model(doc, &v, why);
	if (!e && rule == SPLIT_bpe)
		e = ignore ? refuse("model.ignore_merges", "does not go with our own expression",
				     why)
			   : make_bpe(&v, out, why);
	else if (!e)
		e = tokenizer_new_words(rule == SPLIT_gpt2 ? TOKENIZER_gpt2 : TOKENIZER_llama3,
			ignore, &v, out, why);
	vocabulary_release(&v);
	json_decref(doc);
	return e;
}
