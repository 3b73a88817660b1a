/*
 * A program that is a set of subcommands: finds the one that is asked for and runs it, and answers
 * --help, --version and `help COMMAND`.  LOG, LOG_FORMAT and TRACE are read from the environment,
 * for every subcommand alike.
 */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"
#include "base/option.h"

/* What a subcommand returns, and so the process. */
enum program_status {
	PROGRAM_ok = 0,
	PROGRAM_failed = 1,
	PROGRAM_usage = 2,
	PROGRAM_interrupted = 130,
};

struct program_command {
	const char *word, *args, *help;    /* "prepare", "TEXT... --out DIR", one line */
	int (*run)(int argc, char **argv); /* argv[0] is the word; handles --help itself */
};

struct program {
	const char *name, *purpose; /* one line */
	const struct program_command *commands;
	size_t n_commands;
};

/* The process's exit status.  It is PROGRAM_failed also when what was printed could not be written
 * to standard output, with a sentence on standard error. */
int program_main(const struct program *p, int argc, char **argv);

/* The options of a subcommand; --help and --print-config need no rows, every subcommand has them.
 */
struct program_options {
	const char *program;
	const struct option_row *rows;
	size_t n_rows;
	const char *about,
		*examples;  /* what --help says before and after the table; NULL: nothing */
	const char **words; /* room for max_words that are no options */
	size_t max_words;
};

/* True: they are read, *n_words words too.  False: the subcommand ends here and returns *status: a
 * mistake was told, or --help or --print-config answered. */
bool program_options(const struct program_options *o, int argc, char **argv, size_t *n_words,
	int *status) MUST_CHECK;

/* For a subcommand that ends in a failure: writes "PROGRAM COMMAND: sentence" to standard error and
 * returns the status that goes with the code. */
int program_fail(const char *program, const char *command, const struct why *why);

#endif
