/* shoal-coordinator export: a saved model in the files that other tools read. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/option.h"
#include "base/program.h"
#include "coordinator/commands.h"
#include "model/hftokenizer.h"
#include "coordinator/human.h"
#include "model/checkpoint.h"
#include "round/shardstate.h"
#include "model/gptname.h"
#include "model/manifest.h"
#include "model/tokenizer.h"

static struct {
	const char *out, *data;
} opt;

static const struct option_row rows[] = {
	{"out", OPTION_text, &opt.out, NULL, 0, 0, "folder for the files; made when missing"},
	{"data", OPTION_text, &opt.data, NULL, 0, 0,
		"folder made by prepare, for the tokenizer; without it none is written"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-coordinator export STATE --out DIR [--data DIR]\n\n"
	"STATE is a snapshot, what a peer saved, or a folder of them (the newest is taken).\n"
	"Writes model.safetensors and config.json in Hugging Face's layout of GPT-2, and "
	"with --data\ntokenizer.json: transformers' AutoModelForCausalLM and AutoTokenizer "
	"read the folder.\n";

static const char examples[] = "  shoal-coordinator export run --data data --out exported\n";

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

static enum err write_all(const struct checkpoint *c, const char *tokenizer, struct why *why)
{
	char run[HASH_HEX];
	hash_hex(&c->spec->id, run);
	const struct gptname_model model = {
		.graph = c->graph, .config = &c->spec->model, .shards = c->shards, .run = run};
	enum err err = file_mkdirs(opt.out, 0755, why);
	if (!err)
		err = gptname_export(opt.out, &model, why);
	if (!err && tokenizer)
		err = write_tokenizer(tokenizer, c->spec->model.context, why);
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

static enum err run(const char *state, struct why *why)
{
	struct checkpoint c;
	struct tokenizer *t = NULL;
	char *tokenizer = NULL, params[HUMAN_TEXT];
	enum err err = checkpoint_open(state, &c, NULL, why);
	if (!err && opt.data)
		err = load_tokenizer(c.spec, &t, why);
	if (!err && t)
		err = hftokenizer_print(t, &tokenizer, why);
	if (!err)
		err = write_all(&c, tokenizer, why);
	if (!err) {
		printf("%s: %s parameters of %s\n", opt.out,
			human_count(graph_params(c.graph), params), c.path);
		char hex[HASH_HEX] = "none";
		if (!strcmp(statefile_kind(c.file), "snapshot"))
			state_text(&c, hex);
		printf("export: ok model.safetensors config.json%s state=%s\n",
			tokenizer ? " tokenizer.json tokenizer_config.json" : "", hex);
	}
	free(tokenizer);
	tokenizer_free(t);
	checkpoint_close(&c);
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
