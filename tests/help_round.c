#include "tests/help_round.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "compress/codec.h"

static char folder[64];
static char *paths[64];
static size_t n_paths;

int help_round_setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/shoal-round.XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

int help_round_teardown(void **state)
{
	(void)state;
	while (n_paths > 0)
		free(paths[--n_paths]);
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *help_round_path(const char *name)
{
	assert_true(n_paths < sizeof paths / sizeof paths[0]);
	paths[n_paths] = alloc_must_printf("%s/%s", folder, name);
	return paths[n_paths++];
}

void help_round_told(const struct why *why, enum err code, const char *part)
{
	if (why->code != code || !strstr(why->text, part))
		print_error("wanted %s with \"%s\", got %s: %s\n", err_name(code), part,
			err_name(why->code), why->text);
	assert_int_equal(why->code, code);
	assert_non_null(strstr(why->text, part));
}

static struct sign_key *keys[HELP_ROUND_PEERS + 1];

static void free_keys(void)
{
	for (size_t i = 0; i <= HELP_ROUND_PEERS; i++)
		sign_free(keys[i]);
}

const struct sign_key *help_round_key(uint32_t peer)
{
	static bool registered;
	assert_true(peer >= 1 && peer <= HELP_ROUND_PEERS);
	if (!registered)
		registered = atexit(free_keys) == 0;
	if (!keys[peer]) {
		uint8_t secret[SIGN_SECRET];
		memset(secret, (int)peer, sizeof secret);
		assert_int_equal(sign_load(secret, &keys[peer]), ERR_OK);
	}
	return keys[peer];
}

bool help_round_lookup(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	(void)arg;
	if (peer < 1 || peer > HELP_ROUND_PEERS)
		return false;
	struct sign_public key = sign_public_of(help_round_key(peer));
	memcpy(out, key.b, SIGN_PUBLIC);
	return true;
}

struct hash help_round_hash(uint32_t number)
{
	return hash_of(&number, sizeof number);
}

float *help_round_vector(uint64_t seed, size_t n)
{
	float *v = alloc_must_zero(n, sizeof *v);
	for (size_t i = 0; i < n; i++)
		v[i] = (float)(rng_unit(seed, 7, i) - rng_unit(seed, 8, i));
	return v;
}

struct codec_vector help_round_encode(const struct codec_params *codec, const float *v, size_t n)
{
	struct planes planes;
	struct codec_vector out = {0};
	struct why why = {0};
	planes_init(&planes, codec_bound(codec, n));
	if (codec_encode(codec, v, n, NULL, &planes, &why) ||
		codec_open(codec, n, &planes.bytes, &out, &why))
		fail_msg("%s", why.text);
	planes_release(&planes);
	return out;
}

struct contribution help_round_says(uint32_t peer, uint64_t round, uint32_t shard)
{
	return (struct contribution){
		.run = help_round_hash(1),
		.parent = help_round_hash(2),
		.round = round,
		.shard = shard,
		.peer = peer,
		.tokens = 100,
		.n_spans = 1,
		.spans = {{100 * (uint64_t)peer, 100 * (uint64_t)peer + 10}},
	};
}

void help_round_seal(struct contribution *c, const struct codec_params *codec, const float *v,
	size_t n, struct buf *out)
{
	struct planes planes;
	planes_init(&planes, codec_bound(codec, n));
	assert_int_equal(codec_encode(codec, v, n, NULL, &planes, NULL), ERR_OK);
	assert_int_equal(
		contribution_seal(c, codec, &planes, help_round_key(c->peer), out), ERR_OK);
	planes_release(&planes);
}

void help_round_make(const struct help_round_want *want, struct help_round_bundle *out)
{
	struct buf sealed[HELP_ROUND_PEERS];
	struct update_part parts[HELP_ROUND_PEERS];
	struct why why = {0};
	for (uint32_t i = 0; i < want->count; i++) {
		float *v = help_round_vector(want->seed * 100 + i, want->n);
		float *all = help_round_vector(want->seed * 100 + 99, want->n);
		for (size_t j = 0; j < want->n; j++)
			v[j] += want->alike * all[j];
		free(all);
		struct contribution c = help_round_says(i + 1, want->round, want->shard);
		c.parent = want->parent;
		c.tokens = 100 + 7 * i;
		buf_init(&sealed[i], contribution_bound(&want->codec, want->n));
		help_round_seal(&c, &want->codec, v, want->n, &sealed[i]);
		parts[i] = (struct update_part){sealed[i].data, sealed[i].len};
		free(v);
	}
	struct update_head head = {help_round_hash(1), want->parent, want->round, want->shard, 0};
	buf_init(&out->bytes, 1 << 24);
	assert_int_equal(update_encode(&head, parts, want->count, &out->bytes, &why), ERR_OK);
	for (uint32_t i = 0; i < want->count; i++)
		buf_release(&sealed[i]);
	assert_int_equal(update_open(out->bytes.data, out->bytes.len, &out->update, &why), ERR_OK);
	struct update_expect expect = {.run = help_round_hash(1),
		.parent = want->parent,
		.codec = want->codec,
		.n = want->n,
		.key = help_round_lookup};
	if (update_verify(&out->update, &expect, &why))
		fail_msg("%s", why.text);
}

void help_round_drop(struct help_round_bundle *b)
{
	update_release(&b->update);
	buf_release(&b->bytes);
}
