/* The coordinator's offline tools as a user meets them: real processes, their output, their exit
 * status, and what they leave on disk. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "model/checkpoint.h"
#include "model/manifest.h"
#include "model/safetensors.h"
#include "tests/help_proc.h"

#define TOOL "shoal-coordinator"
#define DEMO "configs/demo.json"
#define RESNET50 \
	"{\"shoal\": 1, \"name\": \"resnet50\", \"seed\": 1, \"model\": {\"builder\": " \
	"\"resnet\", " \
	"\"blocks\": [3, 4, 6, 3], \"bottleneck\": true, \"image\": [3, 224, 224], \"classes\": " \
	"1000}, " \
	"\"train\": {\"batch\": 8, \"lr\": 0.001, \"total_tokens\": 1000}, \"round\": {\"mode\": " \
	"\"fixed\", \"steps\": 1}, \"outer\": {\"rule\": \"sparseloco\"}, \"codec\": " \
	"{\"select\": \"topk\", \"values\": \"two\", \"k\": 64}}"
#define WAIT 60

static const char *read_text(const char *path)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	struct why why = {0};
	if (file_read(path, 64u << 20, &bytes, &n, &why))
		fail_msg("%s", why.text);
	const char *text = proc_text("%s", (const char *)bytes);
	free(bytes);
	return text;
}

static void write_text(const char *path, const char *text)
{
	struct why why = {0};
	if (file_write(path, text, strlen(text), 0644, &why))
		fail_msg("%s", why.text);
}

/* Some English-like text that a BPE finds repetitions in. */
static const char *make_text(const char *dir)
{
	static const char *const words[] = {
		"the", "and", "light", "was", "called", "day", "earth", "waters", "42", "Night"};
	struct buf b;
	buf_init(&b, 1 << 20);
	for (uint32_t i = 0, x = 7; i < 4000; i++) {
		x = x * 1103515245u + 12345u;
		buf_printf(&b, "%s%s", words[(x >> 16) % 10],
			i % 17 == 16 ? ".\n\n"
			: i % 5 == 4 ? ", "
				     : " ");
	}
	const char *path = proc_text("%s/text.txt", dir);
	struct why why = {0};
	assert_int_equal(file_write(path, b.data, b.len, 0644, &why), ERR_OK);
	buf_release(&b);
	return path;
}

static void holds(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

/* A refusal: the status, one line that holds says, nothing on standard output. */
static void refuses(int status, const char *says, const char *const *argv)
{
	struct proc *p = proc_run(status, WAIT, argv);
	const char *line = proc_text("%s", proc_err(p));
	holds(line, says);
	if (strchr(line, '\n') != line + strlen(line) - 1)
		fail_msg("not one line:\n%s", line);
	assert_string_equal(proc_out(p), "");
}
#define REFUSES(status, says, ...) \
	refuses(status, says, (const char *const[]){TOOL, __VA_ARGS__, NULL})

static void answer_for_itself(void **state)
{
	(void)state;
	holds(proc_out(PROC_RUN(0, WAIT, TOOL, "--help")), "prepare");
	holds(proc_out(PROC_RUN(0, WAIT, TOOL, "help")), "inspect");
	holds(proc_out(PROC_RUN(0, WAIT, TOOL, "--version")), TOOL " ");
	holds(proc_out(PROC_RUN(0, WAIT, TOOL, "help", "prepare")), "--validation");
	holds(proc_out(PROC_RUN(0, WAIT, TOOL, "export", "--help")), "Example");
	holds(proc_out(PROC_RUN(0, WAIT, TOOL, "inspect", "--help")), "safetensors");
	const char *file = proc_text("%s/prepare.conf", proc_scratch());
	const char *conf =
		proc_out(PROC_RUN(0, WAIT, TOOL, "prepare", "--seq", "64", "--print-config"));
	holds(conf, "seq = 64\n");
	write_text(file, conf);
	/* Read back it is what was asked for, and not the question once more. */
	REFUSES(2, "no text is given", "prepare", "--config", file);
	holds(proc_err(PROC_RUN(2, WAIT, TOOL)), "inspect");
	REFUSES(2, "did you mean inspect?", "inspekt");
	REFUSES(2, "there is no command", "fly");
	REFUSES(2, "did you mean --vocab", "prepare", "--vocap", "3");
	REFUSES(2, "did you mean spec", "inspect", "specs", DEMO);
	REFUSES(2, "no file is given", "inspect", "model");
}

static void prepare_bytes(void **state)
{
	(void)state;
	const char *dir = proc_scratch(), *text = make_text(dir);
	const char *data = proc_text("%s/data", dir), *run = proc_text("%s/run.json", dir);
	struct proc *p = PROC_RUN(0, WAIT, TOOL, "prepare", text, "--out", data, "--spec", DEMO,
		"--write-spec", run, "name=other", "round.steps=7");
	const char *out = proc_text("%s", proc_out(p)), *manifest = strstr(out, "manifest=");
	holds(out, "bigram");
	assert_non_null(manifest);
	const char *hex = proc_text("%.64s", manifest + strlen("manifest="));

	/* The three places that name the manifest agree. */
	struct manifest *m = NULL;
	struct spec *s = NULL;
	struct why why = {0};
	assert_int_equal(manifest_load(proc_text("%s/manifest.json", data), &m, &why), ERR_OK);
	assert_int_equal(spec_load(run, NULL, 0, &s, NULL, &why), ERR_OK);
	char got[HASH_HEX];
	hash_hex(&m->id, got);
	assert_string_equal(got, hex);
	assert_true(hash_equal(&m->id, &s->manifest));
	assert_string_equal(s->name, "other");
	assert_int_equal(s->round.steps, 7);
	assert_int_equal(s->model.vocab, 256);
	hash_hex(&s->id, got);
	holds(out, got);
	spec_free(s);
	manifest_free(m);

	p = PROC_RUN(0, WAIT, TOOL, "inspect", "manifest", data);
	out = proc_text("%s", proc_out(p));
	holds(out, hex);
	holds(out, "there");
	assert_null(strstr(out, "missing"));
	/* A folder that was moved without its blobs is seen. */
	assert_int_equal(rename(proc_text("%s/blobs", data), proc_text("%s/bolbs", data)), 0);
	p = PROC_RUN(0, WAIT, TOOL, "inspect", "manifest", proc_text("%s/manifest.json", data));
	holds(proc_out(p), "missing");
}

static void prepare_pairs(void **state)
{
	(void)state;
	const char *dir = proc_scratch(), *text = make_text(dir), *data = proc_text("%s/data", dir);
	const char *run = proc_text("%s/run.json", dir);
	(void)PROC_RUN(0, WAIT, TOOL, "prepare", text, "--out", data, "--tokenizer", "bpe",
		"--vocab", "280", "--seq", "16", "--spec", DEMO, "--write-spec", run);
	struct spec *s = NULL;
	struct why why = {0};
	assert_int_equal(spec_load(run, NULL, 0, &s, NULL, &why), ERR_OK);
	assert_int_equal(s->model.vocab, 280);
	spec_free(s);
	/* The same again is the same manifest; with the tokenizer's file too. */
	struct manifest *m = NULL, *again = NULL;
	assert_int_equal(manifest_load(proc_text("%s/manifest.json", data), &m, &why), ERR_OK);
	char hex[HASH_HEX];
	hash_hex(&m->tokenizer, hex);
	const char *other = proc_text("%s/other", dir);
	(void)PROC_RUN(0, WAIT, TOOL, "prepare", text, "--out", other, "--seq", "16", "--tokenizer",
		proc_text("%s/blobs/%s", data, hex));
	assert_int_equal(manifest_load(proc_text("%s/manifest.json", other), &again, &why), ERR_OK);
	assert_true(hash_equal(&m->id, &again->id));
	manifest_free(m);
	manifest_free(again);
}

static void refuse_to_prepare(void **state)
{
	(void)state;
	const char *dir = proc_scratch(), *text = make_text(dir), *out = proc_text("%s/data", dir);
	const char *empty = proc_text("%s/empty.txt", dir), *spec = proc_text("%s/spec.json", dir);
	write_text(empty, "");
	write_text(spec, "{\"shoal\": 1}");
	REFUSES(2, "no text is given", "prepare", "--out", out);
	REFUSES(2, "--out DIR is missing", "prepare", text);
	REFUSES(1, "/nowhere.txt", "prepare", "/nowhere.txt", "--out", out);
	REFUSES(1, "is empty", "prepare", empty, "--out", out);
	REFUSES(2, "not a regular file", "prepare", dir, "--out", out);
	REFUSES(2, "--vocab 300 needs", "prepare", text, "--out", out, "--vocab", "300");
	REFUSES(2, "--vocab 200 is too small", "prepare", text, "--out", out, "--tokenizer", "bpe",
		"--vocab", "200");
	REFUSES(2, "has its own vocabulary", "prepare", text, "--out", out, "--tokenizer", empty,
		"--vocab", "300");
	REFUSES(2, "--validation", "prepare", text, "--out", out, "--validation", "0.9");
	REFUSES(1, "too short", "prepare", text, "--out", out, "--seq", "100000");
	REFUSES(2, "give both", "prepare", text, "--out", out, "--spec", DEMO);
	REFUSES(2, "there is no --spec", "prepare", text, "--out", out, "a=b");
	/* A bad spec is told before anything is written. */
	REFUSES(1, "(and ", "prepare", text, "--out", out, "--spec", spec, "--write-spec", spec);
	assert_false(file_exists(out));
	REFUSES(1, empty, "prepare", text, "--out", empty);
}

static void inspect_specs(void **state)
{
	(void)state;
	struct proc *p = PROC_RUN(0, WAIT, TOOL, "inspect", "spec", DEMO, "seed=5");
	const char *out = proc_text("%s", proc_out(p)), *manual = read_text("configs/README.md");
	holds(out, "seed                    5\n");
	holds(out, "78 with 3 peers");
	/* Every member of the manual that a GPT has is shown, of the two lengths of a round the one
	 * that counts. */
	size_t members = 0;
	const char *graph = strstr(manual, "\n### model.graph"),
		   *data = strstr(manual, "\n### data");
	assert_true(graph && data);
	for (const char *at = manual; (at = strstr(at, "\n| `")) != NULL; at++) {
		const char *name = proc_text("%.*s", (int)strcspn(at + 4, "`"), at + 4);
		const char *builders = at + 4 + strlen(name) + 1;
		bool foreign = !strncmp(name, "model.", 6) && strncmp(builders, " | gpt", 6) &&
			       strncmp(builders, " | all", 6);
		if ((at > graph && at < data) || foreign || strstr(name, ".json") ||
			!strcmp(name, "round.seconds"))
			continue;
		holds(out, proc_text("\n%s ", name));
		members++;
	}
	assert_true(members > 30);

	const char *bad = proc_text("%s/bad.json", proc_scratch());
	write_text(bad, "{\"shoal\": 1, \"name\": \"x\", \"seed\": -1, \"colour\": \"red\"}");
	p = PROC_RUN(1, WAIT, TOOL, "inspect", "spec", bad);
	const char *err = proc_text("%s", proc_err(p));
	holds(err, "seed: must be a whole number");
	holds(err, "colour: is not known here");
	holds(err, "model: is missing");
	holds(err, "mistakes, named above");
	assert_string_equal(proc_out(p), "");
	REFUSES(1, "line 1", "inspect", "spec", "configs/README.md");
	REFUSES(2, "must be PATH=VALUE", "inspect", "spec", DEMO, "seed");
	REFUSES(1, "no rule \"best\"", "inspect", "spec", DEMO, "outer.rule=best");
	REFUSES(1, "no selection \"zip\"; this program knows: all topk", "inspect", "spec", DEMO,
		"codec.select=zip");
	REFUSES(1, "leave k out", "inspect", "spec", DEMO, "codec.select=all");
	REFUSES(1, "must be from 1 to codec.chunk (4096), is 0", "inspect", "spec", DEMO,
		"codec.k=null");
	p = PROC_RUN(1, WAIT, TOOL, "inspect", "spec", DEMO, "codec.name=topk2");
	holds(proc_text("%s", proc_err(p)),
		"write \"select\": \"topk\", \"values\": \"two\" and k instead");
}

static void inspect_models(void **state)
{
	(void)state;
	struct proc *p = PROC_RUN(0, WAIT, TOOL, "inspect", "model", DEMO);
	const char *out = proc_text("%s", proc_out(p));
	holds(out, "h.1.attn.c_attn.weight");
	holds(out, "cross_entropy");
	holds(out, "[2,128,384]");
	holds(out, "445,952"); /* counted by hand in convergence experiments with this model */
	const char *kept = strstr(out, "Memory to train");
	p = PROC_RUN(0, WAIT, TOOL, "inspect", "model", DEMO, "train.recompute=true");
	const char *again = strstr(proc_out(p), "Memory to train");
	assert_true(kept && again && strcmp(kept, again));
	p = PROC_RUN(0, WAIT, TOOL, "inspect", "model", "configs/gpt2-124m.json");
	holds(proc_out(p), "124,439,808"); /* GPT-2's published size */
	p = PROC_RUN(0, WAIT, TOOL, "inspect", "model", "configs/llama-tiny.json",
		"model.layers=32", "model.width=4096", "model.heads=32", "model.kv_heads=8",
		"model.hidden=14336", "model.context=8192", "model.vocab=128256",
		"model.tied=false");
	holds(proc_out(p), "8,030,261,248"); /* Llama 3 8B's */
	p = PROC_RUN(0, WAIT, TOOL, "inspect", "model", "configs/graph-tiny.json");
	holds(proc_out(p), "h.1.attention");
	holds(proc_out(p), "FLOP/B");
	const char *resnet = proc_text("%s/resnet.json", proc_scratch());
	write_text(resnet, RESNET50);
	p = PROC_RUN(0, WAIT, TOOL, "inspect", "model", resnet);
	/* Its published 25,557,032, and 53,120 running means and variances. */
	holds(proc_out(p), "25,610,152");
	holds(proc_out(p), "micro-batch of 8 images");
	p = PROC_RUN(0, WAIT, TOOL, "inspect", "spec", resnet);
	holds(proc_out(p), "model.blocks            [3, 4, 6, 3]");
	REFUSES(1, "model.layers", "inspect", "model", DEMO, "model.layers=0");
}

/* ---- a state, made as a peer makes it */

static const char *make_state(const char *dir, const char *spec_path, uint64_t step)
{
	struct spec *s = NULL;
	struct graph *g = NULL;
	struct statefile_out *f = NULL;
	struct why why = {0};
	assert_int_equal(spec_load(spec_path, NULL, 0, &s, NULL, &why), ERR_OK);
	assert_int_equal(graph_build(&s->model, 1, 1, &g, &why), ERR_OK);
	json_t *meta =
		json_pack("{s:i, s:i, s:i}", "cursor", 40, "step", (int)step, "tokens", 5120);
	const struct statefile_head head = {.kind = "local", .run = s->id, .meta = meta};
	const struct statefile_series series = {.dir = dir, .prefix = "local", .kind = "local"};
	char *path = statefile_path(&series, step);
	assert_int_equal(statefile_create(path, &head, &f, &why), ERR_OK);
	assert_int_equal(statefile_add(f, "spec", s->text, strlen(s->text), &why), ERR_OK);
	for (uint32_t i = 0; i < g->n_shards; i++) {
		float *values = alloc_must_zero(g->shard_params[i], sizeof *values);
		graph_init_shard(g, i, s->seed, values);
		assert_int_equal(statefile_add(f, proc_text("param.%u", i), values,
					 g->shard_params[i] * sizeof *values, &why),
			ERR_OK);
		free(values);
	}
	assert_int_equal(statefile_commit(f, &why), ERR_OK);
	const char *kept = proc_text("%s", path);
	free(path);
	json_decref(meta);
	graph_free(g);
	spec_free(s);
	return kept;
}

/* The folder holds text.txt, data, run.json and a state. */
static const char *make_run(const char **state)
{
	const char *dir = proc_scratch(), *text = make_text(dir);
	const char *run = proc_text("%s/run.json", dir);
	(void)PROC_RUN(0, WAIT, TOOL, "prepare", text, "--out", proc_text("%s/data", dir),
		"--tokenizer", "bpe", "--vocab", "280", "--seq", "16", "--spec", DEMO,
		"--write-spec", run, "train.seq=16");
	*state = make_state(dir, run, 20);
	return dir;
}

/* GPT-2 of 124 M parameters, 16 peers, rounds of a minute: what 2 Mbit/s leave of k. */
static void inspect_rates(void **state)
{
	(void)state;
	const char *gpt2 = "configs/gpt2-124m.json";
	struct proc *p = PROC_RUN(0, WAIT, TOOL, "inspect", "rate", gpt2, "--round", "60", "--up",
		"2M", "--peers", "16");
	holds(proc_out(p), "124,439,808 parameters, codec topk 64/4096 two, 16 peers");
	holds(proc_out(p), ">     32  two        0.0884     1.4145       5.50          -");
	holds(proc_out(p), "k 32 of 4096, two: 64 would take 9.6 s of a 60 s round at 2 Mbit/s up; "
			   "32 takes 5.5 s");
	p = PROC_RUN(0, WAIT, TOOL, "inspect", "rate", gpt2, "round.mode=timed", "round.steps=null",
		"round.seconds=600", "--down=20M", "--peers=100", "codec.values=f32",
		"--any-values");
	holds(proc_out(p), "rounds of 600 s, of which a transfer may take 60 s");
	holds(proc_out(p), ">     32  two ");
	p = PROC_RUN(0, WAIT, TOOL, "inspect", "rate", gpt2, "--round=1h", "--quota=20G");
	holds(proc_out(p), "for which the quota leaves 29.8 MB");
	REFUSES(2, "say how long with --round", "inspect", "rate", DEMO);
	REFUSES(1, "no rule \"best\"", "inspect", "rate", gpt2, "--round=9", "outer.rule=best");
}

static void inspect_states(void **state)
{
	(void)state;
	const char *path, *dir = make_run(&path);
	struct proc *p = PROC_RUN(0, WAIT, TOOL, "inspect", "snapshot", path);
	const char *out = proc_text("%s", proc_out(p));
	holds(out, "local");
	holds(out, "step          20");
	holds(out, "param.1");
	holds(out, "demo");
	p = PROC_RUN(0, WAIT, TOOL, "inspect", "shard", path, path);
	out = proc_text("%s", proc_out(p));
	holds(out, "h.1.mlp.c_proj.weight");
	holds(out, "[128,512]");
	assert_null(strstr(out, "not finite"));

	/* Of a folder the newest is shown; a damaged one is passed over and named. */
	const char *newer = make_state(dir, proc_text("%s/run.json", dir), 30);
	p = PROC_RUN(0, WAIT, TOOL, "inspect", "snapshot", dir);
	holds(proc_out(p), "step          30");
	assert_int_equal(truncate(newer, 5000), 0);
	p = PROC_RUN(0, WAIT, TOOL, "inspect", "snapshot", dir);
	holds(proc_out(p), "step          20");
	holds(proc_err(p), newer);
	REFUSES(1, newer, "inspect", "snapshot", newer);
	REFUSES(1, "run.json", "inspect", "snapshot", proc_text("%s/run.json", dir));
	REFUSES(1, "/nowhere", "inspect", "shard", "/nowhere");
	REFUSES(1, dir, "inspect", "snapshot", proc_text("%s/data", dir));
}

static void export_for_others(void **state)
{
	(void)state;
	const char *path, *dir = make_run(&path), *out = proc_text("%s/exported", dir);
	struct proc *p = PROC_RUN(
		0, WAIT, TOOL, "export", path, "--data", proc_text("%s/data", dir), "--out", out);
	holds(proc_out(p), "export: ok");
	p = PROC_RUN(
		0, WAIT, TOOL, "inspect", "safetensors", proc_text("%s/model.safetensors", out));
	holds(proc_out(p), "transformer.h.0.attn.c_attn.weight");
	holds(proc_out(p), "[128,384]"); /* Conv1D keeps [in, out] */

	json_t *doc = NULL;
	struct why why = {0};
	const char *text = read_text(proc_text("%s/tokenizer.json", out));
	assert_int_equal(json_parse(text, strlen(text), 1 << 20, &doc, &why), ERR_OK);
	json_t *model = json_object_get(doc, "model"), *vocab = json_object_get(model, "vocab");
	assert_int_equal(json_object_size(vocab), 280);
	assert_int_equal(json_array_size(json_object_get(model, "merges")), 280 - 256);
	assert_int_equal(json_integer_value(json_object_get(vocab, "a")), 'a');
	assert_int_equal(json_integer_value(json_object_get(vocab, "\xc4\xa0")), ' ');
	json_decref(doc);
	text = read_text(proc_text("%s/config.json", out));
	holds(text, "gpt2");

	/* Without --data the model alone. */
	const char *plain = proc_text("%s/plain", dir);
	(void)PROC_RUN(0, WAIT, TOOL, "export", dir, "--out", plain);
	assert_true(file_exists(proc_text("%s/model.safetensors", plain)));
	assert_false(file_exists(proc_text("%s/tokenizer.json", plain)));
}

static void same_files(const char *a, const char *b, const char *name)
{
	struct proc *p = PROC_RUN(
		0, WAIT, "/usr/bin/cmp", proc_text("%s/%s", a, name), proc_text("%s/%s", b, name));
	assert_string_equal(proc_out(p), "");
}

/* A folder that was exported is exported again, and back. */
static void export_folders(void **state)
{
	(void)state;
	const char *path, *dir = make_run(&path), *data = proc_text("%s/data", dir);
	const char *one = proc_text("%s/one", dir), *two = proc_text("%s/two", dir);
	(void)PROC_RUN(0, WAIT, TOOL, "export", path, "--data", data, "--out", one, "--dtype",
		"bf16", "--max-file", "300K");
	assert_false(file_exists(proc_text("%s/model.safetensors", one)));
	(void)PROC_RUN(0, WAIT, TOOL, "export", one, "--out", two, "--max-file", "300K");
	static const char *const names[] = {"config.json", "model.safetensors.index.json",
		"model-00001-of-00004.safetensors", "model-00004-of-00004.safetensors",
		"tokenizer.json", "tokenizer_config.json"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		same_files(one, two, names[i]);

	/* Wider and narrower again is the same; the other form of the weights goes away. */
	const char *wide = proc_text("%s/wide", dir);
	(void)PROC_RUN(0, WAIT, TOOL, "export", one, "--out", wide, "--dtype", "float32");
	holds(read_text(proc_text("%s/config.json", wide)), "float32");
	(void)PROC_RUN(0, WAIT, TOOL, "export", wide, "--out", two, "--dtype", "bf16");
	assert_false(file_exists(proc_text("%s/model.safetensors.index.json", two)));
	(void)PROC_RUN(0, WAIT, TOOL, "export", two, "--out", wide, "--max-file", "300K");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		same_files(one, wide, names[i]);

	REFUSES(2, "--dtype is float32, bf16 or float16", "export", path, "--out", two, "--dtype",
		"int8");
	REFUSES(2, "name another folder", "export", one, "--out", one);
	REFUSES(2, "keeps its own tokenizer", "export", one, "--out", two, "--data", data);
	write_text(proc_text("%s/config.json", one), "{\"model_type\":\"bert\"}");
	REFUSES(1, "\"bert\" is not known here, only gpt2, llama", "export", one, "--out", two);
}

static void refuse_to_export(void **state)
{
	(void)state;
	const char *path, *dir = make_run(&path), *out = proc_text("%s/out", dir);
	const char *other = proc_text("%s/other", dir), *cut = proc_text("%s/cut.state", dir);
	REFUSES(2, "no state is given", "export", "--out", out);
	REFUSES(2, "--out DIR is missing", "export", path);
	REFUSES(1, "/nowhere", "export", "/nowhere", "--out", out);
	(void)PROC_RUN(0, WAIT, TOOL, "prepare", proc_text("%s/text.txt", dir), "--out", other);
	REFUSES(1, "was not trained on", "export", path, "--out", out, "--data", other);
	write_text(cut, "SHOALSTA");
	REFUSES(1, cut, "export", cut, "--out", out);
	assert_false(file_exists(out));
	REFUSES(1, path, "export", path, "--out", path);
}

/* A disk that fills up: nothing that looks like a result is left. */
static void leave_nothing_half_written(void **state)
{
	(void)state;
	const char *path, *dir = make_run(&path), *out = proc_text("%s/out", dir);
	struct rlimit before, small = {.rlim_cur = 100000, .rlim_max = 100000};
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	struct proc *p = PROC_START("/bin/sh", "-c",
		proc_text(
			"trap '' XFSZ; exec %s export %s --out %s", proc_program(TOOL), path, out));
	int status = proc_wait(p, WAIT);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(status, 1);
	holds(proc_err(p), "model.safetensors");
	assert_int_equal(rmdir(out), 0); /* it is empty */
	p = PROC_RUN(1, WAIT, "/bin/sh", "-c",
		proc_text("%s inspect spec %s > /dev/full", proc_program(TOOL), DEMO));
	holds(proc_err(p), "cannot write the output");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(answer_for_itself, proc_teardown),
		cmocka_unit_test_teardown(prepare_bytes, proc_teardown),
		cmocka_unit_test_teardown(prepare_pairs, proc_teardown),
		cmocka_unit_test_teardown(refuse_to_prepare, proc_teardown),
		cmocka_unit_test_teardown(inspect_specs, proc_teardown),
		cmocka_unit_test_teardown(inspect_models, proc_teardown),
		cmocka_unit_test_teardown(inspect_rates, proc_teardown),
		cmocka_unit_test_teardown(inspect_states, proc_teardown),
		cmocka_unit_test_teardown(export_for_others, proc_teardown),
		cmocka_unit_test_teardown(export_folders, proc_teardown),
		cmocka_unit_test_teardown(refuse_to_export, proc_teardown),
		cmocka_unit_test_teardown(leave_nothing_half_written, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
