/*
 * What a run on slow links loses against the same trainers without a network, and what it wins
 * against an all-reduce in every step: beds of tests/wan, real processes, as root.
 *
 *   utilisation      the ledger's tokens/s over the tokens/s of `shoal-peer local` at the same
 * nodes, with the same share of the processor, started together: continents, four peers, rounds no
 * longer than 100 Mbit/s need for the parameters as float32.  Equal peers, with and without
 * overlap, and 1 : 2 : 4 : 4; paired; medians. goodput          of eight peers, one of which is
 * killed every 15 s and comes back after 2 s, beside the same eight undisturbed at the same time.
 *   join_rounds      rounds that end without a newcomer after its first message.
 *   vs_allreduce     tests/help_bed_loss.c.
 *
 * Two cores are too few for four trainers at full speed and the codec of all of them: --cpu-share
 * stands in for slower compute devices.  What a peer's codec and hashes take falls into its pauses,
 * as on a machine that trains on another device than its processor.
 *
 * SHORT=1: a few seconds of each.  PARTS="utilisation goodput loss": some of it only.  A table,
 * build/bench/swarm.json, and one line of key=value.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/signal.h"
#include "tests/help_bed.h"
#include "tests/help_bed_loss.h"
#include "tests/help_bench.h"

#define BED "swarm"
#define REPEATS_MOST 3
#define WARM 2      /* rounds before those that count */
#define WARM_S 3.0  /* seconds of a trainer before those that count */
#define KILL_S 15.0 /* from one kill to the next */
#define DOWN_S 2.0
#define LIMIT_S 120.0 /* for anything to begin */

static bool is_short;

/* ---- utilisation */

#define PEERS 4
#define SEQ 64
/* 9.93 million parameters: 3.18 s at 100 Mbit/s. */
static const char *const model[] = {"model.layers=8", "model.width=320", "model.heads=5",
	"model.context=64", "train.batch=1", "train.seq=64", "round.seconds=3.1", NULL};
static const char *const model_waits[] = {"model.layers=8", "model.width=320", "model.heads=5",
	"model.context=64", "train.batch=1", "train.seq=64", "round.seconds=3.1",
	"round.overlap=false", NULL};
static const double equal[PEERS] = {0.12, 0.12, 0.12, 0.12};
static const double unequal[PEERS] = {0.05, 0.10, 0.20, 0.20};

static void set_shares(struct help_bed_run *r, const double *share)
{
	r->n_peers = PEERS;
	memcpy(r->share, share, PEERS * sizeof *share);
}

static bool all_warm(const void *arg)
{
	const struct help_bed_run *r = arg;
	for (unsigned i = 0; i < r->n_peers; i++)
		if (help_bed_steps(r, i, 0, NULL) < 5)
			return false;
	return true;
}

static bool rounds_warm(const void *arg)
{
	struct help_bed_round *rounds;
	size_t n = help_bed_rounds(arg, &rounds);
	free(rounds);
	return n >= WARM;
}

/* Tokens/s of all peers without a network. */
static double alone(const char *spec, const double *share)
{
	double all = 0;
	struct help_bed_run r = {.bed = BED, .name = "alone", .spec = spec};
	set_shares(&r, share);
	help_bed_alone_start(&r);
	help_bed_wait("trainers alone begin", LIMIT_S, all_warm, &r);
	help_bed_wait("trainers alone", is_short ? 5 : 25, NULL, NULL);
	for (unsigned i = 0; i < PEERS; i++) {
		double per_s;
		help_bed_steps(&r, i, WARM_S, &per_s);
		all += per_s * SEQ;
	}
	help_bed_run_end(&r);
	return all;
}

static struct help_bed_run *swarm(struct help_bed_run *r, const char *spec, const double *share)
{
	*r = (struct help_bed_run){.bed = BED, .name = "run", .spec = spec};
	set_shares(r, share);
	help_bed_run_start(r);
	help_bed_wait("the run begins", LIMIT_S, rounds_warm, r);
	help_bed_wait("the run", is_short ? 10 : 35, NULL, NULL);
	return r;
}

/* The newcomer is one of the farthest node. */
static bool has_joined(const void *arg)
{
	struct help_bed_round *rounds;
	size_t n = help_bed_rounds(arg, &rounds);
	bool in = n && rounds[n - 1].members > PEERS;
	free(rounds);
	return in;
}

static double join_rounds(struct help_bed_run *r)
{
	struct help_bed_round *rounds;
	size_t before = help_bed_rounds(r, &rounds);
	free(rounds);
	r->share[2 * PEERS - 1] = r->share[PEERS - 1];
	help_bed_run_peer(r, 2 * PEERS - 1);
	help_bed_wait("a newcomer joins", LIMIT_S, has_joined, r);
	size_t after = help_bed_rounds(r, &rounds);
	free(rounds);
	return (double)(after - before - 1);
}

struct samples {
	double at[REPEATS_MOST];
	size_t n;
};

static void add(struct samples *s, double x)
{
	s->at[s->n++] = x;
}

static double median(const struct samples *s)
{
	double kept[REPEATS_MOST];
	memcpy(kept, s->at, sizeof kept);
	return s->n ? help_bench_median(kept, s->n) : NAN;
}

struct figures {
	struct samples equal, unequal, waits, join;
	double goodput;
	struct help_bed_loss loss;
	json_t *all;
};

static void row(struct figures *f, struct samples *to, const char *what, double got, double base)
{
	add(to, got / base);
	printf("  %-26s %8.1f tokens/s of %8.1f without a network: %.3f\n", what, got, base,
		got / base);
	fflush(stdout);
	json_array_append_new(json_object_get(f->all, "utilisation"),
		json_pack("{s:s, s:f, s:f}", "what", what, "tokens_per_s", got, "alone", base));
}

static void utilisation(struct figures *f)
{
	struct help_bed_run r;
	const char *spec = help_bed_spec("overlap", model),
		   *waits = help_bed_spec("waits", model_waits);
	printf("continents, shares of a core %g each, and %g : %g : %g : %g\n", equal[0],
		unequal[0], unequal[1], unequal[2], unequal[3]);
	help_bed_up(BED, "continents");
	for (int i = 0; i < (is_short ? 1 : REPEATS_MOST); i++) {
		double base = alone(spec, equal);
		row(f, &f->equal, "equal", help_bed_pace(swarm(&r, spec, equal), WARM), base);
		add(&f->join, join_rounds(&r));
		help_bed_run_end(&r);
		row(f, &f->waits, "equal, without overlap",
			help_bed_pace(swarm(&r, waits, equal), WARM), base);
		help_bed_run_end(&r);
		base = alone(spec, unequal);
		row(f, &f->unequal, "1 : 2 : 4 : 4", help_bed_pace(swarm(&r, spec, unequal), WARM),
			base);
		help_bed_run_end(&r);
	}
	help_bed_down(BED);
}

/* ---- goodput */

#define CREW 8
static const char *const crew[] = {"round.seconds=10", "round.peers_min=4", "codec.k=256", NULL};

static void crew_start(struct help_bed_run *r, const char *bed, const char *name, const char *spec)
{
	*r = (struct help_bed_run){.bed = bed, .name = name, .spec = spec, .n_peers = CREW};
	for (int i = 0; i < CREW; i++)
		r->share[i] = 0.05;
	help_bed_up(bed, "continents");
	help_bed_run_start(r);
}

static void goodput(struct figures *f)
{
	struct help_bed_run calm, killed;
	const char *spec = help_bed_spec("crew", crew);
	const unsigned kills = is_short ? 2 : 10;
	crew_start(&calm, "calm", "calm", spec);
	crew_start(&killed, "killed", "killed", spec);
	help_bed_wait("eight peers and eight peers begin", LIMIT_S, rounds_warm, &calm);
	help_bed_wait("eight peers and eight peers begin", LIMIT_S, rounds_warm, &killed);
	for (unsigned i = 0; i < kills; i++) {
		help_bed_wait("one of eight is killed now and then", KILL_S - DOWN_S, NULL, NULL);
		help_bed_kill(killed.peer[i % CREW]);
		help_bed_wait("one of eight is killed now and then", DOWN_S, NULL, NULL);
		help_bed_run_peer(&killed, i % CREW);
	}
	help_bed_wait("one of eight is killed now and then", KILL_S - DOWN_S, NULL, NULL);
	double got = help_bed_pace(&killed, WARM), base = help_bed_pace(&calm, WARM);
	help_bed_run_end(&killed);
	help_bed_run_end(&calm);
	help_bed_down("killed");
	help_bed_down("calm");
	f->goodput = got / base;
	printf("  eight peers, one killed every %g s: %.0f tokens/s, undisturbed %.0f: %.3f\n",
		KILL_S, got, base, f->goodput);
	json_object_set_new(f->all, "goodput",
		json_pack("{s:i, s:f, s:f}", "kills", (int)kills, "tokens_per_s", got,
			"undisturbed", base));
}

/* ---- the whole */

static bool wanted(const char *part)
{
	const char *parts = getenv("PARTS");
	return !parts || !parts[0] || strstr(parts, part);
}

static const char *text(double x, char out[static 24])
{
	snprintf(out, 24, "none");
	if (isfinite(x))
		snprintf(out, 24, "%.3f", x);
	return out;
}

static void tell(struct figures *f)
{
	char t[6][24];
	if (json_dump_file(f->all, "build/bench/swarm.json", JSON_INDENT(1)))
		help_bench_die("build/bench/swarm.json cannot be written");
	printf("bench: swarm utilisation=%s utilisation_124=%s utilisation_no_overlap=%s "
	       "vs_allreduce_home=%s goodput_kill15=%s join_rounds=%s\n",
		text(median(&f->equal), t[0]), text(median(&f->unequal), t[1]),
		text(median(&f->waits), t[2]), text(f->loss.ratio, t[3]), text(f->goodput, t[4]),
		text(median(&f->join), t[5]));
}

int main(void)
{
	struct figures f = {.goodput = NAN, .loss.ratio = NAN};
	char why[200];
	signal_watch();
	if (!help_bed_allowed(why, sizeof why)) {
		printf("bench: swarm skipped reason=\"%s\"\n", why);
		return 0;
	}
	mkdir("build/bench", 0777);
	mkdir(HELP_BED_FOLDER, 0777);
	is_short = getenv("SHORT") && getenv("SHORT")[0] == '1';
	f.all = json_pack("{s:b, s:i, s:[]}", "short", is_short, "cores",
		(int)sysconf(_SC_NPROCESSORS_ONLN), "utilisation");
	help_bed_plan((wanted("utilisation") ? is_short ? 120 : 690 : 0) +
		      (wanted("goodput") ? is_short ? 70 : 200 : 0) +
		      (wanted("loss") ? is_short ? 90 : 240 : 0));
	if (wanted("utilisation"))
		utilisation(&f);
	if (wanted("goodput"))
		goodput(&f);
	if (wanted("loss"))
		help_bed_loss_run(is_short, &f.loss, f.all);
	tell(&f);
	json_decref(f.all);
	return 0;
}
