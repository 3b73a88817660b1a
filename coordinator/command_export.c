/* shoal-coordinator export: a saved model in the files that other tools read. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/option.h"
#include "base/program.h"
#include "coordinator/commands.h"
#include "coordinator/export_source.h"
#include "coordinator/human.h"
#include "model/hfexport.h"
#include "model/hftokenizer.h"
#include "model/manifest.h"
#include "model/tokenizer.h"
#include "model/weightset.h"
#include "round/shardstate.h"

#define OTHER_MAX (64u << 20)

static struct {
	const char *out, *data, *dtype;
	uint64_t max_file;
} opt;

static const struct option_row rows[] = {
	{"out", OPTION_text, &opt.out, NULL, 0, 0, "folder for the files; made when missing"},
	{"data", OPTION_text, &opt.data, NULL, 0, 0,
		"folder made by prepare, for the tokenizer; without it none is written"},
	{"dtype", OPTION_text, &opt.dtype, NULL, 0, 0,
		"of the weights: float32, bf16, float16; else a folder's own, float32 of a state"},
	{"max-file", OPTION_bytes, &opt.max_file, "0", 0, 1e15,
		"largest file of weights (a tensor at least); more of them get an index; 0: one "
		"file"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-coordinator export STATE|FOLDER --out DIR [--data DIR]\n\n"
	"STATE is a snapshot, what a peer saved, or a folder of them (the newest is taken).\n"
	"Writes weights and config.json in Hugging Face's layout (GPT-2, Llama), and with "
	"--data\ntokenizer.json: transformers' AutoModelForCausalLM and AutoTokenizer "
	"read the folder.\nFOLDER is such a folder: it is written again, in another type or in "
	"other files.\n";

static const char examples[] =
	"  shoal-coordinator export run --data data --out exported\n"
	"  shoal-coordinator export exported --out small --dtype bf16 --max-file 2G\n";

/* The tokenizer that the model was trained with: the manifest says which. */
static enum err load_tokenizer(const struct spec *s, struct tokenizer **out, struct why *why)
{
	char *path = alloc_must_printf("%s/manifest.json", opt.data), hex[HASH_HEX];
	struct manifest *m = NULL;
	enum err err = manifest_load(path, &m, why);
	free(path);
	if (!err && !hash_equal(&m->id, &s->manifest))
		err = err_why(why, ERR_wrong_run,
			"the state was not trained on the data in %s: give the folder that was "
			"prepared "
			"for its run",
			opt.data);
	if (!err) {
		hash_hex(&m->tokenizer, hex);
		path = alloc_must_printf("%s/blobs/%s", opt.data, hex);
		err = tokenizer_load(path, out, why);
		free(path);
	}
	struct hash got = {{0}};
	if (!err)
		got = tokenizer_hash(*out);
	if (!err && !hash_equal(&got, &m->tokenizer))
		err = err_why(why, ERR_hash,
			"the tokenizer in %s is damaged: prepare the folder again", opt.data);
	manifest_free(m);
	return err;
}

static enum err write_text(const char *name, const char *text, struct why *why)
{
	char *path = alloc_must_printf("%s/%s", opt.out, name);
	enum err err = file_write(path, text, strlen(text), 0644, why);
	free(path);
	return err;
}

static enum err write_tokenizer(const char *text, uint32_t context, struct why *why)
{
	/* Without it, the class that goes with GPT-2 would add a token of its own. */
	char *config = alloc_must_printf("{\n \"model_max_length\": %u,\n \"tokenizer_class\": "
					 "\"PreTrainedTokenizerFast\"\n}\n",
		context);
	enum err err = write_text("tokenizer.json", text, why);
	if (!err)
		err = write_text("tokenizer_config.json", config, why);
	free(config);
	return err;
}

/* The files beside the weights that belong to a folder, as they are. */
static enum err copy_others(const char *from, struct why *why)
{
	static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "vocab.json",
		"merges.txt", "tokenizer.model", "special_tokens_map.json", "added_tokens.json",
		"generation_config.json"};
	enum err err = ERR_OK;
	for (size_t i = 0; !err && i < sizeof names / sizeof *names; i++) {
		char *a = alloc_must_printf("%s/%s", from, names[i]),
		     *b = alloc_must_printf("%s/%s", opt.out, names[i]);
		uint8_t *bytes = NULL;
		size_t n = 0;
		if (file_exists(a))
			err = file_read(a, OTHER_MAX, &bytes, &n, why);
		if (!err && bytes)
			err = file_write(b, bytes, n, 0644, why);
		free(bytes);
		free(a);
		free(b);
	}
	return err;
}

/* What --dtype asks for; F32 when it asks for nothing. */
static enum err asked_type(enum safetensors_type *out, struct why *why)
{
	static const struct {
		const char *name;
		enum safetensors_type type;
	} types[] = {{"float32", SAFETENSORS_F32}, {"bf16", SAFETENSORS_BF16},
		{"float16", SAFETENSORS_F16}};
	*out = SAFETENSORS_F32;
	if (!opt.dtype)
		return ERR_OK;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(opt.dtype, types[i].name)) {
			*out = types[i].type;
			return ERR_OK;
		}
	return err_why(
		why, ERR_usage, "--dtype is float32, bf16 or float16, not \"%s\"", opt.dtype);
}

static enum err write_all(const struct export_source *s, const char *path,
	enum safetensors_type type, const char *tokenizer, struct why *why)
{
	struct hfexport e = {.dir = opt.out,
		.graph = s->graph,
		.config = s->config,
		.shards = s->shards,
		.type = s->folder && !opt.dtype ? hfmodel_type(s->folder) : type,
		.max_file = opt.max_file,
		.run = *s->run ? s->run : NULL};
	if (s->folder)
		e.config_text = hfmodel_config_text(s->folder, &e.config_len);
	enum err err = hfexport_write(&e, why);
	if (!err && s->folder)
		err = copy_others(path, why);
	if (!err && tokenizer)
		err = write_tokenizer(tokenizer, s->config->context, why);
	return err;
}

/* The hash that `replay` prints for the same state; a peer's own state is none of the run's. */
static void state_text(const struct checkpoint *c, char out[static HASH_HEX])
{
	uint32_t n = c->graph->n_shards;
	struct hash *states = alloc_must_zero(n, sizeof *states);
	const json_t *round = json_object_get(statefile_meta(c->file), "round");
	for (uint32_t i = 0; i < n; i++) {
		char name[STATEFILE_NAME_MAX];
		const uint8_t *momentum = NULL;
		struct why why;
		size_t bytes = c->graph->shard_params[i] * sizeof(float);
		snprintf(name, sizeof name, "momentum.%u", i);
		bool has = !statefile_find(c->file, name, bytes, &momentum, &why);
		/* The vectors are borrowed from the mapped file and only read. */
		struct shardstate s = {.shard = i,
			.round = (uint64_t)json_integer_value(round),
			.n = c->graph->shard_params[i],
			.params = (float *)(uintptr_t)c->shards[i],
			.momentum = has ? (float *)(uintptr_t)momentum : NULL};
		states[i] = shardstate_hash(&s);
	}
	struct hash all = shardstate_hash_all(states, n);
	hash_hex(&all, out);
	free(states);
}

/* A folder written over itself could be lost half-way. */
static enum err check_places(const char *path, struct why *why)
{
	struct stat a, b;
	if (!hfmodel_is(path))
		return ERR_OK;
	if (opt.data)
		return err_why(why, ERR_usage,
			"--data goes with a state; %s is a folder and keeps its own tokenizer",
			path);
	if (!stat(path, &a) && !stat(opt.out, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		return err_why(why, ERR_usage, "--out %s is what is exported: name another folder",
			opt.out);
	return ERR_OK;
}

static bool has(const char *name)
{
	char *path = alloc_must_printf("%s/%s", opt.out, name);
	bool there = file_exists(path);
	free(path);
	return there;
}

/* A folder's own tokenizer was copied, so what is told is what lies there. */
static void report(const struct export_source *s, const char *path)
{
	char params[HUMAN_TEXT], hex[HASH_HEX] = "none";
	printf("%s: %s parameters of %s\n", opt.out, human_count(graph_params(s->graph), params),
		s->state.path ? s->state.path : path);
	if (s->state.file && !strcmp(statefile_kind(s->state.file), "snapshot"))
		state_text(&s->state, hex);
	printf("export: ok %s config.json%s%s state=%s\n",
		has(WEIGHTSET_INDEX) ? WEIGHTSET_INDEX : WEIGHTSET_FILE,
		has("tokenizer.json") ? " tokenizer.json" : "",
		has("tokenizer_config.json") ? " tokenizer_config.json" : "", hex);
}

static enum err run(const char *path, struct why *why)
{
	struct export_source s = {0};
	struct tokenizer *t = NULL;
	char *tokenizer = NULL;
	enum safetensors_type type;
	enum err err = asked_type(&type, why);
	if (!err)
		err = check_places(path, why);
	if (!err)
		err = export_source_open(path, opt.out, &s, why);
	if (!err && opt.data)
		err = load_tokenizer(s.state.spec, &t, why);
	if (!err && t)
		err = hftokenizer_print(t, &tokenizer, why);
	if (!err)
		err = write_all(&s, path, type, tokenizer, why);
	if (!err)
		report(&s, path);
	free(tokenizer);
	tokenizer_free(t);
	export_source_release(&s);
	return err;
}

int command_export(int argc, char **argv)
{
	const char *words[1];
	size_t n = 0;
	struct why why = {0};
	const struct program_options options = {.program = COMMAND_PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.examples = examples,
		.words = words,
		.max_words = 1};
	int status;
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	enum err err = ERR_OK;
	if (n == 0 || !opt.out)
		err = err_why(&why, ERR_usage,
			n ? "--out DIR is missing: the folder for the files"
			  : "no state is given: export STATE --out DIR");
	if (!err)
		err = run(words[0], &why);
	return err ? program_fail(COMMAND_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
