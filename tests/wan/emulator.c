/* wan emulator: the tool behind wan.sh.  See bed.h for the files. */
#include "base/program.h"
#include "base/signal.h"
#include "tests/wan/gauge.h"
#include "tests/wan/star.h"
#include "tests/wan/steer.h"
#include "tests/wan/bed.h"
#include <stdio.h>
#include <string.h>

#define PROGRAM "wan"
#define SEED 1 /* the same packets are lost each time, as far as the same are sent */

static int wrong_words(const char *command)
{
	fprintf(stderr, PROGRAM " %s: wrong number of words; " PROGRAM " --help\n", command);
	return PROGRAM_usage;
}

/* nodes FILE: also the check of a file */
static int run_nodes(int argc, char **argv)
{
	struct bed t;
	struct why why;
	if (argc != 2)
		return wrong_words(argv[0]);
	if (bed_read(argv[1], &t, &why))
		return program_fail(PROGRAM, argv[0], &why);
	for (size_t i = 0; i < t.n_nodes; i++) {
		char address[16];
		bed_address(i, address);
		printf("%s %s %s %g\n", t.node[i].name, address, t.site[t.node[i].site],
			t.node[i].way.speed);
	}
	return PROGRAM_ok;
}

/* path FILE NODE: options of shoal-peer join with which a node sends as over its way to the
 * coordinator, where there are no namespaces.  Both ways' delay is put on the one that is slowed.
 */
static int run_path(int argc, char **argv)
{
	struct bed t;
	struct why why;
	if (argc != 3)
		return wrong_words(argv[0]);
	if (bed_read(argv[1], &t, &why))
		return program_fail(PROGRAM, argv[0], &why);
	size_t from = bed_find(&t, argv[2]), to = bed_find(&t, "coordinator");
	if (from >= t.n_nodes) {
		err_why(&why, ERR_missing, "there is no node %s", argv[2]);
		return program_fail(PROGRAM, argv[0], &why);
	}
	if (from == to)
		return PROGRAM_ok;
	struct bed_path p = bed_path(&t, from, to);
	printf("SHOAL_MAX_UP=%.0f SHOAL_SEND_DELAY=%.0fms\n", p.up * 1e6, 2 * p.delay);
	return PROGRAM_ok;
}

/* run FILE PREFIX SOCKET */
static int run_run(int argc, char **argv)
{
	struct bed t;
	struct why why;
	if (argc != 4)
		return wrong_words(argv[0]);
	signal_watch();
	if (bed_read(argv[1], &t, &why) || star_run(&t, argv[2], SEED, argv[3], &why))
		return program_fail(PROGRAM, argv[0], &why);
	return PROGRAM_ok;
}

/* tell SOCKET WORD... */
static int run_tell(int argc, char **argv)
{
	static char answer[STEER_ANSWER];
	char line[STEER_LINE] = "";
	struct why why;
	if (argc < 3)
		return wrong_words(argv[0]);
	for (int i = 2; i < argc; i++) {
		size_t n = strlen(line);
		if ((size_t)snprintf(line + n, sizeof line - n, "%s%s", n ? " " : "", argv[i]) >=
			sizeof line - n)
			return wrong_words(argv[0]);
	}
	if (steer_ask(argv[1], line, answer, sizeof answer, &why))
		return program_fail(PROGRAM, argv[0], &why);
	if (strcmp(line, "stats") == 0) {
		printf("%s", answer);
		return PROGRAM_ok;
	}
	if (strcmp(answer, "ok") == 0)
		return PROGRAM_ok;
	fprintf(stderr, PROGRAM " tell: %s\n", answer);
	return PROGRAM_failed;
}

/* ---- measure FILE PREFIX NAME */

static void row(const struct bed *t, size_t from, size_t to, const struct bed_path *asked,
	const struct gauge *got)
{
	char names[2 * BED_NAME + 2];
	snprintf(names, sizeof names, "%s %s", t->node[from].name, t->node[to].name);
	printf("  %-24s %6.1f / %6.1f  %7.1f / %6.1f  %7.1f / %6.1f  %.4f / %.4f\n", names,
		2 * asked->delay, got->rtt_ms, asked->up, got->up, asked->down, got->down,
		asked->loss, got->loss);
	fflush(stdout);
}

/* Measures a pair and prints its row; false after telling what is not as promised. */
static enum err pair(const struct bed *t, const char *prefix, size_t from, size_t to,
	struct gauge *got, struct why *why)
{
	const struct bed_path asked = bed_path(t, from, to);
	const char *what;
	enum err err = gauge_pair(t, prefix, from, to, got, why);
	if (err)
		return err;
	row(t, from, to, &asked, got);
	if (!gauge_holds(&asked, got, &what))
		return err_why(why, ERR_range, "%s between %s and %s is not as asked", what,
			t->node[from].name, t->node[to].name);
	return ERR_OK;
}

/* The first pair of nodes, neither of them the coordinator, with this pair of sites. */
static bool pair_of(const struct bed *t, size_t a, size_t b, size_t *from, size_t *to)
{
	size_t coordinator = bed_find(t, "coordinator");
	for (*from = 0; *from < t->n_nodes; ++*from)
		for (*to = 0; *to < t->n_nodes; ++*to)
			if (*from != *to && *from != coordinator && *to != coordinator &&
				t->node[*from].site == a && t->node[*to].site == b)
				return true;
	return false;
}

static enum err measure(
	const struct bed *t, const char *prefix, struct gauge *first, struct why *why)
{
	size_t coordinator = bed_find(t, "coordinator"), from, to;
	if (t->n_nodes < 2)
		return err_why(why, ERR_missing, "there is nothing between one node and itself");
	printf("  %-24s %15s  %16s  %16s  %15s\n", "asked / achieved", "rtt ms", "up Mbit/s",
		"down Mbit/s", "loss");
	enum err err = pair(t, prefix, coordinator == 0, coordinator, first, why);
	for (size_t a = 0; !err && a < t->n_sites; a++)
		for (size_t b = a; !err && b < t->n_sites; b++)
			if (pair_of(t, a, b, &from, &to))
				err = pair(t, prefix, from, to, &(struct gauge){0}, why);
	return err;
}

static int run_measure(int argc, char **argv)
{
	struct bed t;
	struct gauge first;
	struct why why;
	if (argc != 4)
		return wrong_words(argv[0]);
	enum err err = bed_read(argv[1], &t, &why);
	if (!err)
		err = measure(&t, argv[2], &first, &why);
	if (err) {
		printf(PROGRAM ": failed profile=%s %s\n", argv[3], why.text);
		return PROGRAM_failed;
	}
	printf(PROGRAM ": ok profile=%s rtt_ms=%.1f up_mbit=%.1f down_mbit=%.1f loss=%.4f\n",
		argv[3], first.rtt_ms, first.up, first.down, first.loss);
	return PROGRAM_ok;
}

int main(int argc, char **argv)
{
	static const struct program_command commands[] = {
		{"nodes", "FILE", "checks a topology; name, address, site and speed of its nodes",
			run_nodes},
		{"path", "FILE NODE",
			"the environment that makes a peer send as slowly as that node", run_path},
		{"run", "FILE PREFIX SOCKET", "carries packets between the namespaces PREFIX-NODE",
			run_run},
		{"tell", "SOCKET WORD...", "changes a bed that runs: node, link, cut, heal; stats",
			run_tell},
		{"measure", "FILE PREFIX NAME", "measures a bed that runs, as profile NAME",
			run_measure},
	};
	const struct program program = {
		.name = PROGRAM,
		.purpose = "slow links between network namespaces, for tests",
		.commands = commands,
		.n_commands = sizeof commands / sizeof *commands,
	};
	return program_main(&program, argc, argv);
}
