/* shoal-peer join: take part in a run. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/program.h"
#include "net/joinlink.h"
#include "net/roster.h"
#include "net/traffic.h"
#include "peer/command.h"
#include "peer/give.h"
#include "peer/member.h"
#include "peer/quota.h"
#include "peer/throttle.h"
#include "peer/trainer.h"

static struct {
	const char *dir, *name, *backend, *listen, *proxy;
	int64_t threads, windows;
	double share;
	uint64_t step_time;
	uint64_t memory, max_up, send_delay, give;
	const char *quota;
	bool upnp;
} opt;

static const struct option_row rows[] = {
	{"dir", OPTION_text, &opt.dir, "shoal", 0, 0,
		"this peer's folder: keys, data, saved states"},
	{"name", OPTION_text, &opt.name, NULL, 0, 0,
		"what to be called on the page; usual: the machine's name"},
	{"backend", OPTION_text, &opt.backend, "cpu", 0, 0,
		"device to compute on (shoal-peer bench lists them)"},
	{"threads", OPTION_int, &opt.threads, "0", 0, 1024,
		"compute threads; 0: one per core allowed here"},
	{"cpu-share", OPTION_real, &opt.share, "1", THROTTLE_SHARE_LEAST, 1,
		"share of the time that training may compute, as in 0.5; 1: all"},
	{"memory", OPTION_bytes, &opt.memory, "0", 0, 0,
		"most memory to take, as in 6G; 0: what the machine has left"},
	{"windows", OPTION_int, &opt.windows, "0", 0, 1e9,
		"validation windows to look at when asked; 0: all"},
	{"max-up", OPTION_rate, &opt.max_up, "0", 0, 0,
		"most to send per second, as in 8M (bits); 0: what the network takes"},
	{"quota", OPTION_text, &opt.quota, "0", 0, 0,
		"most to send and receive together, as in 50G/month or 2G/day; 0: no limit"},
	{"send-delay", OPTION_seconds, &opt.send_delay, "0", 0, 10,
		"for tests of far links: what is sent leaves so much later"},
	{"step-time", OPTION_seconds, &opt.step_time, "0", 0, 3600,
		"for tests of slow devices: a step takes at least so long"},
	{"listen", OPTION_text, &opt.listen, NULL, 0, 0,
		"HOST:PORT where other peers reach this one, to give them what they lack; usual: "
		"off"},
	{"upnp", OPTION_flag, &opt.upnp, NULL, 0, 0,
		"with --listen: ask the router by UPnP to pass that port on; HOST may then be *"},
	{"proxy", OPTION_url, &opt.proxy, NULL, 0, 0,
		"socks5h://HOST:PORT or http://HOST:PORT that all connections go out by; usual: "
		"none"},
	{"give", OPTION_rate, &opt.give, "30M", GIVE_RATE_LEAST, 1e12,
		"with --listen: most bits a second for them, as in 30M"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-peer join [LINK]\n\n"
	"Takes part in the run that LINK names: the link itself, a file that holds it, or - "
	"for standard input.\n"
	"Without LINK it goes on with the run of its folder.  Ctrl-C leaves cleanly; the "
	"same command comes back.\n";

static const char examples[] = "  shoal-peer join invite.txt --dir ~/shoal --threads 4\n"
			       "  shoal-peer join --dir ~/shoal\n";

/* The link that was given, else the one that the folder keeps. */
static enum err read_link(char *word, struct joinlink *link, struct why *why)
{
	if (word)
		return joinlink_read(word, link, why);
	char *path = alloc_must_printf("%s/join.link", opt.dir);
	enum err e = file_exists(path) ? joinlink_read(path, link, why)
				       : err_why(why, ERR_usage,
						 "%s has no run to go on with; give the join link "
						 "that the operator sent you",
						 opt.dir);
	free(path);
	return e;
}

/* A folder belongs to one run: its keys, data and states are that run's. */
static enum err check_folder(const struct joinlink *link, struct why *why)
{
	struct joinlink kept;
	char *path = alloc_must_printf("%s/join.link", opt.dir);
	char there[HASH_HEX], here[HASH_HEX];
	bool other = file_exists(path) && !joinlink_read(path, &kept, NULL) &&
		     !hash_equal(&kept.run, &link->run);
	free(path);
	if (!other)
		return ERR_OK;
	hash_hex(&kept.run, there);
	hash_hex(&link->run, here);
	return err_why(why, ERR_usage,
		"the folder %s is of run %.12s, the join link is of run %.12s: give each run a "
		"folder of its own with --dir",
		opt.dir, there, here);
}

static const char *own_name(char host[static ROSTER_NAME])
{
	if (opt.name)
		return opt.name;
	if (gethostname(host, ROSTER_NAME - 1) || !roster_name_ok(host))
		snprintf(host, ROSTER_NAME, "unnamed");
	return host;
}

static enum err check_listen(struct why *why)
{
	if (opt.upnp && !opt.listen)
		return err_why(why, ERR_usage,
			"--upnp asks the router to open the port of --listen, which is missing: "
			"--listen '*:7435' --upnp");
	if (opt.listen && opt.listen[0] == '*' && !opt.upnp)
		return err_why(why, ERR_usage,
			"--listen %s names no host that other peers could be told: give this "
			"machine's outer name or address, or let --upnp find it",
			opt.listen);
	return ERR_OK;
}

/* Nobody can come in by a proxy. */
static enum err read_proxy(struct proxy *proxy, struct why *why)
{
	if (opt.proxy && opt.listen)
		return err_why(why, ERR_usage,
			"--listen and --proxy exclude each other: behind a proxy nobody can reach "
			"this machine; leave one of them out");
	return opt.proxy ? proxy_parse(opt.proxy, proxy, why) : ERR_OK;
}

/* Says goodbye when the quota is used up, and comes back when a new one begins. */
static enum err stay(struct member_config *how, const struct quota_wish *wish, struct why *why)
{
	struct quota quota;
	struct traffic traffic = {0};
	enum err e = quota_open(&quota, opt.dir, wish, clock_wall_s(), why);
	if (e)
		return e;
	how->traffic = &traffic;
	how->quota = &quota;
	e = member_run(how, why);
	quota_count(&quota, atomic_load(&traffic.bytes), clock_wall_s());
	quota_close(&quota);
	return e;
}

static enum err take_part(char *word, struct why *why)
{
	struct joinlink link;
	struct proxy proxy;
	struct quota_wish quota;
	struct identity_peer identity = {0};
	char host[ROSTER_NAME] = "";
	int lock = -1;
	char *path = alloc_must_printf("%s/lock", opt.dir);
	const struct backend *backend;
	/* What is mistyped leaves no folder behind, and no member in the run. */
	enum err e = trainer_backend(opt.backend, &backend, why);
	if (!e)
		e = check_listen(why);
	if (!e)
		e = read_proxy(&proxy, why);
	if (!e)
		e = quota_parse(opt.quota, "--quota", &quota, why);
	if (!e)
		e = read_link(word, &link, why);
	if (!e)
		e = file_mkdirs(opt.dir, 0700, why);
	if (!e)
		e = file_lock(path, &lock, why);
	free(path);
	if (!e)
		e = check_folder(&link, why);
	if (!e && !roster_name_ok(own_name(host)))
		e = err_why(why, ERR_usage, "--name must be 1 to %d printable characters",
			ROSTER_NAME - 1);
	if (!e)
		e = identity_peer_open(opt.dir, &identity, why);
	if (!e) {
		struct member_config how = {.link = &link,
			.identity = &identity,
			.proxy = opt.proxy ? &proxy : NULL,
			.dir = opt.dir,
			.name = own_name(host),
			.backend = opt.backend,
			.threads = (unsigned)opt.threads,
			.share = opt.share,
			.step_ns = opt.step_time,
			.memory = opt.memory,
			.windows = (uint64_t)opt.windows,
			.max_up = opt.max_up,
			.send_delay_ns = opt.send_delay,
			.listen = opt.listen,
			.upnp = opt.upnp,
			.give = opt.give / 8};
		e = stay(&how, &quota, why);
	}
	identity_peer_release(&identity);
	if (lock >= 0)
		close(lock);
	return e;
}

int join_command(int argc, char **argv)
{
	const char *words[1];
	size_t n;
	struct why why;
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
	enum err e = take_part(n ? (char *)(uintptr_t)words[0] : NULL, &why);
	if (e == ERR_interrupted)
		return PROGRAM_interrupted;
	return e ? program_fail(COMMAND_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
