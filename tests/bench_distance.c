/*
 * How long a round takes where distances differ: a coordinator and twelve peers at the four sites
 * of tests/wan/sites.bed, real processes, as root, once for each way to plan who aggregates (serve
 * --plan star, random, latency).  Fixed steps and all of the peers in each round, so that all plans
 * must come to one ledger head and one loss; they differ by time and by who carries the bytes.
 *
 * - a round's completion: from the last peer's cut to the last peer's standing at the new head, by
 *   their traces.  Medians; vs_star and vs_random are over that of `latency`.
 * - bytes in and out of the coordinator, and over the lines between sites, a round, by the
 * emulator.
 * - what the coordinator predicted when it planned a round, beside what it measured of it
 *   (coordinator/hub_completion.h): predict_error is the median of the difference over what was
 *   measured, of the rounds by aggregators.
 *
 * Updates go as bundles.  All folders are in memory where there is /dev/shm: twelve peers that save
 * what they have on one disk would wait for that and not for the network.
 *
 * Twelve peers on a machine with fewer cores: rates are divided and ways multiplied by SLOW (usual:
 * 3), and times divided again, so that processors take the less of them; and what one emulating
 * process has to carry stays below what it can (2 Gbit/s with nothing beside it).
 *
 * Beyond twelve peers: one round of 64, 512 and 1,000 as fluids (help_fluid.h), with the plans that
 * a coordinator would make, and how long it is at that.
 *
 * SHORT=1: a round of each.  KEEP=1: logs are kept.  PARTS="star random latency fluid": some of it
 * only.  A table, build/bench/distance.json, and one line of key=value.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/signal.h"
#include "tests/help_bed.h"
#include "tests/help_bench.h"
#include "tests/help_fluid.h"

#define BED "sites"
#define PEERS 12
#define STEP_S 0.5
#define QUICK \
	0.25   /* far from what is measured: what joining showed of rates has to be forgotten \
		*/
#define WARM 5 /* rounds in which links are made and measured */
#define ROUNDS_MOST 8
#define LIMIT_S 400.0
#define LINE 1024
#define FLUID_SEED 1
#define FLUID_PARAMS 50e6
#define FLUID_KEPT (64 / 4096.0)

static const char *const plans[] = {"star", "random", "latency"};
enum { STAR, RANDOM, LATENCY, PLANS };

/* 6.4 million parameters of which a quarter is sent: a contribution of a megabyte. */
static const char *const model[] = {"model.layers=8", "model.width=256", "model.heads=4",
	"model.context=64", "model.shards=8", "train.batch=1", "train.seq=64", "round.mode=fixed",
	"round.seconds=null", "round.steps=2", "round.peers_min=12", "round.quorum=1.0",
	"round.validate_every=0", "round.snapshot_every=1000", "codec.k=1024", "outer.merged=never",
	NULL};

struct bytes {
	double coordinator_in, coordinator_out, narrow; /* narrow: the line of the lowest rate */
};

struct outcome {
	bool measured;
	size_t n;
	double round_s[ROUNDS_MOST], up_s[ROUNDS_MOST], down_s[ROUNDS_MOST];
	double error[ROUNDS_MOST]; /* of predictions */
	size_t n_errors;
	struct bytes bytes; /* a round */
	char head[80], loss[24];
};

static double slow;
static const char *slow_bed, *quick_bed; /* quick: for what is not measured, to join */
static unsigned n_rounds;                /* that are measured, of each plan */

/* ---- one run */

static double first(const struct help_bed_run *r, const char *event, uint64_t round)
{
	double at = INFINITY;
	for (int i = 0; i < PEERS; i++)
		at = fmin(at, help_bed_when(r, i, event, round));
	return at;
}

static double last(const struct help_bed_run *r, const char *event, uint64_t round)
{
	double at = 0;
	for (int i = 0; i < PEERS; i++)
		at = fmax(at, help_bed_when(r, i, event, round));
	return at;
}

struct stop {
	const struct help_bed_run *run;
	uint64_t round;
};

static bool all_stand(const void *arg)
{
	const struct stop *s = arg;
	help_bed_must_live(s->run->coordinator, help_bed_path(s->run->name, "coordinator.log"));
	return isfinite(last(s->run, "standing", s->round));
}

/* Nobody does before all have joined. */
static bool somebody_trains(const void *arg)
{
	const struct help_bed_run *r = arg;
	help_bed_must_live(r->coordinator, help_bed_path(r->name, "coordinator.log"));
	return isfinite(first(r, "step", 1));
}

static struct bytes bytes_now(void)
{
	char *stats = help_bed_stats(BED);
	const struct bytes b = {
		.coordinator_in = help_bed_bytes(stats, "coordinator", "down_bytes"),
		.coordinator_out = help_bed_bytes(stats, "coordinator", "up_bytes"),
		.narrow = help_bed_bytes(stats, "south-west", "bytes") +
			  help_bed_bytes(stats, "west-south", "bytes")};
	free(stats);
	return b;
}

/* The value behind key in the line that a coordinator ends with. */
static void told(const struct help_bed_run *r, const char *key, char *out, size_t size)
{
	char line[LINE];
	FILE *f = fopen(help_bed_path(r->name, "coordinator.log"), "r");
	snprintf(out, size, "none");
	while (f && fgets(line, sizeof line, f)) {
		const char *at = strstr(line, "serve: finished") ? strstr(line, key) : NULL;
		if (at)
			snprintf(out, size, "%.*s", (int)strcspn(at + strlen(key), " \n"),
				at + strlen(key));
	}
	if (f)
		fclose(f);
}

static void take_times(const struct help_bed_run *r, struct outcome *o)
{
	for (uint64_t round = WARM + 1; round <= WARM + n_rounds; round++) {
		const double cut = last(r, "cut", round),
			     commit = help_bed_when(r, -1, "round", round),
			     standing = last(r, "standing", round);
		o->round_s[o->n] = (standing - cut) / slow;
		o->up_s[o->n] = (commit - cut) / slow;
		o->down_s[o->n++] = (standing - commit) / slow;
	}
}

static double number(const char *line, const char *key)
{
	const char *at = strstr(line, key);
	return at ? strtod(at + strlen(key), NULL) : NAN;
}

static void take_predictions(const struct help_bed_run *r, struct outcome *o)
{
	char line[LINE];
	FILE *f = fopen(help_bed_path(r->name, "coordinator.trace"), "r");
	while (f && fgets(line, sizeof line, f)) {
		const double round = number(line, "\"round\":"),
			     said = number(line, "\"predicted\":"),
			     was = number(line, "\"measured\":");
		if (strstr(line, "\"completion\"") && strstr(line, "\"star\":false") && was > 0 &&
			round > WARM && o->n_errors < ROUNDS_MOST)
			o->error[o->n_errors++] = fabs(said - was) / was;
	}
	if (f)
		fclose(f);
}

static void play(const char *plan, const char *spec, struct outcome *o)
{
	struct help_bed_run r = {.bed = BED,
		.name = plan,
		.spec = spec,
		.n_peers = PEERS,
		.n_nodes = PEERS,
		.plan = plan,
		.listens = true,
		.ends = true,
		.windows = 8};
	char what[64];
	for (int i = 0; i < PEERS; i++)
		r.step_s[i] = STEP_S;
	snprintf(what, sizeof what, "rounds by the plan %s", plan);
	help_bed_become(BED, quick_bed);
	help_bed_run_start(&r);
	help_bed_wait("peers join", LIMIT_S, somebody_trains, &r);
	help_bed_become(BED, slow_bed);
	help_bed_wait(what, LIMIT_S, all_stand, &(struct stop){&r, WARM});
	const struct bytes before = bytes_now();
	help_bed_wait(what, LIMIT_S, all_stand, &(struct stop){&r, WARM + n_rounds});
	const struct bytes after = bytes_now();
	help_bed_works(r.coordinator, help_bed_path(plan, "coordinator.log"), 120);
	r.coordinator = 0;
	help_bed_run_end(&r);
	take_times(&r, o);
	take_predictions(&r, o);
	told(&r, " head=", o->head, sizeof o->head);
	told(&r, " val_loss=", o->loss, sizeof o->loss);
	o->bytes = (struct bytes){(after.coordinator_in - before.coordinator_in) / n_rounds,
		(after.coordinator_out - before.coordinator_out) / n_rounds,
		(after.narrow - before.narrow) / n_rounds};
	o->measured = true;
}

/* ---- more peers than a machine holds */

static void fluid_row(const struct fluid_world *w, int mode, json_t *of_all)
{
	static const enum topology_mode modes[] = {
		TOPOLOGY_star, TOPOLOGY_random, TOPOLOGY_latency};
	struct fluid_plan *plan = alloc_must(sizeof *plan);
	struct fluid_bytes bytes;
	help_fluid_bytes(FLUID_PARAMS, FLUID_KEPT, w->n, &bytes);
	const struct fluid_promise promised = help_fluid_plan(w, modes[mode], &bytes, plan);
	const struct fluid_outcome o = help_fluid_play(w, plan, &bytes);
	printf("  %4u peers, %-8s %7.2f s (predicted %.2f), aggregators %u; coordinator %.0f MB; "
	       "the busiest line of %.0f Mbit/s %.0f MB; planned in %.1f ms\n",
		w->n, plans[mode], o.seconds, promised.seconds, plan->n_aggregators,
		o.coordinator / 1e6, o.of_line * 8 / 1e6, o.busiest / 1e6, promised.plan_s * 1e3);
	json_array_append_new(of_all,
		json_pack("{s:i, s:s, s:f, s:f, s:i, s:f, s:f, s:f, s:f}", "peers", (int)w->n,
			"plan", plans[mode], "seconds", o.seconds, "predicted", promised.seconds,
			"aggregators", (int)plan->n_aggregators, "coordinator", o.coordinator,
			"busiest", o.busiest, "of_line", o.of_line, "plan_s", promised.plan_s));
	free(plan);
}

static json_t *fluids(void)
{
	static const uint32_t sizes[] = {64, 512, FLUID_PEERS};
	struct fluid_world *w = alloc_must(sizeof *w);
	json_t *all = json_array();
	printf("as fluids, homes of 5 to 500 Mbit/s up at twelve places, one of three reachable\n");
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		help_fluid_draw(w, sizes[i], FLUID_SEED);
		for (int mode = 0; mode < PLANS; mode++)
			fluid_row(w, mode, all);
	}
	free(w);
	return all;
}

/* ---- the whole */

static bool wanted(const char *part)
{
	const char *parts = getenv("PARTS");
	return !parts || !parts[0] || strstr(parts, part);
}

static double median(const double *x, size_t n)
{
	double kept[ROUNDS_MOST];
	memcpy(kept, x, n * sizeof *x);
	return n ? help_bench_median(kept, n) : NAN;
}

static double coordinator_bytes(const struct outcome *o)
{
	return o->measured ? o->bytes.coordinator_in + o->bytes.coordinator_out : NAN;
}

static void row(const char *plan, const struct outcome *o)
{
	double least = INFINITY, most = 0;
	for (size_t i = 0; i < o->n; i++) {
		least = fmin(least, o->round_s[i]);
		most = fmax(most, o->round_s[i]);
	}
	printf("  %-8s %6.2f s (%.2f to %.2f); %5.2f s to the commit, %5.2f s on; coordinator "
	       "%5.1f MB in, %5.1f MB out; south-west %5.1f MB; loss %s\n",
		plan, median(o->round_s, o->n), least, most, median(o->up_s, o->n),
		median(o->down_s, o->n), o->bytes.coordinator_in / 1e6,
		o->bytes.coordinator_out / 1e6, o->bytes.narrow / 1e6, o->loss);
	fflush(stdout);
}

static json_t *figures(const struct outcome *o)
{
	json_t *rounds = json_array();
	for (size_t i = 0; i < o->n; i++)
		json_array_append_new(rounds, json_real(o->round_s[i]));
	return json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:s, s:s}", "round_s", rounds,
		"to_commit_s", median(o->up_s, o->n), "on_s", median(o->down_s, o->n),
		"coordinator_in", o->bytes.coordinator_in, "coordinator_out",
		o->bytes.coordinator_out, "south_west", o->bytes.narrow, "head", o->head, "loss",
		o->loss);
}

static const char *text(double x, char out[static 24])
{
	snprintf(out, 24, "none");
	if (isfinite(x))
		snprintf(out, 24, "%.3f", x);
	return out;
}

/* All plans come to the same head, or nothing that they took is worth comparing. */
static void heads_agree(const struct outcome *o)
{
	const char *head = NULL;
	for (int i = 0; i < PLANS; i++) {
		if (!o[i].measured)
			continue;
		if (head && strcmp(head, o[i].head) != 0)
			help_bench_die("the plan %s comes to the head %s, another one to %s",
				plans[i], o[i].head, head);
		head = o[i].head;
	}
}

static void tell(const struct outcome *o)
{
	char t[4][24];
	double s[PLANS];
	json_t *all =
		json_pack("{s:f, s:i}", "slow", slow, "cores", (int)sysconf(_SC_NPROCESSORS_ONLN));
	for (int i = 0; i < PLANS; i++) {
		s[i] = median(o[i].round_s, o[i].n);
		if (o[i].measured)
			json_object_set_new(all, plans[i], figures(&o[i]));
	}
	if (wanted("fluid"))
		json_object_set_new(all, "fluid", fluids());
	if (json_dump_file(all, "build/bench/distance.json", JSON_INDENT(1)))
		help_bench_die("build/bench/distance.json cannot be written");
	json_decref(all);
	printf("bench: distance vs_star=%s vs_random=%s coordinator_bytes_ratio=%s "
	       "predict_error=%s\n",
		text(s[STAR] / s[LATENCY], t[0]), text(s[RANDOM] / s[LATENCY], t[1]),
		text(coordinator_bytes(&o[STAR]) / coordinator_bytes(&o[LATENCY]), t[2]),
		text(median(o[LATENCY].error, o[LATENCY].n_errors), t[3]));
}

static const char *make_spec(void)
{
	char tokens[64];
	const char *changes[sizeof model / sizeof *model + 1];
	const size_t n = sizeof model / sizeof *model - 1;
	/* One round more than are looked at: nobody leaves while the last one comes. */
	snprintf(tokens, sizeof tokens, "train.total_tokens=%u",
		(WARM + n_rounds + 1) * PEERS * 2 * 64);
	memcpy(changes, model, n * sizeof *changes);
	changes[n] = tokens;
	changes[n + 1] = NULL;
	return help_bed_spec(BED, changes);
}

/* False, told: this machine allows no beds. */
static bool play_all(struct outcome *o)
{
	char why[200];
	if (!help_bed_allowed(why, sizeof why)) {
		printf("bench: distance skipped reason=\"%s\"\n", why);
		return false;
	}
	help_bed_plan(PLANS * (20 + 25 * (n_rounds + WARM)));
	const char *spec = make_spec();
	slow_bed = help_bed_slow(BED, slow);
	quick_bed = help_bed_slow(BED, QUICK);
	help_bed_up(BED, slow_bed);
	for (int i = 0; i < PLANS; i++)
		if (wanted(plans[i])) {
			play(plans[i], spec, &o[i]);
			row(plans[i], &o[i]);
		}
	help_bed_down(BED);
	heads_agree(o);
	return true;
}

static char in_memory[] = "/dev/shm/shoal-XXXXXX";

static void forget_folder(void)
{
	(void)unlink(HELP_BED_FOLDER);
	(void)help_bench_works((const char *const[]){"rm", "-rf", in_memory, NULL});
}

static void make_folder(void)
{
	if (!help_bench_works((const char *const[]){"rm", "-rf", HELP_BED_FOLDER, NULL}))
		help_bench_die("%s cannot be made anew", HELP_BED_FOLDER);
	if (!mkdtemp(in_memory)) {
		mkdir(HELP_BED_FOLDER, 0777);
		return;
	}
	if (symlink(in_memory, HELP_BED_FOLDER))
		help_bench_die("%s cannot be made", HELP_BED_FOLDER);
	if (!getenv("KEEP"))
		(void)atexit(forget_folder);
}

int main(void)
{
	struct outcome o[PLANS] = {0};
	const bool any = wanted(plans[STAR]) || wanted(plans[RANDOM]) || wanted(plans[LATENCY]);
	signal_watch();
	mkdir("build/bench", 0777);
	make_folder();
	slow = getenv("SLOW") && getenv("SLOW")[0] ? strtod(getenv("SLOW"), NULL) : 3;
	n_rounds = getenv("SHORT") && getenv("SHORT")[0] == '1' ? 1 : 3;
	if (any && !play_all(o))
		return 0;
	tell(o);
	return 0;
}
