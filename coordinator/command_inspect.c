/* shoal-coordinator inspect: what is in a file, as tables. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "base/program.h"
#include "base/text.h"
#include "coordinator/commands.h"
#include "coordinator/inspect.h"
#include "model/spec.h"

#define WORDS_MAX 256

static const struct {
	const char *word, *args, *help;
	enum err (*run)(const struct inspect *i, struct why *why);
} kinds[] = {
#define X(kind, args, help) {#kind, args, help, inspect_##kind},
	INSPECT_LIST(X)
#undef X
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

#define ABOUT_MOST 2000

static struct inspect_link link;
static int64_t peers;

static const struct option_row rows[] = {
	{"up", OPTION_rate, &link.up, "0", 0, 0, "rate: of a peer's link; 0: not known"},
	{"down", OPTION_rate, &link.down, "0", 0, 0, "rate: the same, down"},
	{"peers", OPTION_int, &peers, "0", 0, SPEC_PEERS_MAX,
		"rate: whose contributions come down; 0: the spec's least"},
	{"round", OPTION_seconds, &link.round_ns, "0", 0, 1e7,
		"rate: length of a round; 0: the spec's"},
	{"quota", OPTION_bytes, &link.quota, "0", 0, 0,
		"rate: of 30 days, both ways together; 0: none"},
	{"any-values", OPTION_flag, &link.any_values, "no", 0, 0,
		"rate: as if the spec allowed values of fewer bits"},
};

static const char examples[] =
	"  shoal-coordinator inspect spec configs/demo.json\n"
	"  shoal-coordinator inspect model configs/demo.json model.layers=12\n"
	"  shoal-coordinator inspect rate configs/demo.json --round 60 --up 2M --down 20M\n"
	"  shoal-coordinator inspect manifest data\n";

static void list_kinds(char out[static ABOUT_MOST])
{
	size_t n = (size_t)snprintf(out, ABOUT_MOST,
		"shoal-coordinator inspect KIND FILE...\n\nShows what is in a file.\n\n");
	for (size_t i = 0; i < N_KINDS && n < ABOUT_MOST; i++)
		n += (size_t)snprintf(out + n, ABOUT_MOST - n, "  %-12s %-22s %s\n", kinds[i].word,
			kinds[i].args, kinds[i].help);
	if (n < ABOUT_MOST)
		snprintf(out + n, ABOUT_MOST - n,
			"\nPATH=VALUE changes a member of the spec.  A STATE is a snapshot or what "
			"a "
			"peer saved, or a\nfolder of them (the newest one is shown).\n");
}

static enum err unknown_kind(const char *word, struct why *why)
{
	const char *words[N_KINDS];
	for (size_t i = 0; i < N_KINDS; i++)
		words[i] = kinds[i].word;
	const char *near = text_nearest(word, words, N_KINDS);
	return err_why(why, ERR_usage, "there is no kind \"%.60s\"; %s%s", word,
		near ? "did you mean " : "inspect --help lists them", near ? near : "");
}

/* After a spec come changes to it, after another kind more files. */
static enum err inspect(size_t kind, const char *const *words, size_t n, struct why *why)
{
	size_t files = 1;
	if (!strchr(kinds[kind].args, '='))
		files = n;
	enum err err = ERR_OK;
	for (size_t i = 0; i < files && !err; i++) {
		const struct inspect one = {.path = words[i],
			.sets = words + files,
			.n_sets = n - files,
			.link = &link};
		if (i)
			putchar('\n');
		err = kinds[kind].run(&one, why);
	}
	return err;
}

static enum err run(const char *const *words, size_t n, struct why *why)
{
	for (size_t k = 0; k < N_KINDS; k++) {
		if (strcmp(words[0], kinds[k].word))
			continue;
		if (n < 2)
			return err_why(why, ERR_usage, "no file is given: inspect %s %s",
				kinds[k].word, kinds[k].args);
		return inspect(k, words + 1, n - 1, why);
	}
	return unknown_kind(words[0], why);
}

int command_inspect(int argc, char **argv)
{
	static const char *words[WORDS_MAX];
	char about[ABOUT_MOST];
	size_t n = 0;
	struct why why = {0};
	list_kinds(about);
	const struct program_options options = {.program = COMMAND_PROGRAM,
		.rows = rows,
		.n_rows = sizeof rows / sizeof *rows,
		.about = about,
		.examples = examples,
		.words = words,
		.max_words = WORDS_MAX};
	int status;
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	link.peers = (uint64_t)peers;
	enum err err =
		n ? run(words, n, &why)
		  : err_why(&why, ERR_usage,
			    "no kind is given: inspect KIND FILE...; --help lists the kinds");
	return err ? program_fail(COMMAND_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
