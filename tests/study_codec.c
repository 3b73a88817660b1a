/*
 * What codecs and rules cost in loss: one crew after the other trains for real, cuts, and the rule
 * joins what they sent, as in a run but without a network.  One process is one (row, seed);
 * tests/study.sh runs what is missing.
 *
 *   study_codec list                     rows, one a line: the name, and all that makes the row
 *   study_codec run SPEC DATA ROW SEED FILE [LR [MOMENTUM]]   trains and writes one JSON object
 *   study_codec table FILE...            Markdown from all of them, and the last line
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/version.h"
#include "tests/help_study.h"

#define CREWS 4u
#define STEPS 30u
#define ROUNDS 300u

/*
 * lr and momentum are the best by the loss after all rounds of seed 1, of these that were tried:
 *   dense       0.5 with 0.8, 0.9; 0.7 with 0.7, 0.9; 0.9 with 0.9; 1 with 0.5, 0.8
 *   two-32      1, 1.5, 2, 2.5        two-64      0.7, 1, 1.5, 2, 2.5
 *   two-128     0.7, 1, 1.5           two-512     0.7, 1, 1.5
 *   Q2-64       1, 1.5, 2             DeMo-64     1, 1.5
 *   Q2-64-R     2, 3, 4, 5, 7         Q2-512-R    1, 2, 3, 5
 * The other rows take their neighbours'.
 */
struct row {
	const char *name, *select, *values;
	bool dct;
	uint32_t chunk, k;
	const char *rule;
	double lr, momentum;
};
static const struct row rows[] = {
	{"dense", "all", "f32", false, 4096, 0, "diloco", 0.7, 0.9},
	{"int8", "all", "int8", false, 1024, 0, "diloco", 0.7, 0.9},
	{"int4", "all", "int4", false, 256, 0, "diloco", 0.7, 0.9},
	{"two-32", "topk", "two", false, 4096, 32, "sparseloco", 1, 0},
	{"two-64", "topk", "two", false, 4096, 64, "sparseloco", 1, 0},
	{"two-128", "topk", "two", false, 4096, 128, "sparseloco", 1, 0},
	{"two-512", "topk", "two", false, 4096, 512, "sparseloco", 1, 0},
	{"sign-64", "topk", "sign", false, 4096, 64, "sparseloco", 1, 0},
	{"Q2-32", "topk", "mean2", false, 4096, 32, "sparseloco", 1.5, 0},
	{"Q2-64", "topk", "mean2", false, 4096, 64, "sparseloco", 1.5, 0},
	{"Q2-128", "topk", "mean2", false, 4096, 128, "sparseloco", 1.5, 0},
	{"Q2-512", "topk", "mean2", false, 4096, 512, "sparseloco", 1, 0},
	{"Q2-32-R", "topk", "mean2", false, 4096, 32, "mean_R", 5, 0},
	{"Q2-64-R", "topk", "mean2", false, 4096, 64, "mean_R", 5, 0},
	{"Q2-128-R", "topk", "mean2", false, 4096, 128, "mean_R", 5, 0},
	{"Q2-512-R", "topk", "mean2", false, 4096, 512, "mean_R", 3, 0},
	{"two-64-R", "topk", "two", false, 4096, 64, "mean_R", 5, 0},
	{"DeMo-64", "topk", "bf16", true, 4096, 64, "sparseloco", 1, 0},
	{"DeMo-64-sign", "topk", "sign", true, 4096, 64, "sparseloco", 1, 0},
	{"DeMo-32-sign", "topk", "sign", true, 4096, 32, "sparseloco", 1, 0},
};
#define N_ROWS (sizeof rows / sizeof rows[0])
static const uint32_t marks[] = {30, 100, 300};
#define N_MARKS 3u

/* ---- a run */

struct study {
	struct help_study crews;
	double loss[N_MARKS];
};

static void open_study(struct study *s, const struct row *row, const char *spec, const char *data,
	const char *seed)
{
	char set[40];
	const char *sets[] = {set};
	const struct codec_words words = {
		row->select, row->values, row->dct, row->chunk, row->k, 0};
	snprintf(set, sizeof set, "seed=%s", seed);
	s->crews = (struct help_study){.crews = CREWS, .steps = STEPS};
	help_study_fine(codec_find(&words, &s->crews.codec, &help_study_why));
	help_study_fine(
		rule_find(row->rule, row->lr, row->momentum, &s->crews.rule, &help_study_why));
	help_study_open(&s->crews, spec, data, sets, 1);
}

static void write_result(
	const struct study *all, const struct row *row, const char *seed, const char *path)
{
	const struct help_study *s = &all->crews;
	char codec[CODEC_NAME_MAX], id[HASH_HEX];
	codec_describe(&s->codec, codec);
	hash_hex(&s->spec->id, id);
	double per = (double)s->all * ROUNDS * CREWS;
	json_t *o = json_pack(
		"{s:s, s:s, s:s, s:s, s:f, s:f, s:i, s:s, s:i, s:f, s:f, s:f, s:f, s:f}", "program",
		version_text(), "row", row->name, "codec", codec, "rule", row->rule, "lr", row->lr,
		"momentum", row->momentum, "seed", atoi(seed), "spec", id, "parameters",
		(int)s->all, "bits_up", s->bits / per, "error", sqrt(s->off / (s->off + s->norm)),
		"loss_30", all->loss[0], "loss_100", all->loss[1], "loss_300", all->loss[2]);
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	if (!text) {
		fprintf(stderr, "study_codec: no memory for the result\n");
		exit(1);
	}
	help_study_fine(file_write(path, text, strlen(text), 0644, &help_study_why));
	printf("%s\n", text);
	free(text);
	json_decref(o);
}

static int run(char **a, int n)
{
	struct study s = {0};
	struct row row = {0};
	for (size_t i = 0; i < N_ROWS; i++)
		if (!strcmp(rows[i].name, a[2]))
			row = rows[i];
	if (!row.name) {
		fprintf(stderr, "study_codec: there is no row \"%s\"; see study_codec list\n",
			a[2]);
		return 1;
	}
	if (n > 5)
		row.lr = atof(a[5]);
	if (n > 6)
		row.momentum = atof(a[6]);
	open_study(&s, &row, a[0], a[1], a[3]);
	for (uint32_t r = 1, mark = 0; r <= ROUNDS; r++) {
		help_study_round(&s.crews);
		if (r == marks[mark])
			s.loss[mark++] = help_study_loss(&s.crews);
	}
	write_result(&s, &row, a[3], a[4]);
	help_study_close(&s.crews);
	return 0;
}

/* ---- the table */

struct outcome {
	double loss[N_MARKS], least, most, up, error, lr, momentum;
	char codec[CODEC_NAME_MAX], rule[24];
	int seeds;
};

static void add_result(struct outcome *all, json_t *o)
{
	const char *name = json_string_value(json_object_get(o, "row"));
	size_t i = 0;
	while (i < N_ROWS && (!name || strcmp(rows[i].name, name) != 0))
		i++;
	if (i == N_ROWS)
		return;
	struct outcome *r = &all[i];
	static const char *const keys[] = {"loss_30", "loss_100", "loss_300"};
	for (unsigned m = 0; m < N_MARKS; m++)
		r->loss[m] += json_number_value(json_object_get(o, keys[m]));
	double last = json_number_value(json_object_get(o, keys[2]));
	r->least = r->seeds == 0 || last < r->least ? last : r->least;
	r->most = r->seeds == 0 || last > r->most ? last : r->most;
	r->up += json_number_value(json_object_get(o, "bits_up"));
	r->error += json_number_value(json_object_get(o, "error"));
	r->lr = json_number_value(json_object_get(o, "lr"));
	r->momentum = json_number_value(json_object_get(o, "momentum"));
	snprintf(r->codec, sizeof r->codec, "%s", json_string_value(json_object_get(o, "codec")));
	snprintf(r->rule, sizeof r->rule, "%s", json_string_value(json_object_get(o, "rule")));
	r->seeds++;
}

static void print_row(const char *name, const struct outcome *r, double dense)
{
	char step[24];
	snprintf(step, sizeof step, r->momentum > 0 ? "%g, %g" : "%g", r->lr, r->momentum);
	printf("| %s | %s | %s %s | %.4f | %.3f | %.3f | %.4f | %.4f | %.4f (%.4f to %.4f) | %+.2f "
	       "%% | %d |\n",
		name, r->codec, r->rule, step, r->up, r->up * CREWS, r->error, r->loss[0],
		r->loss[1], r->loss[2], r->least, r->most, 100 * (r->loss[2] / dense - 1),
		r->seeds);
}

static void load_results(struct outcome *all, const char *path)
{
	json_error_t error;
	json_t *file = json_load_file(path, 0, &error);
	if (!file) {
		fprintf(stderr, "study_codec: %s: %s\n", path, error.text);
		exit(1);
	}
	if (json_is_array(file)) {
		size_t i;
		json_t *o;
		json_array_foreach(file, i, o) add_result(all, o);
	} else {
		add_result(all, file);
	}
	json_decref(file);
}

static int table(char **paths, int n)
{
	struct outcome all[N_ROWS] = {0};
	for (int i = 0; i < n; i++)
		load_results(all, paths[i]);
	double gap = NAN, best_bits = INFINITY;
	const char *best = "none";
	for (size_t i = 0; i < N_ROWS; i++) {
		struct outcome *r = &all[i];
		for (unsigned m = 0; m < N_MARKS && r->seeds; m++)
			r->loss[m] /= r->seeds;
		if (r->seeds) {
			r->up /= r->seeds;
			r->error /= r->seeds;
		}
	}
	double dense = all[0].loss[2];
	printf("| row | codec | rule | bits up | bits down | error | loss, 30 rounds | 100 | 300 "
	       "(seeds) | to dense | seeds |\n"
	       "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct outcome *r = &all[i];
		if (!r->seeds)
			continue;
		print_row(rows[i].name, r, dense);
		double off = r->loss[2] / dense - 1;
		if (rows[i].k == 64 && (isnan(gap) || off < gap))
			gap = off;
		if (off <= 0.01 && r->up < best_bits) {
			best_bits = r->up;
			best = rows[i].name;
		}
	}
	if (isnan(gap) || !all[0].seeds) {
		printf("study: incomplete, neither dense nor k = 64 are there yet\n");
		return 1;
	}
	printf("study: ok loss_gap_k64=%.4f best=%s\n", gap, best);
	return 0;
}

static int list(void)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct row *r = &rows[i];
		printf("%s %s,%s,%d,%u,%u,%s,%g,%g\n", r->name, r->select, r->values, r->dct,
			r->chunk, r->k, r->rule, r->lr, r->momentum);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 7 && !strcmp(argv[1], "run"))
		return run(argv + 2, argc - 2);
	if (argc >= 3 && !strcmp(argv[1], "table"))
		return table(argv + 2, argc - 2);
	if (argc == 2 && !strcmp(argv[1], "list"))
		return list();
	fprintf(stderr, "usage: study_codec list | run SPEC DATA ROW SEED FILE [LR [MOMENTUM]] | "
			"table FILE...\n");
	return 2;
}
