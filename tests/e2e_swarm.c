/* Runs with real processes and the real protocol: what must come out when nothing goes wrong. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 120

static const char *const three[] = {"round.peers_min=3", NULL};

static const char *run_three(struct swarm *s, const char *const *changes)
{
	help_swarm_start(s, changes);
	struct proc *peers[3];
	for (int i = 0; i < 3; i++)
		peers[i] = help_swarm_peer(s, proc_text("peer%d", i));
	const char *line = help_swarm_finish(s, WAIT);
	for (int i = 0; i < 3; i++)
		help_swarm_ends(peers[i], WAIT);
	return line;
}

static void three_peers_train_one_model(void **state)
{
	(void)state;
	struct swarm s;
	const char *line = run_three(&s, three);
	double start = strtod(help_run_value(line, "start_loss"), NULL),
	       end = strtod(help_run_value(line, "val_loss"), NULL);
	assert_true(start > 5 && start < 6);
	assert_true(end < start - 2); /* 12,800 tokens: the letters of the words */
	assert_string_equal(help_run_value(line, "peers"), "3");
	assert_true(strtod(help_run_value(line, "min_share"), NULL) > 0.33);
	assert_true(strtod(help_run_value(line, "bits_per_param_up"), NULL) < 1);
	help_swarm_verify(&s, line);
}

static void a_repeated_fixed_step_run_has_the_same_head(void **state)
{
	(void)state;
	struct swarm a, b;
	const char *first = run_three(&a, three), *second = run_three(&b, three);
	assert_string_equal(help_run_value(first, "head"), help_run_value(second, "head"));
	assert_string_equal(help_run_value(first, "state"), help_run_value(second, "state"));
}

/* Contributions in the folder's blobs; one of them is removed if remove. */
static unsigned contributions(const struct swarm *s, bool remove)
{
	const char *dir = proc_text("%s/blobs", s->dir);
	unsigned n = 0;
	DIR *d = opendir(dir);
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		const char *path = proc_text("%s/%s", dir, e->d_name);
		char magic[9] = "";
		FILE *f = fopen(path, "r");
		if (f && fread(magic, 1, 8, f) == 8 && !strcmp(magic, "SHOALCON")) {
			n++;
			if (remove && n == 1)
				assert_int_equal(unlink(path), 0);
		}
		if (f)
			fclose(f);
	}
	closedir(d);
	return n;
}

/* Three dense contributions are three times the vector that they merge to. */
static void merged_updates_give_one_model(void **state)
{
	(void)state;
	static const char *const dense[] = {"round.peers_min=3", "codec.select=all",
		"codec.values=int8", "codec.k=null", "train.total_tokens=9600", NULL};
	struct swarm a, b;
	const char *first = run_three(&a, dense), *second = run_three(&b, dense);
	assert_string_equal(help_run_value(first, "head"), help_run_value(second, "head"));
	assert_string_equal(help_run_value(first, "state"), help_run_value(second, "state"));
	double up = strtod(help_run_value(first, "bits_per_param_up"), NULL),
	       down = strtod(help_run_value(first, "bits_per_param_down"), NULL);
	assert_true(up > 4 && down > 4 && down < 1.3 * up); /* and not three times as much */
	help_swarm_verify(&a, first);

	/* They are kept, and whoever merges them again misses the one that is gone. */
	assert_true(contributions(&a, true) >= 6);
	struct proc *p = PROC_RUN(1, WAIT, "shoal-coordinator", "replay", a.dir, "--verify");
	assert_non_null(strstr(proc_err(p), "that was merged cannot be read"));
}

static void every_rule_and_codec_runs(void **state)
{
	(void)state;
	static const char *const changes[][10] = {
		{"outer.rule=mean_R", "outer.lr=2.0", "train.total_tokens=3200", NULL},
		{"outer.rule=diloco", "outer.lr=0.5", "outer.momentum=0.8", "codec.select=all",
			"codec.values=int8", "codec.k=null", "codec.decay=1.0",
			"train.total_tokens=3200", NULL},
		{"outer.rule=diloco", "outer.lr=0.5", "outer.momentum=0.8", "codec.select=all",
			"codec.values=f32", "codec.k=null", "train.total_tokens=3200", NULL},
		{"codec.dct=true", "codec.values=sign", "train.total_tokens=3200", NULL},
		{"codec.select=randk", "codec.values=mean4", "train.total_tokens=3200", NULL},
		{"codec.select=threshold", "codec.threshold=2", "codec.values=log4",
			"train.total_tokens=3200", NULL},
	};
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		struct swarm s;
		help_swarm_start(&s, changes[i]);
		struct proc *p = help_swarm_peer(&s, "alone");
		const char *line = help_swarm_finish(&s, WAIT);
		help_swarm_ends(p, WAIT);
		help_swarm_verify(&s, line);
	}
}

/* A swarm of one with plain averaging is the local trainer. */
static void average_alone_equals_local(void **state)
{
	(void)state;
	static const char *const changes[] = {
		"outer.rule=average", "codec.select=all", "codec.values=f32", "codec.k=null", NULL};
	struct swarm s;
	help_swarm_start(&s, changes);
	struct proc *p = help_swarm_peer(&s, "alone");
	const char *line = help_swarm_finish(&s, WAIT);
	help_swarm_ends(p, WAIT);
	const char *local = proc_text("%s/local", s.scratch);
	PROC_RUN(0, WAIT, "shoal-peer", "local", s.spec, "--data", s.data, "--dir", local,
		"--threads", "1");
	const char *x = proc_text("%s/x", s.scratch), *y = proc_text("%s/y", s.scratch);
	PROC_RUN(0, WAIT, "shoal-coordinator", "export", help_run_value(line, "snapshot"), "--out",
		x);
	PROC_RUN(0, WAIT, "shoal-coordinator", "export", local, "--out", y);
	assert_true(help_run_same(
		proc_text("%s/model.safetensors", x), proc_text("%s/model.safetensors", y)));
}

static uint64_t round_now(const struct swarm *s)
{
	json_t *head = help_swarm_get(s, "/api/v1/head");
	uint64_t at = (uint64_t)json_integer_value(
		json_object_get(json_object_get(head, "body"), "round"));
	json_decref(head);
	return at;
}

/* Shards whose update of this round was merged. */
static int merged_in(const struct swarm *s, uint64_t round)
{
	json_t *doc = help_swarm_get(s, "/api/v1/rounds.json");
	const json_t *rows = json_object_get(doc, "rounds"), *row;
	int merged = -1;
	size_t i;
	json_array_foreach(rows, i, row)
	{
		if ((uint64_t)json_integer_value(json_object_get(row, "round")) == round)
			merged = (int)json_integer_value(json_object_get(row, "merged"));
	}
	json_decref(doc);
	return merged;
}

static void a_late_joiner_trains_within_two_rounds(void **state)
{
	(void)state;
	/* Bundles while there is one peer, merged updates of two. */
	static const char *const changes[] = {"timed", "round.seconds=1.0", "codec.select=all",
		"codec.values=int8", "codec.k=null", NULL};
	struct swarm s;
	help_swarm_start(&s, changes);
	help_swarm_peer(&s, "early");
	help_swarm_round(&s, 5, WAIT);
	struct proc *late = help_swarm_peer(&s, "late");
	proc_line(late, "linked with the coordinator", WAIT);
	uint64_t at = round_now(&s);
	/* the round that was open, two more to be in, and the one that is looked at */
	help_swarm_round(&s, at + 4, WAIT);
	assert_true(help_swarm_tokens(&s, "late") > 0);
	assert_int_equal(merged_in(&s, at - 1), 0);
	assert_int_equal(merged_in(&s, at + 3), 2);
	const char *line = help_swarm_stop(&s);
	help_swarm_verify(&s, line);
	assert_string_equal(help_run_value(line, "peers"), "2");
}

static void status_says_what_a_peer_does(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, three);
	struct proc *p = help_swarm_peer(&s, "one");
	proc_line(p, "waiting for the coordinator to open a round", WAIT);
	const char *dir = proc_text("%s/one", s.scratch);
	const char *says = "";
	for (int i = 0; i < 100 && !strstr(says, "waiting for the coordinator"); i++) {
		struct proc *q = PROC_START("shoal-peer", "status", "--dir", dir);
		assert_int_equal(proc_wait(q, WAIT), 0);
		says = proc_out(q);
	}
	assert_non_null(strstr(says, "waiting for the coordinator"));
	json_t *overview = help_swarm_get(&s, "/api/v1/overview.json");
	const char *reason = json_string_value(json_object_get(overview, "reason"));
	assert_non_null(strstr(reason, "waiting for 2 more peers"));
	json_decref(overview);
	proc_signal(p, SIGINT);
	assert_int_equal(proc_wait(p, WAIT), 130);
	assert_int_equal(proc_wait(PROC_START("shoal-peer", "status", "--dir", dir), WAIT), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(three_peers_train_one_model, proc_teardown),
		cmocka_unit_test_teardown(
			a_repeated_fixed_step_run_has_the_same_head, proc_teardown),
		cmocka_unit_test_teardown(merged_updates_give_one_model, proc_teardown),
		cmocka_unit_test_teardown(every_rule_and_codec_runs, proc_teardown),
		cmocka_unit_test_teardown(average_alone_equals_local, proc_teardown),
		cmocka_unit_test_teardown(a_late_joiner_trains_within_two_rounds, proc_teardown),
		cmocka_unit_test_teardown(status_says_what_a_peer_does, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
