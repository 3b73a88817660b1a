#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "model/prepare.h"
#include "peer/dataset.h"
#include "peer/trainer.h"
#include "round/exchange.h"
#include "tests/help_bench.h"
#include "tests/help_bench_codec.h"

#define MAKER 1u /* raised when other vectors come out of the same spec */
#define SEQ 128u
#define FOLDER "build/bench"
#define TEXT FOLDER "/new-testament.txt"
#define DATA FOLDER "/data"
#define SPEC_TEXT 2048
#define FILE_MOST ((size_t)1 << 32)

/* ---- what is trained, and on what */

/* The King James New Testament without the numbers of its verses, as make demo takes it. */
static const char *find_text(void)
{
	const char *given = getenv("TEXT");
	if (given)
		return given;
	struct stat there;
	if (stat(TEXT, &there) == 0 && there.st_size > 0)
		return TEXT;
	if (system("bible -f 'matt1:1-rev22:21' </dev/null 2>/dev/null | sed 's/^[^ ]* //' >" TEXT
		   ".tmp && test -s " TEXT ".tmp && mv " TEXT ".tmp " TEXT) != 0)
		help_bench_die("the package bible-kjv gave no text; name another with TEXT=FILE");
	return TEXT;
}

static struct spec *make_spec(const struct help_bench_training *t)
{
	const char *text = find_text();
	const struct prepare how = {.texts = &text,
		.n_texts = 1,
		.dir = DATA,
		.vocab = 256,
		.validation = 0.05,
		.seq = SEQ,
		.shard_bytes = PREPARE_SHARD_BYTES};
	struct prepare_summary data;
	struct why why = {0};
	if (prepare(&how, &data, &why))
		help_bench_die("%s", why.text);
	char manifest[HASH_HEX], json[SPEC_TEXT];
	hash_hex(&data.manifest, manifest);
	unsigned long long tokens =
		(unsigned long long)t->batch * SEQ * t->steps * t->crews * t->rounds;
	int len = snprintf(json, sizeof json,
		"{\"shoal\":1,\"name\":\"bench\",\"seed\":1,\"data\":{\"manifest\":\"%s\"},"
		"\"model\":{\"builder\":\"gpt\",\"layers\":%u,\"width\":%u,\"heads\":%u,"
		"\"context\":%u,\"vocab\":256,\"tied\":true,\"shards\":%u},"
		"\"train\":{\"batch\":%u,\"lr\":%g,\"warmup_tokens\":%llu,\"total_tokens\":%llu},"
		"\"round\":{\"mode\":\"fixed\",\"steps\":%u,\"peers_min\":%u},"
		"\"outer\":{\"rule\":\"sparseloco\",\"lr\":1},"
		"\"codec\":{\"select\":\"topk\",\"values\":\"two\",\"k\":64,\"decay\":0.95}}",
		manifest, t->layers, t->width, t->heads, SEQ, t->shards, t->batch, t->lr,
		tokens / 20, tokens, t->steps, t->crews);
	struct spec *spec;
	if (spec_parse(json, (size_t)len, &spec, NULL, &why))
		help_bench_die("%s", why.text);
	return spec;
}

/* ---- crews */

struct crew {
	struct trainer *trainer;
	float **v; /* of each shard: beta e + (base - W) from the cut on, e after it */
	struct codec_vector *sent;
};

struct training {
	const struct help_bench_training *how;
	struct spec *spec;
	struct dataset data;
	struct exchange exchange;
	struct crew *crews;
	float **g;        /* the state of each shard */
	float *w;         /* of one shard */
	size_t *n;        /* of each shard */
	uint64_t cursor;  /* the next fresh sequence */
	struct buf *kept; /* what goes into the file */
};

static void must(enum err e, const struct why *why)
{
	if (e)
		help_bench_die("%s", why->text);
}

static void open_crew(struct training *t, struct crew *c)
{
	struct why why = {0};
	const struct trainer_config how = {
		.spec = t->spec, .corpus = t->data.corpus, .training = true, .backend = "cpu"};
	must(trainer_new(&how, &c->trainer, &why), &why);
	c->v = alloc_must_zero(t->how->shards, sizeof *c->v);
	c->sent = alloc_must_zero(t->how->shards, sizeof *c->sent);
	for (uint32_t s = 0; s < t->how->shards; s++)
		c->v[s] = alloc_must_zero(trainer_count(c->trainer, s), sizeof **c->v);
}

static void open_training(struct training *t)
{
	struct why why = {0};
	size_t largest = 0;
	must(dataset_open(DATA, t->spec, false, &t->data, &why), &why);
	must(exchange_find(t->spec, &t->exchange, &why), &why);
	t->crews = alloc_must_zero(t->how->crews, sizeof *t->crews);
	for (uint32_t c = 0; c < t->how->crews; c++)
		open_crew(t, &t->crews[c]);
	struct trainer *first = t->crews[0].trainer;
	t->g = alloc_must_zero(t->how->shards, sizeof *t->g);
	t->n = alloc_must_zero(t->how->shards, sizeof *t->n);
	for (uint32_t s = 0; s < t->how->shards; s++) {
		t->n[s] = trainer_count(first, s);
		t->g[s] = alloc_must_zero(t->n[s], sizeof **t->g);
		trainer_read(first, s, PARAMS_value, t->g[s]);
		largest = t->n[s] > largest ? t->n[s] : largest;
	}
	t->w = alloc_must_zero(largest, sizeof *t->w);
}

static void close_training(struct training *t)
{
	for (uint32_t c = 0; c < t->how->crews; c++) {
		trainer_free(t->crews[c].trainer);
		for (uint32_t s = 0; s < t->how->shards; s++)
			free(t->crews[c].v[s]);
		free(t->crews[c].v);
		free(t->crews[c].sent);
	}
	for (uint32_t s = 0; s < t->how->shards; s++)
		free(t->g[s]);
	free(t->crews);
	free(t->g);
	free(t->n);
	free(t->w);
	dataset_release(&t->data);
}

/* ---- a round */

/* The crews' steps stand for steps at the same time, so that the learning rate is that of all. */
static double inner_steps(struct training *t, struct crew *c, uint32_t round)
{
	const struct help_bench_training *how = t->how;
	uint64_t *sequences = alloc_must_zero(how->batch, sizeof *sequences);
	uint64_t step_tokens = spec_step_tokens(t->spec) * how->crews;
	struct why why = {0};
	double loss = 0;
	for (uint32_t i = 0; i < how->steps; i++) {
		uint64_t done = (uint64_t)(round - 1) * how->steps + i + 1;
		for (uint32_t k = 0; k < how->batch; k++)
			sequences[k] = t->cursor++;
		must(trainer_step(c->trainer, sequences,
			     spec_lr(&t->spec->train, done * step_tokens), &loss, &why),
			&why);
	}
	free(sequences);
	return loss;
}

static void keep(struct training *t, uint32_t round, uint32_t crew, uint32_t shard)
{
	if (round != t->how->keep[0] && round != t->how->keep[1])
		return;
	buf_put_u32(t->kept, round);
	buf_put_u32(t->kept, crew);
	buf_put_u32(t->kept, shard);
	buf_put_u32(t->kept, (uint32_t)t->n[shard]);
	buf_put(t->kept, t->crews[crew].v[shard], t->n[shard] * sizeof(float));
}

static void cut(struct training *t, uint32_t round, uint32_t crew, uint32_t s)
{
	struct crew *c = &t->crews[crew];
	struct why why = {0};
	struct planes planes;
	trainer_read(c->trainer, s, PARAMS_value, t->w);
	for (size_t i = 0; i < t->n[s]; i++)
		c->v[s][i] = (float)(t->spec->codec.decay * (double)c->v[s][i] +
				     ((double)t->g[s][i] - (double)t->w[i]));
	keep(t, round, crew, s);
	planes_init(&planes, codec_bound(&t->exchange.codec, t->n[s]));
	must(codec_encode(&t->exchange.codec, c->v[s], t->n[s], NULL, &planes, &why), &why);
	must(codec_open(&t->exchange.codec, t->n[s], &planes.bytes, &c->sent[s], &why), &why);
	planes_release(&planes);
}

static void update(struct training *t, uint32_t s)
{
	struct rule_input *inputs = alloc_must_zero(t->how->crews, sizeof *inputs);
	struct rule_state state = {.params = t->g[s], .n = t->n[s]};
	struct why why = {0};
	for (uint32_t c = 0; c < t->how->crews; c++)
		inputs[c] =
			(struct rule_input){.peer = c, .tokens = 1, .vector = &t->crews[c].sent[s]};
	must(rule_apply(&t->exchange.rule, inputs, t->how->crews, &state, &why), &why);
	free(inputs);
	for (uint32_t c = 0; c < t->how->crews; c++) {
		if (codec_add(&t->crews[c].sent[s], -1, t->crews[c].v[s]))
			help_bench_die("out of memory");
		codec_release(&t->crews[c].sent[s]);
		trainer_write(t->crews[c].trainer, s, PARAMS_value, t->g[s]);
	}
}

static void train(struct training *t)
{
	uint64_t start = clock_now_ns();
	for (uint32_t round = 1; round <= t->how->rounds; round++) {
		double loss = 0;
		for (uint32_t c = 0; c < t->how->crews; c++) {
			loss += inner_steps(t, &t->crews[c], round);
			for (uint32_t s = 0; s < t->how->shards; s++)
				cut(t, round, c, s);
		}
		for (uint32_t s = 0; s < t->how->shards; s++)
			update(t, s);
		double took = clock_seconds(clock_now_ns() - start);
		fprintf(stderr,
			"bench: pseudo-gradients %s: round %u of %u, loss %.3f, %.0f s left\n",
			t->how->name, round, t->how->rounds, loss / t->how->crews,
			took / round * (t->how->rounds - round));
	}
}

/* ---- the file */

/* Of everything that the vectors follow from. */
static char *cache_path(const struct help_bench_training *t, const struct spec *spec)
{
	struct hash_state *h = hash_begin();
	float probe[8192];
	struct why why = {0};
	struct exchange exchange;
	struct planes planes;
	for (size_t i = 0; i < sizeof probe / sizeof *probe; i++)
		probe[i] = (float)(i * 2654435761u >> 7 & 1023) - 512;
	must(exchange_find(spec, &exchange, &why), &why);
	planes_init(&planes, codec_bound(&exchange.codec, sizeof probe / sizeof *probe));
	must(codec_encode(
		     &exchange.codec, probe, sizeof probe / sizeof *probe, NULL, &planes, &why),
		&why);
	hash_add(h, planes.bytes.data, planes.bytes.len);
	planes_release(&planes);
	hash_add(h, &spec->id, sizeof spec->id);
	for (size_t i = 0; i < sizeof t->keep / sizeof *t->keep; i++)
		hash_add_u32(h, t->keep[i]);
	hash_add_u32(h, t->rounds);
	hash_add_u32(h, MAKER);
	struct hash key = hash_end(h);
	char hex[HASH_HEX];
	hash_hex(&key, hex);
	return alloc_must_printf(FOLDER "/gradients-%s-%.16s.bin", t->name, hex);
}

/* Vectors over floats that lie warm on huge pages, so that no codec is timed with page faults. */
static void take(const struct file_map *file, struct help_bench_vectors *out)
{
	struct rd r;
	*out = (struct help_bench_vectors){0};
	if (arena_init(&out->floats, file->len))
		help_bench_die("out of memory");
	float *to = (float *)(void *)out->floats.base;
	rd_init(&r, file->data, file->len);
	while (rd_left(&r) > 0 && rd_ok(&r)) {
		struct help_bench_vector v = {rd_u32(&r), rd_u32(&r), rd_u32(&r), rd_u32(&r), to};
		rd_copy(&r, to, rd_left(&r) < v.n * sizeof *to ? 0 : v.n * sizeof *to);
		out->at = alloc_must_resize(out->at, out->count + 1, sizeof *out->at);
		out->at[out->count++] = v;
		out->n += v.n;
		to += v.n;
	}
	if (!rd_done(&r))
		help_bench_die("a file of pseudo-gradients under " FOLDER " is damaged: delete it");
}

void help_bench_train(const struct help_bench_training *how, struct help_bench_vectors *out)
{
	struct why why = {0};
	must(file_mkdirs(FOLDER, 0777, &why), &why);
	struct training t = {.how = how, .spec = make_spec(how)};
	char *path = cache_path(how, t.spec);
	if (!file_exists(path)) {
		struct buf kept;
		buf_init(&kept, FILE_MOST);
		t.kept = &kept;
		open_training(&t);
		train(&t);
		close_training(&t);
		if (!buf_ok(&kept))
			help_bench_die("out of memory");
		must(file_write(path, kept.data, kept.len, 0644, &why), &why);
		buf_release(&kept);
	}
	struct file_map file;
	must(file_map(path, &file, &why), &why);
	take(&file, out);
	file_unmap(&file);
	free(path);
	spec_free(t.spec);
}

void help_bench_vectors_release(struct help_bench_vectors *v)
{
	free(v->at);
	arena_release(&v->floats);
	*v = (struct help_bench_vectors){0};
}
