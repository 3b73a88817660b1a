#include "tests/help_bed.h"
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/signal.h"
#include "tests/help_bench.h"

#define SCRIPT "tests/wan/wan.sh"
#define WORDS 48
#define BEDS 4
#define LOOK_MS 50
#define STATS_MOST (1u << 20)

static char beds[BEDS][16]; /* those that are up */

/* ---- processes */

static pid_t start(const struct help_bed_command *c, const char *const *argv)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid < 0)
		help_bench_die("no process for %s", argv[0]);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_IGN); /* this bench ends it */
	if (c->nice && setpriority(PRIO_PROCESS, 0, c->nice))
		_exit(127);
	if (c->trace)
		setenv("TRACE", c->trace, 1);
	if (c->bed)
		setenv("WAN_NAME", c->bed, 1);
	int out = c->log ? open(c->log, O_WRONLY | O_CREAT | O_APPEND, 0644)
			 : open("/dev/null", O_WRONLY);
	int in = open("/dev/null", O_RDONLY);
	if (out < 0 || in < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0 ||
		dup2(in, STDIN_FILENO) < 0)
		_exit(127);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

pid_t help_bed_start(const struct help_bed_command *c, const char *const *argv)
{
	const char *words[WORDS] = {SCRIPT, "run", c->node};
	size_t n = c->bed ? 3 : 0, first = n;
	for (size_t i = 0; argv[i] && n < WORDS - 1; i++)
		words[n++] = argv[i];
	char *program = argv[0][0] == '/'
				? alloc_must_strdup(argv[0])
				: alloc_must_printf("%s/%s", getenv("SHOAL_BIN"), argv[0]);
	words[first] = program;
	pid_t pid = start(c, words);
	free(program);
	return pid;
}

void help_bed_kill(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void die_with_log(const char *what, const char *log)
{
	char *command = alloc_must_printf("tail -n 5 '%s' >&2", log ? log : "/dev/null");
	if (system(command))
		fputs("its log cannot be shown\n", stderr);
	free(command);
	help_bench_die("%s; its log is %s", what, log ? log : "not kept");
}

void help_bed_must_live(pid_t pid, const char *log)
{
	if (waitpid(pid, NULL, WNOHANG) != 0)
		die_with_log("a program has ended too early", log);
}

void help_bed_works(pid_t pid, const char *log, unsigned seconds)
{
	int status = 1;
	const uint64_t end = clock_now_ns() + seconds * CLOCK_SECOND;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (clock_now_ns() > end) {
			help_bed_kill(pid);
			die_with_log("a program took too long", log);
		}
		poll(NULL, 0, LOOK_MS);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		die_with_log("a program has failed", log);
}

/* ---- beds */

bool help_bed_allowed(char *why, size_t size)
{
	FILE *f = popen(SCRIPT " allowed", "r");
	if (!f || !fgets(why, (int)size, f))
		snprintf(why, size, "%s does not run", SCRIPT);
	why[strcspn(why, "\n")] = 0;
	return f && pclose(f) == 0;
}

static void script(const char *bed, const char *what, const char *profile)
{
	const struct help_bed_command c = {.bed = bed, .log = HELP_BED_FOLDER "/wan.log"};
	help_bed_works(start(&c, (const char *const[]){SCRIPT, what, profile, NULL}), c.log, 60);
}

static void all_down(void)
{
	for (int i = 0; i < BEDS; i++)
		if (beds[i][0])
			help_bed_down(beds[i]);
}

void help_bed_up(const char *name, const char *profile)
{
	static bool before;
	if (!before)
		atexit(all_down);
	before = true;
	for (int i = 0; i < BEDS; i++)
		if (!beds[i][0]) {
			snprintf(beds[i], sizeof beds[i], "%s", name);
			script(name, "down", NULL); /* what a killed bench has left */
			script(name, "up", profile);
			return;
		}
	help_bench_die("too many beds");
}

void help_bed_down(const char *name)
{
	for (int i = 0; i < BEDS; i++)
		if (strcmp(beds[i], name) == 0) {
			char kept[sizeof beds[i]];
			memcpy(kept, beds[i], sizeof kept);
			beds[i][0] = 0; /* first, since a failure ends up here again */
			script(kept, "down", NULL);
			return;
		}
}

const char *help_bed_slow(const char *profile, double by)
{
	const char *path = alloc_must_printf("%s/%s-%g.bed", HELP_BED_FOLDER, profile, by);
	char *command = alloc_must_printf(
		"awk -v by=%g '{ for (i = 1; i <= NF; i++) { split($i, p, \"=\");"
		" if (p[1] ~ /^(up|down|rate)$/) $i = p[1] \"=\" p[2] / by;"
		" if (p[1] ~ /^(delay|jitter|queue)$/) $i = p[1] \"=\" p[2] * by } print }' "
		"tests/wan/%s.bed >%s",
		by, profile, path);
	if (system(command))
		help_bench_die("tests/wan/%s.bed cannot be slowed down into %s", profile, path);
	free(command);
	return path;
}

void help_bed_become(const char *name, const char *path)
{
	char *command = alloc_must_printf(
		"sed -n '/^node/s/^\\(node [^ ]*\\) [^ ]*/\\1/p; /^link/p' %s |"
		" while read -r line; do WAN_NAME=%s " SCRIPT " tell $line || exit 1; done",
		path, name);
	if (system(command))
		help_bench_die("%s: the bed does not take its lines", path);
	free(command);
}

/* ---- bytes */

char *help_bed_stats(const char *bed)
{
	uint8_t *bytes;
	size_t n;
	struct why why;
	const struct help_bed_command c = {.bed = bed, .log = HELP_BED_FOLDER "/stats"};
	remove(c.log);
	help_bed_works(start(&c, (const char *const[]){SCRIPT, "tell", "stats", NULL}), c.log, 60);
	if (file_read(c.log, STATS_MOST, &bytes, &n, &why))
		help_bench_die("%s", why.text);
	return (char *)bytes;
}

double help_bed_bytes(const char *stats, const char *name, const char *key)
{
	const size_t n = strlen(name);
	for (const char *line = stats; *line; line = strchr(line, '\n') + 1) {
		if (strncmp(line, name, n) == 0 && line[n] == ' ') {
			const char *at = strstr(line + n, key);
			return at ? strtod(at + strlen(key) + 1, NULL) : 0;
		}
		if (!strchr(line, '\n'))
			break;
	}
	return 0;
}

/* ---- waiting */

static struct progress progress;
static double planned_s;
static uint64_t began_ns;

void help_bed_plan(double seconds)
{
	planned_s = seconds;
	began_ns = clock_now_ns();
	progress_init(&progress, 0);
}

void help_bed_wait(const char *what, double limit, bool (*ready)(const void *arg), const void *arg)
{
	const uint64_t begin = clock_now_ns();
	for (;;) {
		const double passed = clock_seconds(clock_now_ns() - began_ns);
		if (signal_asked())
			help_bench_die("stopped");
		if (ready ? ready(arg) : clock_seconds(clock_now_ns() - begin) >= limit)
			return;
		if (ready && clock_seconds(clock_now_ns() - begin) >= limit)
			help_bench_die("%s: not done within %.0f s; the logs are under %s", what,
				limit, HELP_BED_FOLDER);
		progress_show(&progress, fmin(passed / planned_s, 0.99), false, "%s", what);
		poll(NULL, 0, LOOK_MS);
	}
}
