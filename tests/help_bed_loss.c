#include "tests/help_bed_loss.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "tests/help_bed.h"
#include "tests/help_bench.h"

#define BED "home"
#define RANKS 4
#define PORT 7901
#define STEPS "20"
#define LIMIT_S 400.0
#define WINDOWS 32
/* 1.7 million parameters.  Rounds of fixed steps: what two cores shared by all peers take of a
 * contribution's way is not the link's, and a timed round would send less because of it. */
static const char *const swarm_changes[] = {"model.layers=2", "model.width=256", "model.heads=8",
	"train.precision=bf16", "train.lr=0.002", "train.warmup_tokens=50000",
	"train.total_tokens=1500000", "round.mode=fixed", "round.seconds=null", "round.steps=24",
	"round.quorum=1.0", "round.validate_every=3", "round.snapshot_every=1000", "codec.k=256",
	NULL};
/* 2048 tokens of each rank and step; of rates of 0.002 and 0.003 the lower one learns best,
 * and the schedule ends about where the loss is reached. */
#define DENSE \
	"train.lr=0.002", "train.batch=16", "train.micro_batch=16", "train.warmup_tokens=160000", \
		"train.total_tokens=3000000"

/* ---- the bed: with fewer cores than peers, time runs slower */

/* So many times.  Four peers on two cores, each with half a core, are four of a core each in slow
 * motion if their links are slow in the same measure. */
static double slow_motion(void)
{
	const char *given = getenv("SLOW");
	const double cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
	const double by = given && given[0] ? strtod(given, NULL) : RANKS / cores;
	return by > 1 ? by : 1;
}

/* ---- the run */

struct aim {
	const struct help_bed_run *run;
	double target;
};

static bool reached(const void *arg)
{
	const struct aim *a = arg;
	uint64_t round;
	return help_bed_validation(a->run, a->target, &round) <= a->target;
}

/* From the opening of the first round to the commit of the one that had the loss. */
static double run_seconds(const char *spec, double target)
{
	struct help_bed_run r = {.bed = BED,
		.name = "home",
		.spec = spec,
		.n_peers = RANKS,
		.nice = 5, /* the coordinator is a machine of its own, elsewhere */
		.windows = WINDOWS};
	const struct aim aim = {&r, target};
	struct help_bed_round *rounds;
	uint64_t round;
	double seconds = NAN;
	help_bed_run_start(&r);
	help_bed_wait("the run learns, on home", LIMIT_S, reached, &aim);
	help_bed_validation(&r, target, &round);
	size_t n = help_bed_rounds(&r, &rounds);
	for (size_t i = 0; i < n; i++)
		if (rounds[i].round == round)
			seconds = rounds[i].t - (rounds[0].t - rounds[0].seconds);
	free(rounds);
	help_bed_run_end(&r);
	return seconds;
}

/* ---- ranks */

struct ranks {
	pid_t pid[RANKS];
	const char *log[RANKS];
};

static const char *addresses(bool on_bed)
{
	char all[200] = "";
	for (int i = 0; i < RANKS; i++) {
		char one[40];
		if (on_bed)
			snprintf(one, sizeof one, "10.77.0.%d:%d", i + 2, PORT + i);
		else
			snprintf(one, sizeof one, "127.0.0.1:%d", PORT + i);
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? "," : "", one);
	}
	return alloc_must_strdup(all);
}

static struct help_bed_command place(struct ranks *r, int i, bool on_bed, const char *what)
{
	static const char *const nodes[RANKS] = {"p1", "p2", "p3", "p4"};
	r->log[i] = alloc_must_printf("%s/%s-%d.log", HELP_BED_FOLDER, what, i);
	remove(r->log[i]);
	return (struct help_bed_command){
		.bed = on_bed ? BED : NULL, .node = nodes[i], .log = r->log[i]};
}

static void dense_start(
	struct ranks *r, const char *spec, const char *wire, const char *steps, bool on_bed)
{
	const char *all = addresses(on_bed);
	for (int i = 0; i < RANKS; i++) {
		const struct help_bed_command c = place(r, i, on_bed, on_bed ? wire : "loopback");
		r->pid[i] = HELP_BED_START(&c, "tests/bench_allreduce", spec, DENSE, "--data",
			help_bed_data(), "--rank", alloc_must_printf("%d", i), "--ranks", all,
			"--wire", wire, "--steps", steps, "--threads", "1", "--validate-every",
			"10", "--windows", "32");
	}
}

static void ddp_start(struct ranks *r, const char *spec, const char *python)
{
	for (int i = 0; i < RANKS; i++) {
		const struct help_bed_command c = place(r, i, true, "ddp");
		r->pid[i] = HELP_BED_START(&c, "/usr/bin/env", "GLOO_SOCKET_IFNAME=wan0", python,
			"tests/bench_ddp.py", spec, alloc_must_printf("%d", i), "4",
			"10.77.0.2:7900", STEPS, "1", "train.batch=16");
	}
}

/* The newest value of key= in the lines of rank 0 that have text; NAN: none. */
static double told(const struct ranks *r, const char *text, const char *key)
{
	char line[512];
	double value = NAN;
	FILE *f = fopen(r->log[0], "r");
	while (f && fgets(line, sizeof line, f)) {
		const char *at = strstr(line, text) ? strstr(line, key) : NULL;
		if (at && strchr(line, '\n'))
			value = strtod(at + strlen(key), NULL);
	}
	if (f)
		fclose(f);
	return value;
}

static bool step_told(const void *arg)
{
	const struct ranks *r = arg;
	if (isfinite(told(r, "bench: ", " step_s=")))
		return true;
	help_bed_must_live(r->pid[0], r->log[0]);
	return false;
}

static void ranks_end(struct ranks *r)
{
	for (int i = 0; i < RANKS; i++)
		help_bed_kill(r->pid[i]);
}

struct dense_aim {
	const struct ranks *ranks;
	double target;
};

static bool dense_reached(const void *arg)
{
	const struct dense_aim *a = arg;
	help_bed_must_live(a->ranks->pid[0], a->ranks->log[0]);
	return told(a->ranks, "val_loss=", " val_loss=") <= a->target;
}

static double dense_steps(const char *spec, double target)
{
	struct ranks r;
	const struct dense_aim aim = {&r, target};
	dense_start(&r, spec, "float32", "100000", false);
	help_bed_wait("the all-reduce learns, on loopback", LIMIT_S, dense_reached, &aim);
	double steps = told(&r, "val_loss=", " step=");
	ranks_end(&r);
	return steps;
}

static double dense_step_s(const char *spec, const char *wire)
{
	struct ranks r;
	dense_start(&r, spec, wire, STEPS, true);
	help_bed_wait("steps of the all-reduce, on home", LIMIT_S, step_told, &r);
	ranks_end(&r);
	return told(&r, "bench: ", " step_s=");
}

static double ddp_step_s(const char *spec)
{
	struct ranks r;
	const char *python = getenv("TORCH") ? getenv("TORCH") : "/usr/bin/python3";
	if (!strcmp(python, "none") || !help_bench_works((const char *const[]){
					       python, "-c", "import torch.distributed", NULL}))
		return NAN;
	ddp_start(&r, spec, python);
	help_bed_wait("steps of PyTorch's DDP, on home", LIMIT_S, step_told, &r);
	ranks_end(&r);
	return told(&r, "bench: ", " step_s=");
}

/* ---- the whole */

void help_bed_loss_run(bool is_short, struct help_bed_loss *out, json_t *figures)
{
	const char *spec = help_bed_spec("home", swarm_changes);
	double best = INFINITY;
	*out = (struct help_bed_loss){.target = is_short ? 2.4 : 1.6};
	const double slow = slow_motion();
	help_bed_up(BED, help_bed_slow(BED, slow));
	out->seconds = run_seconds(spec, out->target) / slow;
	out->steps = dense_steps(spec, out->target);
	out->step_s[0] = dense_step_s(spec, "bf16") / slow;
	out->step_s[1] = ddp_step_s(spec) / slow;
	help_bed_down(BED);
	for (int i = 0; i < 2; i++)
		best = out->step_s[i] < best ? out->step_s[i] : best; /* false for NAN */
	out->ratio = out->steps * best / out->seconds;
	printf("  home, time %g times slower than it runs, loss %.2f: %.1f s; all-reduce %.0f "
	       "steps of %.2f s (bf16 %.2f, DDP fp16 %.2f): %.0f s, %.1f times as long\n",
		slow, out->target, out->seconds, out->steps, best, out->step_s[0], out->step_s[1],
		out->steps * best, out->ratio);
	json_object_set_new(figures, "loss",
		json_pack("{s:f, s:f, s:f, s:f, s:f, s:o}", "slow_motion", slow, "target",
			out->target, "seconds", out->seconds, "steps", out->steps, "step_s_bf16",
			out->step_s[0], "step_s_ddp",
			isfinite(out->step_s[1]) ? json_real(out->step_s[1]) : json_null()));
}
