#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "tests/help_bed.h"
#include "tests/help_bench.h"

#define ADDRESS "10.77.0.1" /* of the node coordinator, the first of every bed */
#define TEXT HELP_BED_FOLDER "/new-testament.txt"
#define NODES 4
#define PORT 7440 /* of a peer that listens */
#define WORDS 32
#define CHANGES 24

/* What all runs have in common; the bench changes the rest. */
static const char template[] =
	"{\"shoal\":1,\"name\":\"bench\",\"seed\":1,"
	"\"model\":{\"builder\":\"gpt\",\"layers\":2,\"width\":128,\"heads\":4,"
	"\"context\":128,\"vocab\":256,\"tied\":true,\"shards\":2},"
	"\"train\":{\"batch\":2,\"seq\":128,\"lr\":0.003,\"warmup_tokens\":0,"
	"\"total_tokens\":1000000000000},"
	"\"round\":{\"mode\":\"timed\",\"seconds\":1.0,\"peers_min\":4,\"validate_every\":0,"
	"\"snapshot_every\":20},"
	"\"outer\":{\"rule\":\"sparseloco\",\"lr\":1.0},"
	"\"codec\":{\"select\":\"topk\",\"values\":\"two\",\"chunk\":4096,\"k\":64,"
	"\"decay\":0.95}}\n";

const char *help_bed_path(const char *run, const char *file)
{
	return alloc_must_printf("%s/%s/%s", HELP_BED_FOLDER, run, file);
}

/* ---- data and specs */

static const char *text(void)
{
	const char *given = getenv("TEXT");
	if (given && given[0])
		return given;
	if (!file_exists(TEXT) && system("bible -f 'matt1:1-rev22:21' </dev/null 2>/dev/null | sed "
					 "'s/^[^ ]* //' >" TEXT " && [ -s " TEXT " ]"))
		help_bench_die("the package bible-kjv gave no text; name another with TEXT=FILE");
	return TEXT;
}

const char *help_bed_data(void)
{
	return HELP_BED_FOLDER "/data";
}

const char *help_bed_spec(const char *name, const char *const *changes)
{
	const char *from = help_bed_path("", "template.json");
	const char *to = alloc_must_printf("%s/%s.json", HELP_BED_FOLDER, name);
	const char *words[10 + CHANGES] = {"shoal-coordinator", "prepare", text(), "--out",
		help_bed_data(), "--spec", from, "--write-spec", to};
	struct why why;
	size_t n = 9;
	if (file_write(from, template, sizeof template - 1, 0644, &why))
		help_bench_die("%s", why.text);
	for (size_t i = 0; changes[i] && i < CHANGES; i++)
		words[n++] = changes[i];
	const struct help_bed_command c = {.log = HELP_BED_FOLDER "/prepare.log"};
	help_bed_works(help_bed_start(&c, words), c.log, 60);
	return to;
}

/* ---- processes of a run */

static const char *peer_file(const struct help_bed_run *r, unsigned i, const char *end)
{
	char name[32];
	snprintf(name, sizeof name, "peer%u%s", i, end);
	return help_bed_path(r->name, name);
}

static void empty_folder(const struct help_bed_run *r)
{
	const char *folder = help_bed_path(r->name, "");
	if (!help_bench_works((const char *const[]){"rm", "-rf", folder, NULL}) ||
		mkdir(folder, 0755))
		help_bench_die("%s cannot be made anew", folder);
}

static bool has_link(const void *arg)
{
	const struct help_bed_run *r = arg;
	help_bed_must_live(r->coordinator, help_bed_path(r->name, "coordinator.log"));
	return file_exists(help_bed_path(r->name, "join.link"));
}

static const char *number(double x)
{
	return alloc_must_printf("%.4g", x);
}

static const char *seconds(double x)
{
	return alloc_must_printf("%gs", x);
}

static unsigned node_of(const struct help_bed_run *r, unsigned i)
{
	return i % (r->n_nodes ? r->n_nodes : NODES) + 1;
}

void help_bed_run_peer(struct help_bed_run *r, unsigned i)
{
	char node[12];
	snprintf(node, sizeof node, "p%u", node_of(r, i));
	const struct help_bed_command c = {.bed = r->bed,
		.node = node,
		.log = peer_file(r, i, ".log"),
		.trace = peer_file(r, i, ".trace"),
		.nice = r->nice};
	const char *listen = /* p1 is the second node of every bed */
		r->listens ? alloc_must_printf("10.77.0.%u:%u", node_of(r, i) + 1, PORT) : NULL;
	r->peer[i] = HELP_BED_START(&c, "shoal-peer", "join", help_bed_path(r->name, "join.link"),
		"--dir", peer_file(r, i, ""), "--name", node, "--threads", "1", "--step-time",
		seconds(r->step_s[i]), "--windows", number(r->windows), listen ? "--listen" : NULL,
		listen);
}

void help_bed_run_start(struct help_bed_run *r)
{
	empty_folder(r);
	const struct help_bed_command c = {.bed = r->bed,
		.node = "coordinator",
		.log = help_bed_path(r->name, "coordinator.log"),
		.trace = help_bed_path(r->name, "coordinator.trace")};
	const char *words[WORDS] = {"shoal-coordinator", "serve", r->spec, "--data",
		help_bed_data(), "--dir", help_bed_path(r->name, "coordinator"), "--address",
		ADDRESS, "--public-address", ADDRESS, "--invite-file",
		help_bed_path(r->name, "join.link")};
	size_t n = 13;
	if (r->plan) {
		words[n++] = "--plan";
		words[n++] = r->plan;
	}
	if (r->ends)
		words[n++] = "--exit-at-end";
	r->started = clock_seconds(clock_now_ns());
	r->coordinator = help_bed_start(&c, words);
	help_bed_wait("the coordinator starts", 30, has_link, r);
	for (unsigned i = 0; i < r->n_peers; i++)
		help_bed_run_peer(r, i);
}

void help_bed_alone_start(struct help_bed_run *r)
{
	empty_folder(r);
	r->started = clock_seconds(clock_now_ns());
	for (unsigned i = 0; i < r->n_peers; i++) {
		char node[12];
		snprintf(node, sizeof node, "p%u", node_of(r, i));
		const struct help_bed_command c = {.bed = r->bed,
			.node = node,
			.log = peer_file(r, i, ".log"),
			.trace = peer_file(r, i, ".trace"),
			.nice = r->nice};
		r->peer[i] = HELP_BED_START(&c, "shoal-peer", "local", r->spec, "--data",
			help_bed_data(), "--dir", peer_file(r, i, ""), "--threads", "1",
			"--save-every", "86400", "--step-time", seconds(r->step_s[i]));
	}
}

void help_bed_run_end(struct help_bed_run *r)
{
	for (unsigned i = 0; i < HELP_BED_PEERS; i++)
		help_bed_kill(r->peer[i]);
	help_bed_kill(r->coordinator);
	memset(r->peer, 0, sizeof r->peer);
	r->coordinator = 0;
}
