/*
 * Options: one row each gives the command line (--name VALUE or --name=VALUE), the environment
 * (SHOAL_NAME), the config file (name = value, inih) and the help.  Command line beats environment
 * beats file beats default.  Every mistake is one sentence that names where it stood.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/err.h"

enum option_kind {
	OPTION_flag,
	OPTION_int,
	OPTION_real,
	OPTION_text,
	OPTION_bytes /* 512M, 2G; K, M, G, T are powers of 1024 */,
	OPTION_seconds /* 90, 500ms, 5m, 2h, 1d */,
	OPTION_rate /* bits per second: 20M, 1.5G; powers of 1000, as links are sold */,
	OPTION_url /* a text; with USER:PASSWORD@ in it: neither printed nor taken from argv */
};

struct option_row {
	const char *name; /* "min-peers" */
	enum option_kind kind;
	void *into; /* bool, int64_t, double, const char * , uint64_t, uint64_t (ns), uint64_t */
	const char *fallback; /* as text; NULL: no default, the value keeps what it had */
	double least, most;   /* for numbers; both 0: no bound */
	const char *help;     /* one line */
};

/* A command line.  argv[0] is the subcommand's name; words that are no options land in words
 * (borrowed), which has room for max_words. */
struct option_args {
	int argc;
	char **argv;
	const char **words;
	size_t max_words, n_words;
};

/* Sets every row's value.  More words than there is room for are ERR_usage.  "--" ends options.  A
 * --config FILE row (SHOAL_CONFIG) is built in; names in the file that no row has are mistakes.  A
 * flag takes no following word: --name or --name=no.  An empty variable counts as unset.  --help is
 * not handled here.  Texts live as long as the process (those from argv are borrowed from it).  A
 * variable with a password is taken out of the environment, an argument with one is wiped and
 * refused.  At the start, from one thread. */
enum err option_read(const struct option_row *rows, size_t n_rows, struct option_args *args,
	struct why *why) MUST_CHECK;
/* The table for --help, two columns, with defaults. */
void option_help(const struct option_row *rows, size_t n_rows, FILE *to);
/* name = value for every row, as a config file that gives the same again; what such a file cannot
 * carry (no text, a line break, more than a line) is said in a comment. */
void option_print(const struct option_row *rows, size_t n_rows, FILE *to);

#endif
