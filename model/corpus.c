#include "model/corpus.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "model/permute.h"
#include "model/tokenfile.h"

/* Streams of the generator; the numbers spell "corpusk" and "corpuss". */
#define STREAM_KEY 0x636f72707573006bull
#define STREAM_SHIFT 0x636f727075730073ull

struct stretch {
	struct file_map map;
	struct tokenfile file;
	uint64_t first; /* token of the split */
};

struct tokens_of_split {
	struct stretch *stretches;
	size_t n;
	uint64_t tokens;
};

struct corpus {
	const struct manifest *manifest;
	struct tokenizer *tokenizer;
	struct tokens_of_split split[2];
};

static char *blob_path(const char *blobs, const struct hash *h)
{
	char hex[HASH_HEX];
	hash_hex(h, hex);
	return alloc_must_printf("%s/%s", blobs, hex);
}

static enum err check_hash(
	const char *path, const struct stretch *s, const struct hash *expected, struct why *why)
{
	struct hash is = hash_of(s->map.data, s->map.len);
	if (hash_equal(&is, expected))
		return ERR_OK;
	return err_why(why, ERR_hash,
		"%s is damaged: its content has another hash than its name; delete it, then "
		"prepare the "
		"corpus or fetch the blob again",
		path);
}

static enum err open_shard(const char *path, const struct manifest_shard *shard, uint32_t width,
	struct stretch *s, struct why *why)
{
	enum err e = file_map(path, &s->map, why);
	if (e)
		return e;
	e = tokenfile_parse(path, s->map.data, s->map.len, &s->file, why);
	if (e)
		return e;
	if (s->file.width != width || s->file.count != shard->tokens)
		return err_why(why, ERR_shape,
			"%s has %llu ids of %u bytes, the manifest says %llu of %u; delete it, "
			"then prepare the "
			"corpus or fetch the blob again",
			path, (unsigned long long)s->file.count, s->file.width,
			(unsigned long long)shard->tokens, width);
	return ERR_OK;
}

static enum err open_split(
	struct corpus *c, const char *blobs, enum corpus_split which, bool verify, struct why *why)
{
	const struct manifest *m = c->manifest;
	const struct manifest_split *from = which == CORPUS_train ? &m->train : &m->validation;
	struct tokens_of_split *to = &c->split[which];
	to->stretches = alloc_try(from->n_shards + 1, sizeof *to->stretches);
	if (!to->stretches)
		return err_why(why, ERR_nomem, "no memory for %zu shards", from->n_shards);
	for (size_t i = 0; i < from->n_shards; i++) {
		struct stretch *s = &to->stretches[to->n++];
		char *path = blob_path(blobs, &from->shards[i].hash);
		enum err e = open_shard(path, &from->shards[i], tokenfile_width(m->vocab), s, why);
		if (!e && verify)
			e = check_hash(path, s, &from->shards[i].hash, why);
		free(path);
		if (e)
			return e;
		s->first = to->tokens;
		to->tokens += s->file.count;
	}
	return ERR_OK;
}

static enum err open_tokenizer(struct corpus *c, const char *blobs, struct why *why)
{
	char *path = blob_path(blobs, &c->manifest->tokenizer);
	enum err e = tokenizer_load(path, &c->tokenizer, why);
	if (!e) {
		struct hash is = tokenizer_hash(c->tokenizer);
		uint32_t vocab = tokenizer_vocab(c->tokenizer);
		if (!hash_equal(&is, &c->manifest->tokenizer))
			e = err_why(why, ERR_hash,
				"%s is damaged: it is not the tokenizer of its name; delete it, "
				"then prepare "
				"the corpus or fetch the blob again",
				path);
		else if (vocab != c->manifest->vocab)
			e = err_why(why, ERR_shape,
				"the manifest says %u ids, its tokenizer %s has %u",
				c->manifest->vocab, path, vocab);
	}
	free(path);
	return e;
}

enum err corpus_open(const char *blobs, const struct manifest *m, bool verify, struct corpus **out,
	struct why *why)
{
	struct corpus *c = alloc_must_zero(1, sizeof *c);
	c->manifest = m;
	enum err e = open_tokenizer(c, blobs, why);
	if (!e)
		e = open_split(c, blobs, CORPUS_train, verify, why);
	if (!e)
		e = open_split(c, blobs, CORPUS_validation, verify, why);
	if (e) {
		corpus_free(c);
		return e;
	}
	*out = c;
	return ERR_OK;
}

void corpus_free(struct corpus *c)
{
	if (!c)
		return;
	for (unsigned w = 0; w < 2; w++) {
		for (size_t i = 0; i < c->split[w].n; i++)
			file_unmap(&c->split[w].stretches[i].map);
		free(c->split[w].stretches);
	}
	tokenizer_free(c->tokenizer);
	free(c);
}

const struct manifest *corpus_manifest(const struct corpus *c)
{
	return c->manifest;
}

const struct tokenizer *corpus_tokenizer(const struct corpus *c)
{
	return c->tokenizer;
}

/* ---- sequences */

uint64_t corpus_sequences(const struct corpus *c, enum corpus_split split, uint32_t seq)
{
	uint64_t tokens = c->split[split].tokens;
	assert(seq > 0);
	/* The last training window may start at (N - 1) T + T - 1 and needs T + 1 tokens: (N + 1)
	 * T. */
	if (split == CORPUS_train)
		return tokens / seq > 0 ? tokens / seq - 1 : 0;
	return tokens > 0 ? (tokens - 1) / seq : 0;
}

/* The stretch that holds a token: the last one that does not start after it. */
static size_t stretch_of(const struct tokens_of_split *s, uint64_t token)
{
	size_t low = 0, high = s->n;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (s->stretches[middle].first <= token)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void copy_ids(const struct tokens_of_split *s, uint64_t start, size_t n, int32_t *out)
{
	for (size_t i = stretch_of(s, start); n; i++) {
		const struct stretch *from = &s->stretches[i];
		uint64_t skip = start - from->first;
		size_t here = from->file.count - skip < n ? (size_t)(from->file.count - skip) : n;
		tokenfile_ids(&from->file, skip, here, out);
		start += here;
		out += here;
		n -= here;
	}
}

/* Ids start .. start + seq - 1 as tokens, one further as targets. */
static enum err window(const struct corpus *c, enum corpus_split which, uint64_t start,
	uint32_t seq, int32_t *tokens, int32_t *targets)
{
	const struct tokens_of_split *s = &c->split[which];
	copy_ids(s, start, seq, tokens);
	copy_ids(s, start + seq, 1, &targets[seq - 1]);
	memcpy(targets, tokens + 1, (seq - 1) * sizeof *targets);
	/* A shard whose hash is right may still have been made by a liar. */
	uint32_t vocab = c->manifest->vocab;
	bool bad = (uint32_t)targets[seq - 1] >= vocab;
	for (uint32_t i = 0; i < seq; i++)
		bad |= (uint32_t)tokens[i] >= vocab;
	return bad ? ERR_range : ERR_OK;
}

uint64_t corpus_start(const struct corpus *c, const struct corpus_order *o, uint64_t s)
{
	uint64_t n = corpus_sequences(c, CORPUS_train, o->seq), epoch = s / n;
	uint64_t index = permute(rng_u64(o->seed, STREAM_KEY, epoch), s % n, n);
	return index * o->seq + rng_below(o->seed, STREAM_SHIFT, epoch, o->seq);
}

enum err corpus_sequence(const struct corpus *c, const struct corpus_order *o, uint64_t s,
	int32_t *tokens, int32_t *targets)
{
	if (corpus_sequences(c, CORPUS_train, o->seq) == 0)
		return ERR_range;
	return window(c, CORPUS_train, corpus_start(c, o, s), o->seq, tokens, targets);
}

enum err corpus_validation(
	const struct corpus *c, uint32_t seq, uint64_t i, int32_t *tokens, int32_t *targets)
{
	if (i >= corpus_sequences(c, CORPUS_validation, seq))
		return ERR_range;
	return window(c, CORPUS_validation, i * seq, seq, tokens, targets);
}
