/* shoal-peer upnp: asks this network's router to open a port, or to close it again.
 *
 * miniupnpc believes whatever answers on the local network, keeps as much of it as comes and waits
 * for it as long as it drips.  So it runs in a process of its own, which may take little memory and
 * is ended after some seconds; `join --upnp` starts it as well (peer/portmap.h).  The library is
 * not linked, since few machines have it: of its ABI only what has been the same in all versions
 * named below is used. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/program.h"
#include "base/text.h"
#include "net/address.h"
#include "peer/command.h"
#include "peer/portmap.h"

#define MEMORY_MORE (256ull << 20) /* bytes; half of them may be asked for by OpenBLAS's thread */
#define SECONDS_MOST 12u
#define DELAY_MS 1500 /* for routers to answer the question who is one */
#define DEVICES_MOST 16
#define PORTS_TRIED 4
#define TAKEN 718          /* UPnP: another machine has that port */
#define NO_LEASES 725      /* UPnP: only for ever */
#define REFUSES_ACTION 606 /* UPnP: not authorised */

static struct {
	int64_t port, outer;
	uint64_t lease_ns;
	const char *router;
	bool remove;
} opt;

static const struct option_row rows[] = {
	{"port", OPTION_int, &opt.port, "7435", 1, 65535, "TCP port of this machine"},
	{"outer", OPTION_int, &opt.outer, "0", 0, 65535, "port of the router; 0: the same"},
	{"lease", OPTION_seconds, &opt.lease_ns, "20m", 1, 604800,
		"how long the router keeps it open without being asked again"},
	{"router", OPTION_text, &opt.router, NULL, 0, 0,
		"address of its description; usual: found by asking"},
	{"remove", OPTION_flag, &opt.remove, NULL, 0, 0, "close it"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-peer upnp --port PORT\n\n"
	"Asks the router of this network, by UPnP, to pass connections to a port of this machine "
	"on,\nand prints \"mapped\", the router's outer address and port, for how many seconds, "
	"and "
	"the\naddress of its description.  shoal-peer join --listen ... --upnp does so by itself.\n"
	"Needs the library miniupnpc (Debian: libminiupnpc17).\n";

/* ---- the library, as it has been since 2.1 */

struct device {
	struct device *next;
	char *description;
};

struct urls {
	char *control, *rest[4], *room[8];
};

struct service {
	char control[128], events[128], methods[128], type[128];
};

struct data {
	char element[128], base[128], page[128];
	int level;
	struct service common, first, second, v6, spare;
	char room[4096];
};

static struct library {
	struct device *(*discover)(const char *const *types, int delay, const char *interface,
		const char *daemon, int port, int v6, unsigned char ttl, int *error, int all);
	int (*open)(const char *description, struct urls *urls, struct data *data, char *own,
		int own_size);
	void (*urls_of)(
		struct urls *urls, struct data *data, const char *description, unsigned int scope);
	int (*outer_address)(const char *control, const char *type, char *out);
	int (*add)(const char *control, const char *type, const char *outer, const char *inner,
		const char *client, const char *name, const char *protocol, const char *remote,
		const char *lease);
	int (*remove)(const char *control, const char *type, const char *outer,
		const char *protocol, const char *remote);
} library;

static bool symbol(void *file, const char *name, void *into)
{
	void *at = dlsym(file, name);
	memcpy(into, &at, sizeof at); /* ISO C knows no cast from data to functions */
	return at;
}

static enum err load(struct why *why)
{
	static const char *const names[] = {"libminiupnpc.so.17", "libminiupnpc.so.18",
		"libminiupnpc.so.19", "libminiupnpc.so.20", "libminiupnpc.so.21"};
	void *file = NULL;
	for (size_t i = 0; !file && i < sizeof names / sizeof *names; i++)
		file = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (file && symbol(file, "upnpDiscoverDevices", &library.discover) &&
		symbol(file, "UPNP_GetIGDFromUrl", &library.open) &&
		symbol(file, "GetUPNPUrls", &library.urls_of) &&
		symbol(file, "UPNP_GetExternalIPAddress", &library.outer_address) &&
		symbol(file, "UPNP_AddPortMapping", &library.add) &&
		symbol(file, "UPNP_DeletePortMapping", &library.remove))
		return ERR_OK;
	return err_why(why, ERR_missing,
		"UPnP needs the library miniupnpc, which is not installed: apt-get install "
		"libminiupnpc17, or forward the port in the router's own page");
}

/* ---- the router */

struct router {
	struct urls urls;
	struct data data;
	char description[256], own[64], outer[64];
};

static bool is_gateway(const struct router *r)
{
	return r->urls.control && r->urls.control[0] &&
	       (strstr(r->data.first.type, ":WANIPConnection:") ||
		       strstr(r->data.first.type, ":WANPPPConnection:"));
}

static bool has_outer(struct router *r)
{
	memset(r->outer, 0, sizeof r->outer);
	if (library.outer_address(r->urls.control, r->data.first.type, r->outer))
		return false;
	r->outer[sizeof r->outer - 1] = 0;
	return r->outer[0];
}

/* A line may be described twice, of which one way is connected. */
static void other_way(struct router *r)
{
	const struct service first = r->data.first;
	if (!r->data.second.type[0])
		return;
	r->data.first = r->data.second;
	r->data.second = first;
	library.urls_of(&r->urls, &r->data, r->description, 0);
}

static bool try_router(struct router *r, const char *description)
{
	memset(r, 0, sizeof *r);
	snprintf(r->description, sizeof r->description, "%s", description);
	if (strlen(description) >= sizeof r->description ||
		library.open(description, &r->urls, &r->data, r->own, sizeof r->own) != 1 ||
		!is_gateway(r))
		return false;
	if (!has_outer(r)) {
		other_way(r);
		if (!is_gateway(r) || !has_outer(r))
			memset(r->outer, 0, sizeof r->outer);
	}
	return true;
}

static enum err find_router(struct router *r, struct why *why)
{
	static const char *const types[] = {"urn:schemas-upnp-org:device:InternetGatewayDevice:1",
		"urn:schemas-upnp-org:service:WANIPConnection:1",
		"urn:schemas-upnp-org:service:WANPPPConnection:1", NULL};
	int error = 0;
	if (opt.router && try_router(r, opt.router))
		return ERR_OK;
	/* What it allocates goes with the process. */
	const struct device *d = library.discover(types, DELAY_MS, NULL, "", 0, 0, 2, &error, 1);
	if (!d)
		return err_why(why, ERR_network,
			"no router of this network answers to UPnP: switch it on in the router's "
			"own page, or forward the port there");
	for (int i = 0; d && i < DEVICES_MOST; i++, d = d->next)
		if (d->description && try_router(r, d->description))
			return ERR_OK;
	return err_why(why, ERR_network,
		"what answers to UPnP in this network is no router that opens ports: switch UPnP "
		"on in the router's own page, or forward the port there");
}

/* ---- what is asked of it */

static enum err check_outer(const struct router *r, struct why *why)
{
	struct in_addr outer;
	char shown[64];
	snprintf(shown, sizeof shown, "%s", r->outer);
	text_clean(shown);
	if (!r->outer[0])
		return err_why(why, ERR_network,
			"the router has no outer address: its line is down, or it is not the one "
			"that leads to the internet");
	if (inet_pton(AF_INET, r->outer, &outer) != 1)
		return err_why(why, ERR_network,
			"the router calls \"%.40s\" its outer address, which is none", shown);
	if (portmap_is_public(outer))
		return ERR_OK;
	return err_why(why, ERR_network,
		"the router's outer address %s is none of the internet's: there is another router "
		"before it (double NAT), at home or at the provider; open the port there as well, "
		"or ask the provider for an address of your own",
		shown);
}

static enum err explain(int code, struct why *why)
{
	if (code == TAKEN)
		return err_why(why, ERR_exists,
			"the router has given port %d and those after it to another machine: "
			"choose another one with --listen",
			(int)opt.port);
	if (code == REFUSES_ACTION)
		return err_why(why, ERR_permission,
			"the router lets nobody open ports by UPnP: allow it in the router's own "
			"page, or forward the port there");
	if (code > 0)
		return err_why(why, ERR_refused,
			"the router refuses to open the port (UPnP error %d): forward it in the "
			"router's own page",
			code);
	return err_why(why, ERR_network,
		"the router gives no answer that can be read when it is asked to open the port: "
		"forward it in the router's own page");
}

static int add_once(const struct router *r, int outer, const char *lease)
{
	char out[8], in[8];
	snprintf(out, sizeof out, "%d", outer);
	snprintf(in, sizeof in, "%d", (int)opt.port);
	return library.add(
		r->urls.control, r->data.first.type, out, in, r->own, "shoal", "TCP", NULL, lease);
}

static enum err add(const struct router *r, struct why *why)
{
	enum err e = check_outer(r, why);
	char lease[24];
	int code = TAKEN;
	if (e)
		return e;
	snprintf(lease, sizeof lease, "%llu", (unsigned long long)(opt.lease_ns / CLOCK_SECOND));
	for (int i = 0, at = (int)(opt.outer ? opt.outer : opt.port);
		code == TAKEN && i < PORTS_TRIED && at < 65536; i++, at++) {
		code = add_once(r, at, lease);
		if (code == NO_LEASES)
			code = add_once(r, at, "0");
		if (code)
			continue;
		printf("mapped %s %d %s %s\n", r->outer, at, lease, r->description);
		return ERR_OK;
	}
	return explain(code, why);
}

static enum err take_away(const struct router *r, struct why *why)
{
	char out[8];
	snprintf(out, sizeof out, "%d", (int)(opt.outer ? opt.outer : opt.port));
	if (library.remove(r->urls.control, r->data.first.type, out, "TCP", NULL))
		return err_why(why, ERR_refused, "the router does not close port %s", out);
	printf("removed\n");
	return ERR_OK;
}

static void on_alarm(int number)
{
	static const char text[] = COMMAND_PROGRAM
		" upnp: the router, or what calls itself one, has not answered in time\n";
	(void)number;
	ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
	(void)written;
	_exit(PROGRAM_failed);
}

/* Whatever answers: this process stays small, and does not stay. */
static void bound_process(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	const bool known = f && fscanf(f, "%llu", &pages) == 1;
	if (f)
		fclose(f);
	const rlim_t most = pages * (rlim_t)sysconf(_SC_PAGESIZE) + MEMORY_MORE;
	const struct rlimit limit = {most, most}, no_core = {0, 0};
	if (known)
		(void)setrlimit(RLIMIT_AS, &limit);
	(void)setrlimit(RLIMIT_CORE, &no_core);
	sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
	alarm(SECONDS_MOST);
}

int upnp_command(int argc, char **argv)
{
	static struct router router; /* too large for a stack */
	const char *words[1];
	size_t n;
	int status;
	struct why why = {0};
	const struct program_options options = {.program = COMMAND_PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.words = words,
		.max_words = 0};
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	enum err e = load(&why);
	bound_process();
	if (!e)
		e = find_router(&router, &why);
	if (!e)
		e = opt.remove ? take_away(&router, &why) : add(&router, &why);
	return e ? program_fail(COMMAND_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
