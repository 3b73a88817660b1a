/* shoal-coordinator plan: who aggregates and why, of a coordinator that serves or of a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/option.h"
#include "base/program.h"
#include "coordinator/commands.h"
#include "coordinator/contact.h"
#include "coordinator/topology.h"

#define INPUT_MOST (64u << 20)
#define WORDS_MOST (8u << 20)

static struct {
	const char *from, *dump, *plan;
	bool json, explain;
} opt;

static const struct option_row rows[] = {
	{"from", OPTION_text, &opt.from, NULL, 0, 0,
		"what was measured, from a file that --dump wrote, in place of a run"},
	{"dump", OPTION_text, &opt.dump, NULL, 0, 0,
		"write what was measured to this file; -: out"},
	{"plan", OPTION_text, &opt.plan, NULL, 0, 0,
		"as if serve had this --plan: latency, star, random"},
	{"explain", OPTION_flag, &opt.explain, NULL, 0, 0,
		"in words: what was known, assumed, chosen, and what else would take"},
	{"json", OPTION_flag, &opt.json, NULL, 0, 0, "the plan as /api/v1/topology.json has it"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-coordinator plan DIR|LINK [--explain] [--dump FILE]\n"
	"shoal-coordinator plan --from FILE [--explain] [--plan MODE]\n\n"
	"Makes the plan of who aggregates from what a running coordinator has measured, or from a "
	"file.\nThe same input gives the same plan.  DIR is the folder of a run that is served on "
	"this machine;\nLINK a file with its join link, or - for standard input.\n";

static const char examples[] = "  shoal-coordinator plan run --explain\n"
			       "  shoal-coordinator plan run --dump measured.json\n"
			       "  shoal-coordinator plan --from measured.json --plan star\n";

static enum err from_run(const char *word, struct topology_in *out, struct why *why)
{
	struct https_client *c = NULL;
	json_t *doc = NULL;
	enum err err = contact(word, &c, why);
	if (!err)
		err = https_client_get_json(c, "/api/v1/topology.json", INPUT_MOST, &doc, why);
	if (!err)
		err = topology_json_load(json_object_get(doc, "input"), out, why);
	json_decref(doc);
	https_client_free(c);
	return err;
}

static enum err from_file(const char *path, struct topology_in *out, struct why *why)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	json_t *doc = NULL;
	struct why said;
	enum err err = file_read(path, INPUT_MOST, &bytes, &n, why);
	if (err)
		return err;
	err = json_parse(bytes, n, INPUT_MOST, &doc, &said);
	if (!err)
		err = topology_json_load(doc, out, &said);
	if (err)
		err_why(why, err, "%s: %s", path, said.text);
	json_decref(doc);
	free(bytes);
	return err;
}

static enum err dump(const struct topology_in *in, struct why *why)
{
	json_t *doc = topology_json_dump(in);
	char *text = json_dumps(doc, JSON_INDENT(1));
	enum err err = ERR_OK;
	json_decref(doc);
	if (!text)
		return err_why(why, ERR_nomem, "no memory for what was measured");
	if (!strcmp(opt.dump, "-"))
		printf("%s\n", text);
	else
		err = file_write(opt.dump, text, strlen(text), 0644, why);
	free(text);
	return err;
}

static void print_plan(const struct topology_in *in, const struct topology_plan *p)
{
	if (opt.json) {
		json_t *doc = topology_json_plan(p);
		json_dumpf(doc, stdout, JSON_INDENT(1));
		printf("\n");
		json_decref(doc);
	} else if (opt.explain) {
		struct buf words;
		buf_init(&words, WORDS_MOST);
		topology_explain(in, p, &words);
		fwrite(words.data, 1, words.len, stdout);
		buf_release(&words);
	} else {
		printf("%s\n", p->reason);
	}
}

static enum err plan(const char *word, struct why *why)
{
	struct topology_in in = {0};
	struct topology_plan p = {0};
	enum topology_mode mode;
	if (opt.plan && !topology_mode_of(opt.plan, &mode))
		return err_why(
			why, ERR_usage, "--plan %s is none of latency, star, random", opt.plan);
	enum err err = opt.from ? from_file(opt.from, &in, why) : from_run(word, &in, why);
	if (!err && opt.dump)
		err = dump(&in, why);
	if (!err && (!opt.dump || opt.explain || opt.json)) {
		if (opt.plan)
			in.mode = mode;
		topology_make(&in, &p);
		print_plan(&in, &p);
	}
	topology_plan_release(&p);
	topology_in_release(&in);
	return err;
}

int command_plan(int argc, char **argv)
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
	enum err err = n == !opt.from ? plan(n ? words[0] : NULL, &why)
				      : err_why(&why, ERR_usage,
						"either a run or --from FILE: shoal-coordinator "
						"plan DIR --explain");
	return err ? program_fail(COMMAND_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
