#include "model/prepare.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/pool.h"
#include "model/bpe.h"
#include "model/bulk.h"
#include "model/manifest.h"
#include "model/ngram.h"
#include "model/textreader.h"
#include "model/tokenfile.h"
#include "model/tokenizer.h"
#include "model/tokenizer_open.h"

#define TRAIN_SEQUENCES_MIN 4u

struct job {
	const struct prepare *p;
	struct why *why;
	struct textreader reader;
	struct pool *pool;
	struct bulk *bulk;
	uint64_t cut; /* bytes of the training part */
	struct bpe *bpe;
	struct tokenizer *tokenizer;
	struct ngram *ngram;
	struct manifest *manifest;
	struct manifest_split *split; /* the one being written */
	size_t split_cap;
	struct tokens tokens; /* encoded, not yet written */
	struct buf shard;
	struct buf made; /* hashes of the blobs that were not there before */
	double held_out[3];
	uint64_t zero_bytes; /* of the text */
};

static void tell(const struct job *j, const char *stage, uint64_t done, uint64_t total)
{
	if (j->p->progress)
		j->p->progress(j->p->arg, stage, done, total);
}

/* ---- the tokenizer */

static enum err count_pieces(void *arg, const uint8_t *bytes, size_t n)
{
	struct job *j = arg;
	if (bpe_add(j->bpe, bytes, n))
		return err_why(j->why, ERR_nomem, "no memory to count the pieces of the text");
	tell(j, "reading", j->reader.at, j->reader.total);
	return ERR_OK;
}

static void learning(void *arg, uint64_t done, uint64_t total)
{
	tell(arg, "learning", done, total);
}

static enum err learn_tokenizer(struct job *j)
{
	j->bpe = bpe_new();
	if (!j->bpe)
		return err_why(j->why, ERR_nomem, "no memory to learn a tokenizer");
	enum err e = textreader_walk(&j->reader, SPLIT_bpe, j->cut, count_pieces, j, j->why);
	textreader_rewind(&j->reader);
	if (!e) {
		e = bpe_train(j->bpe, j->p->vocab, learning, j, &j->tokenizer);
		if (e)
			e = err_why(
				j->why, e, "no memory to learn a tokenizer of %u ids", j->p->vocab);
	}
	bpe_free(j->bpe);
	j->bpe = NULL;
	return e;
}

static enum err get_tokenizer(struct job *j)
{
	if (j->p->tokenizer)
		return tokenizer_open(j->p->tokenizer, &j->tokenizer, j->why);
	if (j->p->vocab == TOKENIZER_BYTES)
		return tokenizer_new_byte(&j->tokenizer, j->why);
	return learn_tokenizer(j);
}

/* ---- writing blobs */

static enum err write_blob(struct job *j, const void *bytes, size_t n, struct hash *name)
{
	*name = hash_of(bytes, n);
	char hex[HASH_HEX];
	hash_hex(name, hex);
	char *path = alloc_must_printf("%s/blobs/%s", j->p->dir, hex);
	struct hash there;
	uint64_t size;
	enum err e = ERR_OK;
	/* One that is there and whole is left alone; a damaged one is written again. */
	if (!file_exists(path) || hash_file(path, &there, &size) || !hash_equal(&there, name)) {
		buf_put(&j->made, name, sizeof *name);
		e = buf_ok(&j->made)
			    ? file_write(path, bytes, n, 0644, j->why)
			    : err_why(j->why, ERR_nomem, "no memory for the list of blobs");
	}
	free(path);
	return e;
}

static enum err list_shard(struct job *j, const struct manifest_shard *shard)
{
	struct manifest_split *s = j->split;
	if (s->n_shards == MANIFEST_SHARDS_MAX)
		return err_why(j->why, ERR_toobig,
			"the text gives more than %u shards of %llu bytes; allow larger shards",
			MANIFEST_SHARDS_MAX, (unsigned long long)j->p->shard_bytes);
	if (s->n_shards == j->split_cap) {
		size_t cap = j->split_cap ? 2 * j->split_cap : 16;
		struct manifest_shard *more = alloc_try_resize(s->shards, cap, sizeof *more);
		if (!more)
			return err_why(j->why, ERR_nomem, "no memory for the list of shards");
		s->shards = more;
		j->split_cap = cap;
	}
	s->shards[s->n_shards++] = *shard;
	s->tokens += shard->tokens;
	return ERR_OK;
}

/* Writes shards from the front of the waiting tokens: the full ones, or with all also the rest. */
static enum err flush(struct job *j, bool all)
{
	uint32_t width = tokenfile_width(tokenizer_vocab(j->tokenizer));
	size_t most = (size_t)(j->p->shard_bytes / width), at = 0;
	while (j->tokens.len - at >= most || (all && j->tokens.len > at)) {
		size_t n = j->tokens.len - at < most ? j->tokens.len - at : most;
		buf_clear(&j->shard);
		tokenfile_write(&j->shard, width, j->tokens.id + at, n);
		if (!buf_ok(&j->shard))
			return err_why(j->why, ERR_nomem, "no memory for a shard of %zu tokens", n);
		struct manifest_shard shard = {.tokens = n, .bytes = j->shard.len};
		enum err e = write_blob(j, j->shard.data, j->shard.len, &shard.hash);
		if (!e)
			e = list_shard(j, &shard);
		if (e)
			return e;
		at += n;
	}
	j->tokens.len -= at;
	if (at && j->tokens.len)
		memmove(j->tokens.id, j->tokens.id + at, j->tokens.len * sizeof *j->tokens.id);
	return ERR_OK;
}

/* ---- encoding */

/* Beside the encoding, on another thread. */
static void count_bytes(void *arg, const uint8_t *bytes, size_t n)
{
	struct job *j = arg;
	for (size_t i = 0; i < n; i++)
		j->zero_bytes += bytes[i] == 0;
	if (j->split == &j->manifest->train)
		ngram_add(j->ngram, bytes, n);
	for (unsigned i = 0; i < 3 && j->split == &j->manifest->validation; i++)
		j->held_out[i] += ngram_cost(j->ngram, i + 1, bytes, n);
}

static enum err encode_stretch(void *arg, const uint8_t *bytes, size_t n)
{
	struct job *j = arg;
	if (bulk_encode(j->bulk, bytes, n, count_bytes, j, &j->tokens))
		return err_why(j->why, ERR_nomem, "no memory to encode %zu bytes of text", n);
	tell(j, "encoding", j->reader.at, j->reader.total);
	return flush(j, false);
}

static enum err encode_split(struct job *j, struct manifest_split *split, uint64_t bytes)
{
	j->split = split;
	j->split_cap = 0;
	split->text_bytes = bytes;
	enum split rule = tokenizer_split(j->tokenizer);
	enum err e = textreader_walk(&j->reader, rule, bytes, encode_stretch, j, j->why);
	return e ? e : flush(j, true);
}

static enum err check_length(struct job *j, uint64_t train, uint64_t validation)
{
	uint64_t seq = j->p->seq, least = (TRAIN_SEQUENCES_MIN + 1) * seq;
	if (train < least)
		return err_why(j->why, ERR_range,
			"the text is too short: its training part has %llu tokens, at least "
			"%llu are needed for sequences of %llu; give more text, or shorter "
			"sequences",
			(unsigned long long)train, (unsigned long long)least,
			(unsigned long long)seq);
	if (j->p->validation > 0 && validation < seq + 1)
		return err_why(j->why, ERR_range,
			"the text is too short: its validation part gives at most %llu tokens, a "
			"sequence of %llu "
			"needs %llu; give more text, a larger validation share, or shorter "
			"sequences",
			(unsigned long long)validation, (unsigned long long)seq,
			(unsigned long long)seq + 1);
	return ERR_OK;
}

static enum err encode(struct job *j)
{
	struct manifest *m = j->manifest;
	j->bulk = bulk_new(j->tokenizer, j->pool);
	if (!j->bulk)
		return err_why(j->why, ERR_nomem, "no memory to encode a text");
	enum err e = encode_split(j, &m->train, j->cut);
	if (!e)
		e = encode_split(j, &m->validation, j->reader.total - j->cut);
	if (!e)
		e = check_length(j, m->train.tokens, m->validation.tokens);
	if (e)
		return e;
	m->vocab = tokenizer_vocab(j->tokenizer);
	for (unsigned i = 0; i < 3; i++)
		m->micronats[i] = (uint32_t)llround(1e6 * ngram_entropy(j->ngram, i + 1));
	const char *text = tokenizer_text(j->tokenizer);
	return write_blob(j, text, strlen(text), &m->tokenizer);
}

static enum err write_manifest(struct job *j)
{
	struct hash id;
	enum err e = manifest_print(j->manifest, j->why);
	if (e)
		return e;
	size_t n = strlen(j->manifest->text);
	e = write_blob(j, j->manifest->text, n, &id);
	if (e)
		return e;
	char *path = alloc_must_printf("%s/manifest.json", j->p->dir);
	e = file_write(path, j->manifest->text, n, 0644, j->why);
	free(path);
	return e;
}

/* ---- the whole */

static enum err check_settings(const struct prepare *p, struct why *why)
{
	if (p->n_texts == 0)
		return err_why(why, ERR_usage, "no text was given; name at least one text file");
	if (p->vocab < TOKENIZER_BYTES || p->vocab > TOKENIZER_BPE_VOCAB_MAX)
		return err_why(why, ERR_range, "a vocabulary has from %u to %u ids, not %u",
			TOKENIZER_BYTES, TOKENIZER_BPE_VOCAB_MAX, p->vocab);
	if (!(p->validation >= 0 && p->validation <= 0.5))
		return err_why(why, ERR_range, "the validation share goes from 0 to 0.5, not %g",
			p->validation);
	if (p->seq == 0 || p->seq > 1u << 20)
		return err_why(why, ERR_range, "a sequence has from 1 to %u tokens, not %u",
			1u << 20, p->seq);
	if (p->shard_bytes < 2 || p->shard_bytes > MANIFEST_SHARD_TOKENS_MAX)
		return err_why(why, ERR_range,
			"a shard holds from 2 to %u bytes of tokens, not %llu",
			MANIFEST_SHARD_TOKENS_MAX, (unsigned long long)p->shard_bytes);
	return ERR_OK;
}

static enum err make_room(struct job *j)
{
	j->pool = pool_new(j->p->threads);
	j->ngram = ngram_new();
	j->manifest = alloc_try(1, sizeof *j->manifest);
	if (!j->ngram || !j->manifest)
		return err_why(
			j->why, ERR_nomem, "no memory to prepare a text (about 100 MB are needed)");
	char *blobs = alloc_must_printf("%s/blobs", j->p->dir);
	enum err e = file_mkdirs(blobs, 0755, j->why);
	file_sweep(blobs, "");
	file_sweep(j->p->dir, "manifest.json.");
	free(blobs);
	return e;
}

static enum err run(struct job *j)
{
	enum err e = textreader_init(&j->reader, j->p->texts, j->p->n_texts, j->why);
	if (e)
		return e;
	uint64_t total = j->reader.total, held = (uint64_t)((double)total * j->p->validation);
	j->cut = total - held;
	/* A token is at least a byte: what is too short in bytes is refused before anything is
	 * written. */
	e = check_length(j, j->cut, held);
	if (!e)
		e = make_room(j);
	if (!e)
		e = get_tokenizer(j);
	if (!e)
		e = encode(j);
	return e ? e : write_manifest(j);
}

/* After a failure: blobs without a manifest are nobody's. */
static void remove_made(const struct job *j)
{
	for (size_t at = 0; at + sizeof(struct hash) <= j->made.len; at += sizeof(struct hash)) {
		struct hash h;
		char hex[HASH_HEX];
		memcpy(&h, j->made.data + at, sizeof h);
		hash_hex(&h, hex);
		char *path = alloc_must_printf("%s/blobs/%s", j->p->dir, hex);
		unlink(path);
		free(path);
	}
}

static void summarise(const struct job *j, struct prepare_summary *out)
{
	const struct manifest *m = j->manifest;
	*out = (struct prepare_summary){.manifest = m->id,
		.tokenizer = m->tokenizer,
		.vocab = m->vocab,
		.text_bytes = j->reader.total,
		.zero_bytes = j->zero_bytes,
		.train_bytes = m->train.text_bytes,
		.validation_bytes = m->validation.text_bytes,
		.train_tokens = m->train.tokens,
		.validation_tokens = m->validation.tokens,
		.train_shards = m->train.n_shards,
		.validation_shards = m->validation.n_shards};
	for (unsigned i = 0; i < 3; i++) {
		out->entropy[i] = ngram_entropy(j->ngram, i + 1);
		if (m->validation.text_bytes)
			out->held_out[i] = j->held_out[i] / (double)m->validation.text_bytes;
	}
}

enum err prepare(const struct prepare *p, struct prepare_summary *out, struct why *why)
{
	enum err e = check_settings(p, why);
	if (e)
		return e;
	struct job j = {.p = p, .why = why, .reader = {.fd = -1}};
	buf_init(&j.shard, TOKENFILE_HEAD + p->shard_bytes);
	buf_init(&j.made, 4 * MANIFEST_SHARDS_MAX * sizeof(struct hash));
	e = run(&j);
	if (e)
		remove_made(&j);
	else
		summarise(&j, out);
	textreader_release(&j.reader);
	bulk_free(j.bulk);
	pool_free(j.pool);
	bpe_free(j.bpe);
	tokenizer_free(j.tokenizer);
	ngram_free(j.ngram);
	manifest_free(j.manifest);
	free(j.tokens.id);
	buf_release(&j.shard);
	buf_release(&j.made);
	return e;
}
