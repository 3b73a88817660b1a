#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "coordinator/human.h"
#include "coordinator/inspect.h"
#include "model/spec.h"
#include "round/exchange.h"

static void row(const char *name, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void row(const char *name, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	printf("%-22s  ", name);
	vprintf(fmt, args);
	putchar('\n');
	va_end(args);
}

static void row_hash(const char *name, const struct hash *h, const char *when_zero)
{
	char hex[HASH_HEX];
	hash_hex(h, hex);
	row(name, "%s", hash_is_zero(h) ? when_zero : hex);
}

static void row_list(const char *name, const uint32_t *numbers, uint32_t n)
{
	printf("%-22s  [", name);
	for (uint32_t i = 0; i < n; i++)
		printf("%s%u", i ? ", " : "", numbers[i]);
	puts("]");
}

static void show_language(const struct model_config *m, bool llama)
{
	row("model.layers", "%u", m->layers);
	row("model.width", "%u", m->width);
	row("model.heads", "%u", m->heads);
	if (llama) {
		row("model.kv_heads", "%u", m->kv_heads);
		row("model.hidden", "%u", m->hidden);
		row("model.rope_theta", "%g", m->rope_theta);
	}
	row("model.norm_eps", "%g", m->norm_eps);
	row("model.context", "%u", m->context);
	row("model.vocab", "%u", m->vocab);
	row("model.tied", "%s", m->tied ? "true" : "false");
	row_list("model.shards", m->shard_first, m->n_shards);
}

static void show_images(const struct model_config *m)
{
	row_list("model.image", m->image, 3);
	row("model.classes", "%u", m->vocab);
}

static void show_resnet(const struct model_config *m)
{
	uint32_t stages = 0;
	while (stages < MODEL_STAGES && m->blocks[stages])
		stages++;
	row_list("model.blocks", m->blocks, stages);
	row("model.width", "%u", m->width);
	row("model.bottleneck", "%s", m->bottleneck ? "true" : "false");
	row("model.stem", "%s", m->small_stem ? "small" : "large");
	show_images(m);
	row_list("model.shards", m->shard_first, m->n_shards);
}

static void show_graph(const struct model_config *m)
{
	if (m->image[0]) {
		show_images(m);
	} else {
		row("model.context", "%u", m->context);
		row("model.vocab", "%u", m->vocab);
	}
	row("model.graph", "of %u shard%s (inspect model shows its nodes)", m->n_shards,
		m->n_shards == 1 ? "" : "s");
}

static void show_model(const struct model_config *m)
{
	row("model.builder", "%s", m->builder);
	if (!strcmp(m->builder, "resnet"))
		show_resnet(m);
	else if (!strcmp(m->builder, "graph"))
		show_graph(m);
	else
		show_language(m, !strcmp(m->builder, "llama"));
}

static void show_train(const struct spec_train *t)
{
	row("train.batch", "%u", t->batch);
	row("train.micro_batch", "%u", t->micro_batch);
	row("train.seq", "%u", t->seq);
	row("train.lr", "%g", t->lr);
	row("train.beta1", "%g", t->beta1);
	row("train.beta2", "%g", t->beta2);
	row("train.eps", "%g", t->eps);
	row("train.weight_decay", "%g", t->weight_decay);
	row("train.clip", "%g", t->clip);
	row("train.warmup_tokens", "%llu", (unsigned long long)t->warmup_tokens);
	row("train.total_tokens", "%llu", (unsigned long long)t->total_tokens);
	row("train.final_lr", "%g", t->final_lr);
	row("train.precision", "%s", t->precision == PRECISION_bf16 ? "bf16" : "float32");
	row("train.recompute", "%s", t->recompute ? "true" : "false");
}

static void show_round(const struct spec_round *r)
{
	row("round.mode", "%s", r->mode == SPEC_fixed ? "fixed" : "timed");
	if (r->mode == SPEC_fixed)
		row("round.steps", "%u", r->steps);
	else
		row("round.seconds", "%g", r->seconds);
	row("round.peers_min", "%u", r->peers_min);
	row("round.quorum", "%g", r->quorum);
	row("round.overlap", "%s", r->overlap ? "true" : "false");
	row("round.fragments", "%u", r->fragments);
	row("round.validate_every", "%u", r->validate_every);
	row("round.snapshot_every", "%u", r->snapshot_every);
}

static void show_exchange(
	const struct spec_outer *o, const struct spec_codec *c, const struct exchange *x)
{
	char codec[CODEC_NAME_MAX];
	codec_describe(&x->codec, codec);
	row("outer.rule", "%s", o->rule);
	row("outer.lr", "%g", o->lr);
	row("outer.momentum", "%g", o->momentum);
	row("outer.merged", "%s", x->merged ? values_row(x->merged)->name : "never");
	row("codec.select", "%s", c->select);
	row("codec.values", "%s", c->values);
	row("codec.dct", "%s", c->dct ? "true" : "false");
	row("codec.chunk", "%u", c->chunk);
	row("codec.k", "%u", x->codec.k);
	row("codec.threshold", "%g", c->threshold);
	row("codec.decay", "%g", c->decay);
	row("codec", "%s", codec);
}

/* What follows from the members. */
static void show_sizes(const struct spec *s)
{
	char a[HUMAN_TEXT];
	uint64_t step = spec_step_tokens(s);
	row("tokens of a step", "%s on each peer", human_count(step, a));
	if (s->round.mode != SPEC_fixed)
		return;
	uint64_t round = step * s->round.steps * s->round.peers_min;
	row("tokens of a round", "%s with %u peer%s", human_count(round, a), s->round.peers_min,
		s->round.peers_min == 1 ? "" : "s");
	row("rounds", "%s with %u peer%s",
		human_count((s->train.total_tokens + round - 1) / round, a), s->round.peers_min,
		s->round.peers_min == 1 ? "" : "s");
}

static void show(const struct spec *s, const struct exchange *x)
{
	row_hash("run", &s->id, "");
	row("shoal", "%d", SPEC_VERSION);
	row("name", "%s", s->name);
	row("seed", "%llu", (unsigned long long)s->seed);
	row_hash("init", &s->init, "(drawn from the seed)");
	show_model(&s->model);
	row_hash("data.manifest", &s->manifest, "(none: a template, to be filled in by prepare)");
	show_train(&s->train);
	show_round(&s->round);
	show_exchange(&s->outer, &s->codec, x);
	show_sizes(s);
}

enum err inspect_spec(const struct inspect *i, struct why *why)
{
	struct spec *s = NULL;
	struct buf mistakes;
	buf_init(&mistakes, SPEC_MISTAKES_MAX);
	enum err err = spec_load(i->path, i->sets, i->n_sets, &s, &mistakes, why);
	if (mistakes.len) {
		size_t n = 0;
		for (size_t k = 0; k < mistakes.len; k++)
			n += mistakes.data[k] == '\n';
		fprintf(stderr, "%.*s", (int)mistakes.len, (const char *)mistakes.data);
		err = err_why(
			why, err, "%s: %zu mistake%s, named above", i->path, n, n == 1 ? "" : "s");
	}
	buf_release(&mistakes);
	/* The spec's reader knows the form of some words only. */
	struct exchange exchange;
	struct why inner = {0};
	if (!err && exchange_find(s, &exchange, &inner))
		err = err_why(why, inner.code, "%s: %s", i->path, inner.text);
	if (!err)
		show(s, &exchange);
	spec_free(s);
	return err;
}
