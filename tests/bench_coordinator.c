/*
 * What a coordinator needs for thousands of peers: light ones (help_light.h) that join by HTTPS and
 * hold CURVE links with a heartbeat a second, in processes of their own on this machine.  It prints
 * how long joining and linking took, then over WINDOW seconds of rest the share of one core that
 * the coordinator took, its memory, and the round trips of heartbeats; then a tenth of the peers
 * (1,000 of 10,000) comes back at once, and how long that takes is told with what it does to
 * the others' heartbeats.
 *
 * PEERS=N: so many; usually 10,000, or what the limit of open files allows.  The light peers share
 * the machine: with two cores the round trips have their waiting in them, too.  A table,
 * build/bench/coordinator.json, and one line of key=value.
 */
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/signal.h"
#include "tests/help_bed.h"
#include "tests/help_bench.h"
#include "tests/help_light.h"

#define NAME "coordinator"
#define PEERS 10000u
#define PROCESSES 4u
#define WINDOW 30.0
#define LIMIT_S 900.0
#define PORT "17433"
#define LINK_PORT 17434
#define SPARE 200u /* files of a process beside its links */

struct figures {
	unsigned peers, storm;
	double join_s, link_s, core_share, rss_mb, p50_ms, p99_ms, back_s, storm_p99_ms;
	unsigned refused, lost;
};

static struct light_board *board;
static pid_t coordinator;

/* ---- the coordinator, from outside */

static double cpu_s(void)
{
	char path[64], line[1024] = "";
	unsigned long user = 0, system = 0;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)coordinator);
	FILE *f = fopen(path, "r");
	const char *at = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
	if (f)
		fclose(f);
	if (!at || sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			   &system) != 2)
		help_bench_die("%s says nothing of the coordinator's time", path);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double rss_mb(void)
{
	char path[64], line[256];
	double kib = 0;
	snprintf(path, sizeof path, "/proc/%d/status", (int)coordinator);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "VmRSS: %lf kB", &kib);
	if (f)
		fclose(f);
	return kib * 1024 / 1e6;
}

/* ---- waiting */

static const char *log_path(void)
{
	return help_bed_path(NAME, "coordinator.log");
}

static bool has_link(const void *arg)
{
	(void)arg;
	help_bed_must_live(coordinator, log_path());
	return file_exists(help_bed_path(NAME, "join.link"));
}

struct count {
	const _Atomic uint32_t *of;
	uint32_t until;
};

static bool has_come(const void *arg)
{
	const struct count *c = arg;
	help_bed_must_live(coordinator, log_path());
	if (waitpid(-1, NULL, WNOHANG) > 0)
		help_bench_die("a process of light peers has ended");
	return atomic_load(c->of) >= c->until;
}

static void await(const char *what, const _Atomic uint32_t *of, uint32_t until)
{
	help_bed_wait(what, LIMIT_S, has_come, &(struct count){of, until});
}

/* ---- round trips */

static void new_sample(void)
{
	for (int i = 0; i < LIGHT_BINS; i++)
		atomic_store(&board->rtt[i], 0);
}

static double quantile_ms(double q)
{
	double all = 0, most = 0.1, sum = 0;
	for (int i = 0; i < LIGHT_BINS; i++)
		all += atomic_load(&board->rtt[i]);
	for (int i = 0; i < LIGHT_BINS; i++, most *= 1.25) {
		sum += atomic_load(&board->rtt[i]);
		if (all > 0 && sum >= q * all)
			return most;
	}
	return 0;
}

/* ---- the whole */

static void serve(void)
{
	static const char *const changes[] = {"model.layers=1", "model.width=32", "model.heads=2",
		"model.context=32", "model.shards=1", "train.seq=32", "round.peers_min=16384",
		NULL};
	const char *folder = help_bed_path(NAME, "");
	if (!help_bench_works((const char *const[]){"rm", "-rf", folder, NULL}) ||
		mkdir(folder, 0755))
		help_bench_die("%s cannot be made anew", folder);
	const char *spec = help_bed_spec(NAME, changes);
	const struct help_bed_command c = {.log = log_path()};
	coordinator = HELP_BED_START(&c, "shoal-coordinator", "serve", spec, "--data",
		help_bed_data(), "--dir", help_bed_path(NAME, "run"), "--address", "127.0.0.1",
		"--port", PORT, "--link-port", "17434", "--connections", "16000", "--invite-file",
		help_bed_path(NAME, "join.link"));
	help_bed_wait("the coordinator starts", 60, has_link, NULL);
}

static void start_peers(unsigned peers, pid_t *of)
{
	for (unsigned i = 0; i < PROCESSES; i++) {
		const struct light_config c = {.link = help_bed_path(NAME, "join.link"),
			.port = LINK_PORT,
			.n = peers * (i + 1) / PROCESSES - peers * i / PROCESSES,
			.seed = i,
			.board = board};
		of[i] = fork();
		if (of[i] < 0)
			help_bench_die("fork failed");
		if (!of[i]) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever ends the bench */
			help_light_run(&c);
		}
	}
}

static void measure_rest(struct figures *f)
{
	const double cpu = cpu_s();
	const uint64_t from = clock_now_ns();
	new_sample();
	help_bed_wait("at rest", WINDOW, NULL, NULL);
	f->core_share = (cpu_s() - cpu) / clock_seconds(clock_now_ns() - from);
	f->rss_mb = rss_mb();
	f->p50_ms = quantile_ms(0.5);
	f->p99_ms = quantile_ms(0.99);
}

static void measure_storm(struct figures *f)
{
	const unsigned each = f->peers / 10 / PROCESSES;
	const uint64_t from = clock_now_ns();
	const unsigned refused = atomic_load(&board->refused), lost = atomic_load(&board->lost);
	f->storm = each * PROCESSES;
	new_sample();
	atomic_store(&board->storm, each);
	await("a tenth comes back", &board->stormed, f->storm);
	f->back_s = clock_seconds(clock_now_ns() - from);
	f->storm_p99_ms = quantile_ms(0.99);
	f->refused = atomic_load(&board->refused) - refused;
	f->lost = atomic_load(&board->lost) - lost;
}

static void play(struct figures *f)
{
	pid_t of[PROCESSES];
	uint64_t from = clock_now_ns();
	start_peers(f->peers, of);
	await("peers join", &board->joined, f->peers);
	f->join_s = clock_seconds(clock_now_ns() - from);
	from = clock_now_ns();
	atomic_store(&board->order, LIGHT_link);
	await("peers link", &board->open, f->peers);
	f->link_s = clock_seconds(clock_now_ns() - from);
	measure_rest(f);
	measure_storm(f);
	atomic_store(&board->order, LIGHT_end);
	for (unsigned i = 0; i < PROCESSES; i++)
		help_bed_kill(of[i]);
}

static void tell(const struct figures *f)
{
	json_t *all = json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:i, s:i}",
		"peers", (int)f->peers, "join_s", f->join_s, "link_s", f->link_s, "core_share",
		f->core_share, "rss_mb", f->rss_mb, "heartbeat_p50_ms", f->p50_ms,
		"heartbeat_p99_ms", f->p99_ms, "storm", (int)f->storm, "back_s", f->back_s,
		"storm_p99_ms", f->storm_p99_ms, "refused", (int)f->refused, "lost", (int)f->lost);
	if (json_dump_file(all, "build/bench/coordinator.json", JSON_INDENT(1)))
		help_bench_die("build/bench/coordinator.json cannot be written");
	json_decref(all);
	printf("  %u peers joined in %.1f s, and linked in %.1f s\n", f->peers, f->join_s,
		f->link_s);
	printf("  at rest: %.3f of a core, %.0f MB (%.0f kB a peer); heartbeats %.1f ms in the "
	       "middle, %.1f ms for 99 of 100\n",
		f->core_share, f->rss_mb, 1000 * f->rss_mb / f->peers, f->p50_ms, f->p99_ms);
	printf("  %u came back at once: all linked after %.2f s, %u refused, %u lost meanwhile; "
	       "heartbeats %.1f ms for 99 of 100\n",
		f->storm, f->back_s, f->refused, f->lost, f->storm_p99_ms);
	printf("bench: coordinator peers=%u core_share=%.3f rss_mb=%.0f heartbeat_p99_ms=%.1f\n",
		f->peers, f->core_share, f->rss_mb, f->p99_ms);
}

static unsigned how_many(void)
{
	struct rlimit files;
	const char *wish = getenv("PEERS");
	const unsigned asked = wish && wish[0] ? (unsigned)strtoul(wish, NULL, 10) : PEERS;
	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_max < 2 * SPARE)
		help_bench_die("the limit of open files is too low");
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
	/* One file a link in the coordinator; two a link in one of the processes of peers. */
	const unsigned most =
		(unsigned)(files.rlim_max < 1u << 20 ? files.rlim_max : 1u << 20) - SPARE;
	return asked < most ? asked : most;
}

int main(void)
{
	struct figures f = {.peers = how_many()};
	signal_watch();
	mkdir("build/bench", 0777);
	mkdir(HELP_BED_FOLDER, 0777);
	board = mmap(
		NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED || f.peers < 10 * PROCESSES)
		help_bench_die("no memory, or fewer than %u peers", 10 * PROCESSES);
	help_bed_plan(f.peers / 40.0 + 60);
	serve();
	play(&f);
	help_bed_kill(coordinator);
	tell(&f);
	return 0;
}
