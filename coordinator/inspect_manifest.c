#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/alloc.h"
#include "coordinator/human.h"
#include "coordinator/inspect.h"
#include "model/manifest.h"

/* Whether the blob lies beside the manifest with the length that it should have. */
static const char *state_of(const char *dir, const char *hex, uint64_t bytes)
{
	struct stat st;
	char *path = alloc_must_printf("%s/blobs/%s", dir, hex);
	const char *state = stat(path, &st) ? "missing" : "there";
	if (*state == 't' && bytes && (uint64_t)st.st_size != bytes)
		state = "wrong size";
	free(path);
	return state;
}

static void show_split(const char *name, const struct manifest_split *split, const char *dir)
{
	char a[HUMAN_TEXT], b[HUMAN_TEXT], hex[HASH_HEX];
	for (size_t i = 0; i < split->n_shards; i++) {
		const struct manifest_shard *s = &split->shards[i];
		hash_hex(&s->hash, hex);
		printf("%-10s  %s  %14s  %14s  %s\n", name, hex, human_count(s->tokens, a),
			human_count(s->bytes, b), state_of(dir, hex, s->bytes));
	}
}

static void show(const struct manifest *m, const char *dir)
{
	char a[HUMAN_TEXT], b[HUMAN_TEXT], hex[HASH_HEX];
	hash_hex(&m->id, hex);
	printf("manifest    %s\n", hex);
	hash_hex(&m->tokenizer, hex);
	printf("tokenizer   %s, %s tokens, %s\n", hex, human_count(m->vocab, a),
		state_of(dir, hex, 0));
	printf("train       %s tokens of %s bytes of text\n", human_count(m->train.tokens, a),
		human_count(m->train.text_bytes, b));
	printf("validation  %s tokens of %s bytes of text\n", human_count(m->validation.tokens, a),
		human_count(m->validation.text_bytes, b));
	printf("entropy     unigram %.3f, bigram %.3f, trigram %.3f nats per byte\n",
		m->micronats[0] / 1e6, m->micronats[1] / 1e6, m->micronats[2] / 1e6);
	printf("\n%-10s  %-64s  %14s  %14s\n", "split", "shard", "tokens", "bytes");
	show_split("train", &m->train, dir);
	show_split("validation", &m->validation, dir);
}

enum err inspect_manifest(const struct inspect *i, struct why *why)
{
	struct stat st;
	bool folder = !stat(i->path, &st) && S_ISDIR(st.st_mode);
	char *path = alloc_must_printf("%s%s", i->path, folder ? "/manifest.json" : "");
	char *dir = alloc_must_strdup(path);
	char *slash = strrchr(dir, '/');
	if (slash)
		*slash = 0;
	struct manifest *m = NULL;
	enum err err = manifest_load(path, &m, why);
	if (!err)
		show(m, slash ? dir : ".");
	manifest_free(m);
	free(dir);
	free(path);
	return err;
}
