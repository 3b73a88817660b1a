#include "base/program.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"
#include "base/version.h"

#define COMMANDS_MAX 64

static void usage(const struct program *p, FILE *to)
{
	int words = 0, args = 0;
	for (size_t i = 0; i < p->n_commands; i++) {
		int w = (int)strlen(p->commands[i].word), a = (int)strlen(p->commands[i].args);
		words = w > words ? w : words;
		args = a > args ? a : args;
	}
	fprintf(to, "%s %s: %s\n\n", p->name, version_text(), p->purpose);
	for (size_t i = 0; i < p->n_commands; i++)
		fprintf(to, "  %s %-*s  %-*s  %s\n", p->name, words, p->commands[i].word, args,
			p->commands[i].args, p->commands[i].help);
	fprintf(to,
		"\n%s COMMAND --help tells a command's options.\n"
		"LOG=round:3,net:2 shows more (levels 0 to 5), TRACE=FILE writes one JSON line per "
		"event.\n",
		p->name);
}

static int diagnostics(const struct program *p)
{
	struct why why;
	const char *text = getenv("LOG");
	if (text && log_select(text, &why)) {
		fprintf(stderr, "%s: LOG: %s\n", p->name, why.text);
		return PROGRAM_usage;
	}
	text = getenv("LOG_FORMAT");
	log_json(text && !strcmp(text, "json"));
	text = getenv("TRACE");
	if (text && *text && trace_open(text, &why)) {
		fprintf(stderr, "%s: TRACE: %s\n", p->name, why.text);
		return PROGRAM_usage;
	}
	return PROGRAM_ok;
}

static int unknown(const struct program *p, const char *word)
{
	const char *words[COMMANDS_MAX];
	size_t n = 0;
	for (; n < p->n_commands && n < COMMANDS_MAX; n++)
		words[n] = p->commands[n].word;
	const char *near = text_nearest(word, words, n);
	fprintf(stderr, "%s: there is no command \"%.60s\"; ", p->name, word);
	if (near)
		fprintf(stderr, "did you mean %s?\n", near);
	else
		fprintf(stderr, "%s --help lists them\n", p->name);
	return PROGRAM_usage;
}

static int run(const struct program *p, int argc, char **argv)
{
	for (size_t i = 0; i < p->n_commands; i++)
		if (!strcmp(argv[0], p->commands[i].word))
			return p->commands[i].run(argc, argv);
	return unknown(p, argv[0]);
}

static int answer(const struct program *p, int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	if (argc < 2) {
		usage(p, stderr);
		return PROGRAM_usage;
	}
	if (!strcmp(word, "--help") || !strcmp(word, "-h") ||
		(argc == 2 && !strcmp(word, "help"))) {
		usage(p, stdout);
		return PROGRAM_ok;
	}
	if (!strcmp(word, "--version")) {
		printf("%s %s\n", p->name, version_text());
		return PROGRAM_ok;
	}
	if (!strcmp(word, "help")) {
		char help[] = "--help";
		return run(p, 2, (char *[]){argv[2], help, NULL});
	}
	int status = diagnostics(p);
	if (!status)
		status = run(p, argc - 1, argv + 1);
	trace_close();
	return status;
}

int program_main(const struct program *p, int argc, char **argv)
{
	int status = answer(p, argc, argv);
	/* A full disk shows itself only here when the output was small. */
	if ((fflush(stdout) || ferror(stdout)) && status == PROGRAM_ok) {
		fprintf(stderr, "%s: cannot write the output: %s\n", p->name, strerror(errno));
		status = PROGRAM_failed;
	}
	return status;
}

int program_fail(const char *program, const char *command, const struct why *why)
{
	fprintf(stderr, "%s %s: %s\n", program, command, why->text);
	switch (why->code) {
	case ERR_usage: return PROGRAM_usage;
	case ERR_interrupted: return PROGRAM_interrupted;
	default: return PROGRAM_failed;
	}
}

/* ---- options */

static struct {
	bool help, print_config;
} asked;

static const struct option_row common[] = {
	{"print-config", OPTION_flag, &asked.print_config, NULL, 0, 0,
		"print the options as a config file and stop"},
	{"help", OPTION_flag, &asked.help, NULL, 0, 0, "this text"},
};
#define N_COMMON (sizeof common / sizeof *common)

static void help(const struct program_options *o, const struct option_row *all)
{
	fputs(o->about ? o->about : "", stdout);
	fputc('\n', stdout);
	option_help(all, o->n_rows + N_COMMON, stdout);
	if (o->examples)
		printf("\nExamples:\n%s", o->examples);
}

bool program_options(
	const struct program_options *o, int argc, char **argv, size_t *n_words, int *status)
{
	struct why why = {0};
	struct option_row *all = alloc_must_zero(o->n_rows + N_COMMON, sizeof *all);
	if (o->n_rows)
		memcpy(all, o->rows, o->n_rows * sizeof *all);
	memcpy(all + o->n_rows, common, sizeof common);
	struct option_args args = {
		.argc = argc, .argv = argv, .words = o->words, .max_words = o->max_words};
	bool failed = option_read(all, o->n_rows + N_COMMON, &args, &why);
	*n_words = args.n_words;
	*status = PROGRAM_ok;
	if (failed) {
		why.code = ERR_usage; /* whatever was wrong, it was with what was asked for */
		*status = program_fail(o->program, argv[0], &why);
	} else if (asked.help) {
		help(o, all);
	} else if (asked.print_config) {
		option_print(o->rows, o->n_rows, stdout);
	}
	free(all);
	return !failed && !asked.help && !asked.print_config;
}
