/* shoal-sim run: a scenario, from its first round to its last. */
#include "sim/command_run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/option.h"
#include "base/program.h"
#include "base/signal.h"
#include "sim/world.h"

#define CHANGES_MAX 64

static struct {
	const char *json;
} opt;

static const struct option_row rows[] = {
	{"json", OPTION_text, &opt.json, NULL, 0, 0, "write the figures to this file as well"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-sim run SCENARIO.json [PATH=VALUE...]\n\n"
	"Trains a run with the coordinator's and the peers' own code in one process, under a "
	"virtual clock:\nthe links and the speed of the machines are what the scenario says.  Ends "
	"with a table and the line\n\"sim: ok ... head=HASH\"; the same scenario comes to the same "
	"head.  PATH=VALUE changes the spec.\nFiles of the simulation lie in TMPDIR, or in memory, "
	"and are removed.\n";

static const char examples[] =
	"  shoal-sim run home.json\n"
	"  shoal-sim run home.json round.mode=timed round.steps=null round.seconds=60\n"
	"  shoal-sim run home.json --json figures.json\n\n"
	"A scenario (rates in Mbit/s, speed in tokens/s; paths beside the file; run.json and data "
	"are\nwhat shoal-coordinator prepare writes):\n\n"
	"  {\"spec\": \"run.json\", \"data\": \"data\", \"seed\": 1, \"rounds\": 100,\n"
	"   \"coordinator\": {\"up\": 1000, \"down\": 1000},\n"
	"   \"peers\": [\n"
	"     {\"count\": 20, \"speed\": 4000, \"up\": 20, \"down\": 100, \"rtt_ms\": 40},\n"
	"     {\"count\": 5, \"speed\": 1000, \"up\": 8, \"down\": 30, \"rtt_ms\": 120, "
	"\"joins_s\": 60,\n"
	"      \"churn\": {\"dies_every_s\": 600, \"back_after_s\": 60}},\n"
	"     {\"count\": 1, \"speed\": 4000, \"up\": 20, \"down\": 100, \"liar\": \"huge\"}]}\n\n"
	"A liar is one of nan, huge, negated, zero, copied.\n";

static enum err write_json(const struct tally *t, struct why *why)
{
	json_t *doc = tally_json(t);
	char *text = json_dumps(doc, JSON_INDENT(1));
	json_decref(doc);
	enum err err = text ? file_write(opt.json, text, strlen(text), 0644, why)
			    : err_why(why, ERR_nomem, "no memory for %s", opt.json);
	free(text);
	return err;
}

static enum err simulate(const char *path, const char *const *changes, size_t n, struct why *why)
{
	struct scenario scenario;
	struct world world = {0};
	enum err err = scenario_load(path, &scenario, why);
	if (!err)
		err = world_open(&world, &scenario, changes, n, why);
	if (!err)
		err = world_run(&world, signal_asked, why);
	if (!err)
		tally_print(&world.tally, stdout);
	if (!err && opt.json)
		err = write_json(&world.tally, why);
	world_close(&world);
	scenario_release(&scenario);
	return err;
}

int command_run(int argc, char **argv)
{
	const char *words[CHANGES_MAX + 1];
	size_t n = 0;
	int status;
	struct why why = {0};
	const struct program_options options = {.program = COMMAND_RUN_PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.examples = examples,
		.words = words,
		.max_words = CHANGES_MAX + 1};
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	signal_watch();
	enum err err = n ? simulate(words[0], words + 1, n - 1, &why)
			 : err_why(&why, ERR_usage,
				   "no scenario is given: shoal-sim run --help shows one");
	return err ? program_fail(COMMAND_RUN_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
