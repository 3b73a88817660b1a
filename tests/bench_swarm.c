/*
 * What a run on slow links loses against the same trainers without a network, and what it wins
 * against an all-reduce in every step: beds of tests/wan, real processes, as root.
 *
 * - utilisation: the ledger's tokens/s over those of `shoal-peer local` at the same nodes with the
 *   same time for a step, one after the other.  Four peers on `continents`, rounds no
 *   longer than 100 Mbit/s need for the parameters as float32; equal peers, with and without
 *   overlap, and 1 : 2 : 4 : 4.  Medians.
 * - join_rounds: how many rounds end without a newcomer after its start.
 * - goodput: of eight peers on `home`, one of which is killed every 15 s and comes back after 2 s,
 * over the same eight undisturbed at the same time.
 * - vs_allreduce: tests/help_bed_loss.h.
 *
 * Two cores are too few for four trainers at full speed and the codec of all of them: --step-time
 * stands in for slower devices of a constant speed.  What a peer's compute thread does besides its
 * steps is time lost; what its other threads do (network, codec of what comes in, hashes) is not,
 * as on a machine with a core for them.
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

#define REPEATS_MOST 3
/* Rounds before those that count: the first ones list what was trained on before. */
#define WARM 4
#define KILL_S 15.0 /* from one kill to the next */
#define DOWN_S 2.0
#define LIMIT_S 120.0 /* for anything to begin */

static bool is_short;

/* ---- utilisation */

#define BED "continents"
#define PEERS 4
#define SEQ 64
/* 9.93 million parameters: 3.18 s at 100 Mbit/s. */
static const char *const model[] = {"model.layers=8", "model.width=320", "model.heads=5",
	"model.context=64", "train.batch=1", "train.seq=64", "round.seconds=3.1", NULL};
static const char *const model_waits[] = {"model.layers=8", "model.width=320", "model.heads=5",
	"model.context=64", "train.batch=1", "train.seq=64", "round.seconds=3.1",
	"round.overlap=false", NULL};
static const double equal[PEERS] = {0.5, 0.5, 0.5, 0.5};
static const double unequal[PEERS] = {1.2, 0.6, 0.3, 0.3};

static void prepare(
	struct help_bed_run *r, const char *name, const char *spec, const double *step_s)
{
	*r = (struct help_bed_run){.bed = BED, .name = name, .spec = spec, .n_peers = PEERS};
	memcpy(r->step_s, step_s, PEERS * sizeof *step_s);
}

static bool steps_warm(const void *arg)
{
	const struct help_bed_run *r = arg;
	for (unsigned i = 0; i < r->n_peers; i++)
		if (help_bed_steps(r, i, clock_seconds(clock_now_ns())) < 2)
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

static double span_s(void)
{
	return is_short ? 10 : 40;
}

/* ---- a newcomer, at the farthest node */

#define NEWCOMER (2 * PEERS - 1)
#define JOIN_MOST 20 /* rounds: nobody waits for it any longer */

struct newcomer {
	struct help_bed_run *run;
	size_t before; /* rounds that had ended at its start */
};

/* Rounds that have ended since, and whether it was in the last one. */
static size_t rounds_since(const struct newcomer *c, bool *in)
{
	struct help_bed_round *rounds;
	size_t n = help_bed_rounds(c->run, &rounds);
	*in = n > c->before && rounds[n - 1].members > PEERS;
	free(rounds);
	return n - c->before;
}

static bool has_joined(const void *arg)
{
	bool in;
	return rounds_since(arg, &in) >= JOIN_MOST || in;
}

static double join_rounds(struct help_bed_run *r)
{
	struct newcomer c = {.run = r};
	bool in;
	c.before = rounds_since(&c, &in);
	r->step_s[NEWCOMER] = r->step_s[PEERS - 1];
	help_bed_run_peer(r, NEWCOMER);
	help_bed_wait("a newcomer joins", LIMIT_S, has_joined, &c);
	size_t n = rounds_since(&c, &in);
	printf("  a newcomer at the farthest node: %zu rounds without it%s\n", in ? n - 1 : n,
		in ? "" : ", and it is still not there");
	return (double)(in ? n - 1 : n);
}

/* ---- samples */

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

/* Tokens/s of the trainers without a network. */
static double alone(const char *spec, const double *step_s)
{
	struct help_bed_run r;
	double steps = 0;
	prepare(&r, "alone", spec, step_s);
	help_bed_alone_start(&r);
	help_bed_wait("trainers without a network begin", LIMIT_S, steps_warm, &r);
	const double begin = clock_seconds(clock_now_ns());
	help_bed_wait("trainers without a network", span_s(), NULL, NULL);
	const double end = clock_seconds(clock_now_ns());
	help_bed_run_end(&r);
	for (unsigned i = 0; i < PEERS; i++)
		steps += help_bed_steps(&r, i, end) - help_bed_steps(&r, i, begin);
	return steps * SEQ / (end - begin);
}

/* Of those the tokens/s that a run of the same trainers lists; it goes on. */
static double part(struct help_bed_run *r, const char *name, const char *spec, const double *step_s,
	double base)
{
	prepare(r, name, spec, step_s);
	help_bed_run_start(r);
	help_bed_wait("a run of the same trainers begins", LIMIT_S, rounds_warm, r);
	help_bed_wait("a run of the same trainers", span_s(), NULL, NULL);
	const double pace = help_bed_pace(r, WARM).tokens_per_s;
	printf("  %-8s %8.1f tokens/s, %8.1f without a network: %.3f\n", name, pace, base,
		pace / base);
	fflush(stdout);
	return pace / base;
}

/* One after the other, on the same bed, so that nobody takes the other's processor or cache. */
static void utilisation(struct figures *f)
{
	struct help_bed_run run;
	const char *spec = help_bed_spec("overlap", model),
		   *spec_waits = help_bed_spec("waits", model_waits);
	help_bed_up(BED, BED);
	for (int i = 0; i < (is_short ? 1 : REPEATS_MOST); i++) {
		printf("continents, steps of %g s each\n", equal[0]);
		double base = alone(spec, equal);
		add(&f->equal, part(&run, "overlap", spec, equal, base));
		if (i == 0)
			add(&f->join, join_rounds(&run));
		help_bed_run_end(&run);
		add(&f->waits, part(&run, "waits", spec_waits, equal, base));
		help_bed_run_end(&run);
		printf("continents, steps of %g, %g, %g and %g s\n", unequal[0], unequal[1],
			unequal[2], unequal[3]);
		base = alone(spec, unequal);
		add(&f->unequal, part(&run, "overlap", spec, unequal, base));
		help_bed_run_end(&run);
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
		r->step_s[i] = 0.2;
	help_bed_up(bed, "home");
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
	const double got = help_bed_pace(&killed, WARM).tokens_per_s,
		     base = help_bed_pace(&calm, WARM).tokens_per_s;
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

static json_t *list(const struct samples *s)
{
	json_t *all = json_array();
	for (size_t i = 0; i < s->n; i++)
		json_array_append_new(all, json_real(s->at[i]));
	return all;
}

static void tell(struct figures *f)
{
	char t[6][24];
	json_object_set_new(f->all, "utilisation", list(&f->equal));
	json_object_set_new(f->all, "utilisation_124", list(&f->unequal));
	json_object_set_new(f->all, "utilisation_no_overlap", list(&f->waits));
	json_object_set_new(f->all, "join_rounds", list(&f->join));
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
	f.all = json_pack(
		"{s:b, s:i}", "short", is_short, "cores", (int)sysconf(_SC_NPROCESSORS_ONLN));
	help_bed_plan((wanted("utilisation") ? is_short ? 110 : 700 : 0) +
		      (wanted("goodput") ? is_short ? 70 : 200 : 0) +
		      (wanted("loss") ? is_short ? 150 : 330 : 0));
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
