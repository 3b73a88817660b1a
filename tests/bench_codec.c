/*
 * What the codecs make of real pseudo-gradients: of two crews that train a GPT of 3 million
 * parameters in turn, early and late (help_bench_codec.h).  Bits per parameter as they travel,
 * beside the order-0 entropy of what is sent; the error that is left for error feedback; how fast
 * one thread encodes, and checks and adds what was sent, beside the memory's own speed.  Then what
 * zstd makes of each plane, what it makes of floats alone, and what a round's contributions come to
 * when they are merged.  Tables, build/bench/codec.json, and one line of key=value.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "model/half.h"
#include "tests/help_bench.h"
#include "tests/help_bench_codec.h"

#define RUNS HELP_BENCH_RUNS
#define SEED 1 /* of randk */

static const struct help_bench_training deep = {.name = "deep",
	.layers = 4,
	.width = 256,
	.heads = 4,
	.shards = 4,
	.batch = 2,
	.steps = 30,
	.crews = 2,
	.rounds = 32,
	.lr = 1e-3,
	.keep = {4, 32}};

/* Many crews, so that as many real contributions of one round can be merged. */
static const struct help_bench_training wide = {.name = "wide",
	.layers = 2,
	.width = 128,
	.heads = 4,
	.shards = 1,
	.batch = 1,
	.steps = 20,
	.crews = 64,
	.rounds = 8,
	.lr = 2e-3,
	.keep = {8}};

#define TOPK(k, kind) \
	{ \
		"topk", kind, false, 4096, k, 0 \
	}
static const struct codec_words codecs[] = {
	TOPK(64, "two"),   /* OURS */
	TOPK(64, "mean2"), /* SPARSELOCO */
	TOPK(64, "bf16"),
	TOPK(64, "int8"),
	TOPK(64, "int4"),
	TOPK(64, "int2"),
	TOPK(64, "sign"),
	TOPK(64, "e3m0"),
	TOPK(64, "log4"),
	TOPK(64, "ternary"),
	TOPK(32, "two"),
	TOPK(128, "two"),
	TOPK(256, "two"),
	TOPK(512, "two"),
	{"randk", "two", false, 4096, 64, 0},
	{"threshold", "two", false, 4096, 256, 2},
	{"topk", "two", true, 4096, 64, 0},
	{"topk", "sign", true, 4096, 64, 0},
	{"all", "int8", false, 256, 0, 0},
	{"all", "int4", false, 256, 0, 0},
	{"all", "sign", false, 256, 0, 0},
	{"all", "ternary", false, 256, 0, 0},
	{"all", "mean8", false, 4096, 0, 0},
	{"all", "bf16", false, 4096, 0, 0},
	{"all", "f32", false, 4096, 0, 0},
};
enum { OURS, SPARSELOCO, CODECS = sizeof codecs / sizeof *codecs };

struct row {
	struct codec_params codec;
	char name[CODEC_NAME_MAX];
	struct help_bench_size size;
	/* M parameters/s, and of decode M kept values/s */
	double encode[RUNS], pack[RUNS], unpack[RUNS], decode[RUNS];
	struct help_bench_spread encoded, packed, unpacked, decoded;
};

/* ---- measuring */

static void find(struct row *r, const struct codec_words *words)
{
	struct why why;
	if (codec_find(words, &r->codec, &why))
		help_bench_die("%s", why.text);
	if (select_row(r->codec.select)->takes_seed)
		r->codec.seed = SEED;
	codec_describe(&r->codec, r->name);
}

/* The codecs take turns, so that another's load on the machine meets them all. */
static void measure(struct row *rows, const struct help_bench_vectors *v)
{
	for (int i = 0; i < CODECS; i++) {
		find(&rows[i], &codecs[i]);
		help_bench_size(&rows[i].codec, v, &rows[i].size);
		help_bench_time(&rows[i].codec, v); // warms up
	}
	for (int run = 0; run < RUNS; run++)
		for (int i = 0; i < CODECS; i++) {
			struct row *r = &rows[i];
			struct help_bench_seconds s = help_bench_time(&r->codec, v);
			double m = (double)r->size.n / 1e6;
			r->encode[run] = m / s.encode;
			r->pack[run] = m / s.pack;
			r->unpack[run] = m / s.unpack;
			r->decode[run] = (double)r->size.kept / 1e6 / s.decode;
		}
	for (int i = 0; i < CODECS; i++) {
		struct row *r = &rows[i];
		r->encoded = help_bench_spread(r->encode);
		r->packed = help_bench_spread(r->pack);
		r->unpacked = help_bench_spread(r->unpack);
		r->decoded = help_bench_spread(r->decode);
	}
}

/* ---- figures of a row */

static double bits(const struct row *r)
{
	return 8 * r->size.all.framed / (double)r->size.n;
}

static double over_entropy(const struct row *r)
{
	return 8 * r->size.all.framed / r->size.all.entropy - 1;
}

static double relerr(const struct row *r)
{
	return sqrt(r->size.error / r->size.norm);
}

static double relerr_kept(const struct row *r)
{
	return sqrt(r->size.kept_error / r->size.kept_norm);
}

/* Of the memory's speed: what must move is 4 bytes of each parameter when it is encoded, and when a
 * value is added its planes and the 8 bytes that are read and written. */
static double encode_share(const struct row *r, double memory)
{
	return r->encoded.median * 4 / 1e3 / memory;
}

static double decode_share(const struct row *r, double memory)
{
	double each = 8 + r->size.all.bytes / (double)r->size.kept;
	return r->decoded.median * each / 1e3 / memory;
}

/* ---- telling */

static void print_rows(const struct row *rows, double memory)
{
	printf("%-30s %9s %7s %7s %7s %6s %6s  %21s %5s %6s %6s  %21s %5s\n", "", "bits a",
		"planes", "entropy", "over", "error", "error", "M parameters/s", "of", "M p/s",
		"M p/s", "M values/s", "of");
	printf("%-30s %9s %7s %7s %7s %6s %6s  %21s %5s %6s %6s  %21s %5s\n", "codec", "parameter",
		"", "", "", "", "kept", "encode", "mem.", "pack", "unpack", "check and add",
		"mem.");
	for (int i = 0; i < CODECS; i++) {
		const struct row *r = &rows[i];
		double n = (double)r->size.n;
		printf("%-30s %9.4f %7.4f %7.4f %6.2f%% %6.4f %6.4f  %5.0f (%5.0f to %5.0f) %5.3f "
		       "%6.0f %6.0f  %5.0f (%5.0f to %5.0f) %5.3f\n",
			r->name, bits(r), 8 * r->size.all.bytes / n, r->size.all.entropy / n,
			100 * over_entropy(r), relerr(r), relerr_kept(r), r->encoded.median,
			r->encoded.least, r->encoded.most, encode_share(r, memory),
			r->packed.median, r->unpacked.median, r->decoded.median, r->decoded.least,
			r->decoded.most, decode_share(r, memory));
	}
}

/* What others send: float32, float16, and SparseLoCo's fixed places of 12 bits with 2 bits of
 * value and mean2's means. */
static json_t *tell_plain(const struct row *sparseloco, const struct help_bench_vectors *v)
{
	double error = 0, norm = 0;
	for (size_t i = 0; i < v->count; i++)
		for (size_t k = 0; k < v->at[i].n; k++) {
			double x = (double)v->at[i].v[k];
			double d = x - (double)half_from_f16(half_to_f16(v->at[i].v[k]));
			norm += x * x;
			error += d * d;
		}
	double fixed = (14 * (double)sparseloco->size.kept +
			       8 * sparseloco->size.plane[HELP_BENCH_side].bytes) /
		       (double)sparseloco->size.n;
	printf("%-30s %9.4f\n%-30s %9.4f %7s %7s %7s %6.4f\n%-30s %9.4f %7s %7s %7s %6.4f %6.4f\n",
		"float32", 32.0, "float16", 16.0, "", "", "", sqrt(error / norm),
		"12 + 2 bits of each kept", fixed, "", "", "", relerr(sparseloco),
		relerr_kept(sparseloco));
	return json_pack("{s:f,s:f,s:f,s:f}", "float32_bits", 32.0, "float16_bits", 16.0,
		"float16_relerr", sqrt(error / norm), "fixed_places_bits", fixed);
}

static double gain(double before, double after)
{
	return before > 0 ? 100 * (1 - after / before) : 0;
}

static void print_planes(const struct row *r)
{
	printf("\n%s\n%-10s %9s %8s %6s %8s %6s %8s %6s %9s\n", r->name, "plane", "bytes", "frame",
		"gain", "level 1", "gain", "level 3", "gain", "entropy");
	for (int k = 0; k <= HELP_BENCH_PLANES; k++) {
		const struct help_bench_plane_size *p =
			k < HELP_BENCH_PLANES ? &r->size.plane[k] : &r->size.all;
		if (p->bytes == 0)
			continue;
		printf("%-10s %9.0f %8.0f %5.1f%% %8.0f %5.1f%% %8.0f %5.1f%% %9.0f\n",
			k < HELP_BENCH_PLANES ? help_bench_plane_names[k] : "all", p->bytes,
			p->framed, gain(p->bytes, p->framed), p->level1, gain(p->bytes, p->level1),
			p->level3, gain(p->bytes, p->level3), p->entropy / 8);
	}
}

static json_t *spread_json(const struct help_bench_spread *s)
{
	return json_pack("{s:f,s:f,s:f}", "median", s->median, "least", s->least, "most", s->most);
}

static json_t *planes_json(const struct row *r)
{
	json_t *all = json_object();
	for (int k = 0; k < HELP_BENCH_PLANES; k++) {
		const struct help_bench_plane_size *p = &r->size.plane[k];
		if (p->bytes > 0)
			json_object_set_new(all, help_bench_plane_names[k],
				json_pack("{s:f,s:f,s:f,s:f,s:f}", "bytes", p->bytes, "frame",
					p->framed, "level1", p->level1, "level3", p->level3,
					"entropy_bits", p->entropy));
	}
	return all;
}

static json_t *row_json(const struct row *r, double memory)
{
	double n = (double)r->size.n;
	return json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:o,s:o,s:f,s:f,s:o}",
		"codec", r->name, "kept", (double)r->size.kept / n, "bits", bits(r), "planes_bits",
		8 * r->size.all.bytes / n, "entropy_bits", r->size.all.entropy / n, "over_entropy",
		over_entropy(r), "relerr", relerr(r), "relerr_kept", relerr_kept(r), "level3_bits",
		8 * r->size.all.level3 / n, "encode_mparam_s", spread_json(&r->encoded),
		"pack_mparam_s", spread_json(&r->packed), "unpack_mparam_s",
		spread_json(&r->unpacked), "decode_mvalue_s", spread_json(&r->decoded),
		"encode_of_memory", encode_share(r, memory), "decode_of_memory",
		decode_share(r, memory), "planes", planes_json(r));
}

static void save(json_t *all)
{
	if (json_dump_file(all, "build/bench/codec.json", JSON_INDENT(1)) != 0)
		help_bench_die("build/bench/codec.json cannot be written");
	json_decref(all);
}

static void tell(const struct row *rows)
{
	const struct row *ours = &rows[OURS], *other = &rows[SPARSELOCO];
	printf("\nbench: codec bits_k64=%.4f over_entropy=%.4f relerr_ours=%.4f "
	       "relerr_sparseloco=%.4f enc_mparam_s=%.0f dec_mvalue_s=%.0f zstd_gain=%.3f\n",
		bits(ours), fmax(over_entropy(ours), over_entropy(other)), relerr_kept(ours),
		relerr_kept(other), ours->encoded.median, ours->decoded.median,
		1 - ours->size.all.framed / ours->size.all.bytes);
}

int main(void)
{
	struct help_bench_vectors v, many;
	struct row *rows = alloc_must_zero(CODECS, sizeof *rows);
	help_bench_train(&deep, &v);
	help_bench_train(&wide, &many);
	double before = help_bench_memory(1);
	measure(rows, &v);
	double after = help_bench_memory(1), memory = before > after ? before : after;
	printf("%zu pseudo-gradients of rounds %u and %u, %zu values; memory %.1f GB/s\n", v.count,
		deep.keep[0], deep.keep[1], v.n, memory);
	print_rows(rows, memory);
	json_t *plain = tell_plain(&rows[SPARSELOCO], &v), *table = json_array();
	for (int i = 0; i < CODECS; i++) {
		if (i <= SPARSELOCO || rows[i].codec.k >= 256)
			print_planes(&rows[i]);
		json_array_append_new(table, row_json(&rows[i], memory));
	}
	json_t *alone = help_bench_zstd(&v.at[v.count - 1]);
	json_t *merged = help_bench_merge(&rows[OURS].codec, &many);
	save(json_pack("{s:I,s:f,s:o,s:o,s:o,s:o}", "values", (json_int_t)v.n, "memory_gbs", memory,
		"codecs", table, "plain", plain, "zstd", alone, "merged", merged));
	tell(rows);
	help_bench_vectors_release(&v);
	help_bench_vectors_release(&many);
	free(rows);
	return 0;
}
