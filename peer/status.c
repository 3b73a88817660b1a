/* shoal-peer status: what the peer of a folder is doing, and why it idles. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/program.h"
#include "peer/command.h"
#include "peer/statusfile.h"

#define STALE_S 10 /* a living peer writes every second */

static struct {
	const char *dir;
} opt;

static const struct option_row rows[] = {
	{"dir", OPTION_text, &opt.dir, "shoal", 0, 0, "the peer's folder"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] = "shoal-peer status [--dir DIR]\n";

static void show(const struct statusfile *s)
{
	printf("member %u \"%s\" of run %.12s at %s\n", s->member, s->name, s->run, s->coordinator);
	printf("state   %s, round %llu, step %llu of %llu, ledger entry %llu\n", s->state,
		(unsigned long long)s->round, (unsigned long long)s->steps_done,
		(unsigned long long)s->steps, (unsigned long long)s->sequence);
	if (s->reason[0])
		printf("idle    %s\n", s->reason);
	char loss[24] = "none yet"; /* nothing is trained with a loss of 0 */
	if (s->loss > 0)
		snprintf(loss, sizeof loss, "%.3f", s->loss);
	printf("speed   %.0f tokens/s, loss %s, %llu tokens contributed since it started\n",
		s->tokens_per_s, loss, (unsigned long long)s->tokens);
	printf("traffic %.1f MB up, %.1f MB down\n", (double)s->bytes_up / 1e6,
		(double)s->bytes_down / 1e6);
	if (s->quota[0])
		printf("quota   %s\n", s->quota);
	if (s->given || s->taken)
		printf("peers   %.1f MB given to others, %.1f MB taken from them\n",
			(double)s->given / 1e6, (double)s->taken / 1e6);
	if (s->delay_s > 0)
		printf("delay   %.2f s from a cut until its update was joined, training went on\n",
			s->delay_s);
	if (s->rate[0])
		printf("sends   %s\n", s->rate);
	if (s->last_refusal[0])
		printf("refused %s\n", s->last_refusal);
}

int status_command(int argc, char **argv)
{
	const char *words[1];
	size_t n;
	struct why why;
	struct statusfile s;
	const struct program_options options = {.program = COMMAND_PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.words = words,
		.max_words = 0};
	int status;
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	enum err e = statusfile_read(opt.dir, &s, &why);
	if (e == ERR_missing)
		(void)err_why(&why, e, "no peer has run in the folder %s; name another with --dir",
			opt.dir);
	if (e)
		return program_fail(COMMAND_PROGRAM, argv[0], &why);
	uint64_t now = clock_wall_s(), age = now > s.written_s ? now - s.written_s : 0;
	show(&s);
	if (kill((pid_t)s.pid, 0) && errno == ESRCH) {
		printf("The peer has ended (it was process %lld); shoal-peer join --dir %s starts "
		       "it again.\n",
			(long long)s.pid, opt.dir);
		return PROGRAM_failed;
	}
	if (age > STALE_S) {
		printf("Process %lld has said nothing for %llu s: it is stopped, or its disk is "
		       "full or "
		       "stuck.\n",
			(long long)s.pid, (unsigned long long)age);
		return PROGRAM_failed;
	}
	return PROGRAM_ok;
}
