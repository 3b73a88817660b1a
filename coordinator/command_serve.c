/* shoal-coordinator serve: a run, its members, its page. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <poll.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/option.h"
#include "base/program.h"
#include "base/signal.h"
#include "coordinator/commands.h"
#include "coordinator/hub.h"
#include "coordinator/hub_invite.h"
#include "coordinator/progress_line.h"
#include "coordinator/reason.h"
#include "model/hfinit.h"
#include "net/address.h"
#include "net/https_server.h"

#define SETS_MAX 64
#define CONNECTIONS_MOST 16384
#define SPACE_EVERY_MS 2000
#define SPACE_LEAST (1u << 20) /* bytes that fit again */

#define MAX_UP_LEAST 64000 /* bits/s */
#define FILES_BESIDE 1200  /* files beside links: of the store, and of who asks by HTTPS */

static struct {
	struct hub_config hub;
	int64_t port, link_port, uses, connections;
	const char *plan;
} opt;

static const struct option_row rows[] = {
	{"data", OPTION_text, &opt.hub.data, NULL, 0, 0, "folder made by prepare for this spec"},
	{"dir", OPTION_text, &opt.hub.dir, NULL, 0, 0,
		"folder of the run: keys, ledger, model; made at the first start"},
	{"init", OPTION_text, &opt.hub.init, NULL, 0, 0,
		"Hugging Face folder to begin with, at the first start; fills in the spec's init"},
	{"address", OPTION_text, &opt.hub.address, "*", 0, 0,
		"address to listen on, IPv4 or IPv6; *: all of this machine"},
	{"port", OPTION_int, &opt.port, "7433", 0, 65535,
		"of page and control plane (HTTPS); 0: any"},
	{"link-port", OPTION_int, &opt.link_port, "7434", 0, 65535, "of the data plane; 0: any"},
	{"public-address", OPTION_text, &opt.hub.public_address, NULL, 0, 0,
		"name or address of this machine in join links; else its own address"},
	{"invite-file", OPTION_text, &opt.hub.invite_file, NULL, 0, 0,
		"where the join link goes; else join.link in the run's folder"},
	{"invite-uses", OPTION_int, &opt.uses, "0", 0, 16384,
		"peers that may use that link; 0: any number"},
	{"invite-expires", OPTION_seconds, &opt.hub.invite_expires_ns, "30d", 0, 3.2e8,
		"how long that link is good for; 0: for ever"},
	{"memory", OPTION_bytes, &opt.hub.memory, "256M", 1 << 20, 1e13,
		"for contributions that are being received, all together"},
	{"connections", OPTION_int, &opt.connections, "10000", 1, CONNECTIONS_MOST,
		"links open at once"},
	{"heartbeat", OPTION_seconds, &opt.hub.heartbeat_ns, "1", 0.05, 60,
		"between signs of life on a link"},
	{"timeout", OPTION_seconds, &opt.hub.timeout_ns, "6", 0.2, 600,
		"without a sign of life a link is lost"},
	{"plan", OPTION_text, &opt.plan, "latency", 0, 0,
		"who aggregates: latency (by the measured links), star, random"},
	{"max-up", OPTION_rate, &opt.hub.max_up, "0", 0, 0,
		"most that is sent, links and HTTPS together; control messages never wait; 0: no "
		"limit"},
	{"exit-at-end", OPTION_flag, &opt.hub.exit_at_end, NULL, 0, 0,
		"stop when the run has ended, instead of showing its page"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-coordinator serve SPEC --data DIR --dir DIR [PATH=VALUE ...]\n\n"
	"Serves the run of SPEC: peers join with the link that it writes, everybody may look "
	"at its\npage.  Stopping it (Ctrl-C, or a power cut) loses nothing: start it again "
	"with the same folder.\n";

static const char examples[] =
	"  shoal-coordinator prepare book.txt --out data --spec configs/demo.json "
	"--write-spec run.json\n"
	"  shoal-coordinator serve run.json --data data --dir run\n";

static void introduce(const struct hub *h)
{
	char host[JOINLINK_HOST], page[JOINLINK_HOST + 8], reason[REASON_TEXT];
	struct invites_wish where;
	hub_invite_where(h, &where, host);
	address_join(host, where.port, page, sizeof page);
	printf("page: https://%s/\n", page);
	printf("join link: %s\n", h->invite_path);
	printf("A volunteer runs shoal-peer join FILE with that file, or with the link that is in "
	       "it.\nThe page's certificate is its own: a browser asks once.  Without its run key "
	       "the run cannot go\non: keep what shoal-coordinator backup %s --out FILE writes "
	       "elsewhere.\n",
		h->config.dir);
	if (run_head(&h->run).sequence)
		printf("The ledger stands at round %llu with %llu of %llu tokens.\n",
			(unsigned long long)run_head(&h->run).round,
			(unsigned long long)ledger_tokens(h->run.ledger),
			(unsigned long long)h->run.spec->train.total_tokens);
	reason_text(h->rounds, h->run.spec, clock_now_ns(), reason);
	printf("Now: %s\n", reason);
	fflush(stdout);
}

/* A spec that names no initial weights gets those of --init. */
static enum err load_spec(const char *path, const char *const *sets, size_t n_sets,
	struct spec **out, struct why *why)
{
	const char *all[SETS_MAX + 1];
	char set[HFINIT_SET];
	enum err err = spec_load(path, sets, n_sets, out, NULL, why);
	if (err || !opt.hub.init || !hash_is_zero(&(*out)->init))
		return err;
	spec_free(*out);
	*out = NULL;
	memcpy(all, sets, n_sets * sizeof *all);
	all[n_sets] = set;
	err = hfinit_set(opt.hub.init, set, why);
	return err ? err : spec_load(path, all, n_sets + 1, out, NULL, why);
}

/* Asks the disk itself: a quota is not in the figures of its file system. */
static bool has_space(void)
{
	char *path = alloc_must_printf("%s/space", opt.hub.dir),
	     *bytes = alloc_must_zero(1, SPACE_LEAST);
	struct file_out *f = NULL;
	bool has =
		!file_out_open(path, 0600, &f, NULL) && !file_out_put(f, bytes, SPACE_LEAST, NULL);
	file_out_discard(f);
	free(bytes);
	free(path);
	return has;
}

/* The run is as after a power cut, and peers wait and train on.  False: asked to stop. */
static bool wait_for_space(const struct why *why)
{
	progress_line_end();
	log_warn(coord, "the run waits for space and goes on by itself: %s", why->text);
	do {
		struct pollfd asked = {.fd = signal_fd(), .events = POLLIN};
		(void)poll(&asked, 1, SPACE_EVERY_MS);
	} while (!signal_asked() && !has_space());
	return !signal_asked();
}

/* Until it ends, or something is missing that the store cannot do without. */
static enum err serve_once(const struct spec *spec, bool *introduced, bool waited, struct why *why)
{
	struct hub h;
	enum err err = hub_open(&opt.hub, spec, &h, why);
	if (!err) {
		struct invites_wish where;
		char host[JOINLINK_HOST];
		hub_invite_where(&h, &where, host);
		opt.hub.port = where.port; /* any is good the first time; then peers know it */
		opt.hub.link_port = link_port(h.link);
		if (waited)
			log_at(coord, 1, "there is space again: the run goes on");
		if (!*introduced)
			introduce(&h);
		*introduced = true;
		err = hub_run(&h, why);
	}
	progress_line_end();
	if (!err && !h.told_outcome)
		progress_line_outcome(&h, "stopped");
	hub_close(&h);
	return err;
}

/* Being stopped while it waits for space is no failure: what is on the disk is whole. */
static enum err serve(const char *path, const char *const *sets, size_t n_sets, struct why *why)
{
	struct spec *spec = NULL;
	bool introduced = false, waited = false;
	enum err err = load_spec(path, sets, n_sets, &spec, why);
	if (err)
		return err;
	signal_watch();
	while ((err = serve_once(spec, &introduced, waited, why)) == ERR_full &&
		wait_for_space(why))
		waited = true;
	if (err == ERR_full) {
		printf("serve: stopped while the run waited for space; free some on the disk of "
		       "%s, and the same command goes on\n",
			opt.hub.dir);
		err = ERR_OK;
	}
	spec_free(spec);
	return err;
}

/* Each link is an open file: as many as this system lets a process have. */
static void allow_files(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max;
	if (!setrlimit(RLIMIT_NOFILE, &files) &&
		files.rlim_max < (rlim_t)opt.connections + FILES_BESIDE)
		log_at(coord, 1,
			"this system lets a process open %llu files: about so many peers can be "
			"linked at once (ulimit -Hn raises that)",
			(unsigned long long)files.rlim_max);
}

static enum err check(size_t n_words, const char *const *words, struct why *why)
{
	if (!n_words || strchr(words[0], '='))
		return err_why(why, ERR_usage,
			"no spec is given: shoal-coordinator serve SPEC --data DIR --dir DIR");
	if (!opt.hub.data)
		return err_why(why, ERR_usage,
			"--data DIR is missing: the folder that prepare made for this spec");
	if (!opt.hub.dir)
		return err_why(why, ERR_usage, "--dir DIR is missing: the folder of the run");
	if (opt.hub.timeout_ns < 2 * opt.hub.heartbeat_ns)
		return err_why(why, ERR_usage,
			"--timeout must be at least twice --heartbeat, or every link is lost");
	if (opt.hub.max_up && opt.hub.max_up < MAX_UP_LEAST)
		return err_why(why, ERR_usage,
			"--max-up must be at least 64k bits per second: heartbeats alone need "
			"some of it; 0 sets no limit");
	if (!topology_mode_of(opt.plan, &opt.hub.plan))
		return err_why(why, ERR_usage, "--plan must be latency, star or random, is \"%s\"",
			opt.plan);
	return ERR_OK;
}

int command_serve(int argc, char **argv)
{
	const char *words[1 + SETS_MAX];
	size_t n = 0;
	struct why why = {0};
	const struct program_options options = {.program = COMMAND_PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.examples = examples,
		.words = words,
		.max_words = 1 + SETS_MAX};
	int status;
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	opt.hub.port = (uint16_t)opt.port;
	opt.hub.link_port = (uint16_t)opt.link_port;
	opt.hub.invite_uses = (uint32_t)opt.uses;
	opt.hub.connections_most = (uint32_t)opt.connections;
	enum err err = check(n, words, &why);
	allow_files();
	if (!err)
		err = serve(words[0], words + 1, n - 1, &why);
	return err ? program_fail(COMMAND_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
