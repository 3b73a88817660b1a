#include "model/manifest.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "model/tokenfile.h"
#include "model/tokenizer.h"

/* ---- printing: members in the order of their names and no spaces, as json_canonical does */

static void print_split(struct buf *b, const char *name, const struct manifest_split *s)
{
	buf_printf(b, "\"%s\":{\"shards\":[", name);
	for (size_t i = 0; i < s->n_shards; i++) {
		char hex[HASH_HEX];
		hash_hex(&s->shards[i].hash, hex);
		buf_printf(b, "%s{\"bytes\":%llu,\"hash\":\"%s\",\"tokens\":%llu}", i ? "," : "",
			(unsigned long long)s->shards[i].bytes, hex,
			(unsigned long long)s->shards[i].tokens);
	}
	buf_printf(b, "],\"text_bytes\":%llu,\"tokens\":%llu}", (unsigned long long)s->text_bytes,
		(unsigned long long)s->tokens);
}

enum err manifest_print(struct manifest *m, struct why *why)
{
	char hex[HASH_HEX];
	hash_hex(&m->tokenizer, hex);
	struct buf b;
	buf_init(&b, MANIFEST_FILE_MAX);
	buf_printf(&b, "{\"micronats\":[%u,%u,%u],\"shoal_manifest\":%d,\"tokenizer\":\"%s\",",
		m->micronats[0], m->micronats[1], m->micronats[2], MANIFEST_VERSION, hex);
	print_split(&b, "train", &m->train);
	buf_put(&b, ",", 1);
	print_split(&b, "validation", &m->validation);
	buf_printf(&b, ",\"vocab\":%u}", m->vocab);
	size_t len;
	char *text = (char *)buf_steal(&b, &len);
	if (!text)
		return err_why(why, ERR_nomem, "no memory for a manifest of %zu shards",
			m->train.n_shards + m->validation.n_shards);
	text[len] = 0;
	free(m->text);
	m->text = text;
	m->id = hash_of(text, len);
	return ERR_OK;
}

/* ---- reading */

struct reader {
	struct buf mistakes;
	uint32_t width; /* of an id */
};

static void read_shard(
	struct reader *r, const json_t *item, const char *path, struct manifest_shard *shard)
{
	struct json_in in;
	json_in_init(&in, item, path, &r->mistakes);
	shard->hash = json_get_hash(&in, "hash", true);
	shard->tokens = (uint64_t)json_get_int(&in, "tokens", 1, MANIFEST_SHARD_TOKENS_MAX, NULL);
	int64_t bytes = (int64_t)(TOKENFILE_HEAD + shard->tokens * r->width);
	shard->bytes = (uint64_t)json_get_int(&in, "bytes", bytes, bytes, NULL);
	json_in_finish(&in);
}

static enum err read_split(
	struct reader *r, struct json_in *top, const char *name, struct manifest_split *split)
{
	const json_t *object = json_get_object(top, name, true);
	if (!object)
		return ERR_OK;
	struct json_in in;
	json_in_init(&in, object, name, &r->mistakes);
	const json_t *shards = json_get_array(&in, "shards", MANIFEST_SHARDS_MAX, true);
	size_t n = json_array_size(shards);
	split->shards = alloc_try(n + 1, sizeof *split->shards);
	if (!split->shards)
		return ERR_nomem;
	split->n_shards = n;
	/* One mistake in each of thousands of shards tells no more than the first ones. */
	for (size_t i = 0; i < n && r->mistakes.len < 1u << 12; i++) {
		char path[64];
		snprintf(path, sizeof path, "%s.shards[%zu]", name, i);
		read_shard(r, json_array_get(shards, i), path, &split->shards[i]);
		split->tokens += split->shards[i].tokens;
	}
	int64_t tokens = (int64_t)split->tokens;
	json_get_int(&in, "tokens", tokens, tokens, NULL);
	split->text_bytes = (uint64_t)json_get_int(
		&in, "text_bytes", tokens, tokens * TOKENIZER_TOKEN_MAX, NULL);
	json_in_finish(&in);
	return ERR_OK;
}

static void read_micronats(struct json_in *in, struct manifest *m)
{
	const json_t *list = json_get_array(in, "micronats", 3, true);
	for (size_t i = 0; list && i < 3; i++) {
		const json_t *item = json_array_get(list, i);
		json_int_t value = json_integer_value(item);
		/* No byte can cost more than ln 256 = 5.545 nats on average. */
		if (!json_is_integer(item) || value < 0 || value > 5545178)
			json_mistake(in, "micronats", "must be three numbers from 0 to 5545178");
		else
			m->micronats[i] = (uint32_t)value;
	}
}

static enum err read_document(
	struct reader *r, const json_t *doc, struct manifest *m, struct why *why)
{
	const json_t *version = json_object_get(doc, "shoal_manifest");
	if (!json_is_integer(version))
		return err_why(
			why, ERR_magic, "not a manifest: it has no number \"shoal_manifest\"");
	if (json_integer_value(version) != MANIFEST_VERSION)
		return err_why(why, ERR_version,
			"a manifest of version %lld, this program reads version %d; prepare the "
			"corpus again",
			(long long)json_integer_value(version), MANIFEST_VERSION);
	struct json_in in;
	json_in_init(&in, doc, "", &r->mistakes);
	json_get_int(&in, "shoal_manifest", MANIFEST_VERSION, MANIFEST_VERSION, NULL);
	m->tokenizer = json_get_hash(&in, "tokenizer", true);
	m->vocab = (uint32_t)json_get_int(&in, "vocab", TOKENIZER_BYTES, TOKENIZER_VOCAB_MAX, NULL);
	r->width = tokenfile_width(m->vocab);
	read_micronats(&in, m);
	enum err e = read_split(r, &in, "train", &m->train);
	if (!e)
		e = read_split(r, &in, "validation", &m->validation);
	if (e)
		return err_why(why, e, "no memory for a manifest");
	if (json_object_get(doc, "train") && m->train.n_shards == 0)
		json_mistake(&in, "train", "has no shards");
	json_in_finish(&in);
	return ERR_OK;
}

enum err manifest_parse(const void *text, size_t n, struct manifest **out, struct why *why)
{
	json_t *doc;
	enum err e = json_parse(text, n, MANIFEST_FILE_MAX, &doc, why);
	if (e)
		return e;
	struct reader r = {0};
	buf_init(&r.mistakes, 1u << 16);
	struct manifest *m = alloc_must_zero(1, sizeof *m);
	e = read_document(&r, doc, m, why);
	if (!e)
		e = json_verdict(&r.mistakes, "not a manifest", why);
	if (!e)
		e = manifest_print(m, why);
	buf_release(&r.mistakes);
	json_decref(doc);
	if (e) {
		manifest_free(m);
		return e;
	}
	*out = m;
	return ERR_OK;
}

enum err manifest_load(const char *path, struct manifest **out, struct why *why)
{
	uint8_t *text;
	size_t n;
	enum err e = file_read(path, MANIFEST_FILE_MAX, &text, &n, why);
	if (e == ERR_missing)
		return err_why(why, e,
			"there is no %s: give the folder that shoal-coordinator prepare made",
			path);
	if (e)
		return e;
	struct why inner = {0};
	e = manifest_parse(text, n, out, &inner);
	free(text);
	return e ? err_why(why, e, "%s: %s", path, inner.text) : ERR_OK;
}

void manifest_free(struct manifest *m)
{
	if (!m)
		return;
	free(m->text);
	free(m->train.shards);
	free(m->validation.shards);
	free(m);
}
