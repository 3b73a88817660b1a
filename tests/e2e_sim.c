/* What is simulated is what happens: a fixed-step run of real processes and its simulation come to
 * the same head. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 120
#define GROUP(n) \
	"\"peers\":[{\"count\":" n ",\"speed\":4000,\"up\":20,\"down\":100,\"rtt_ms\":40}]}"

static const char *scenario(const struct swarm *s, const char *rest)
{
	const char *path = proc_text("%s/scenario.json", s->scratch);
	help_run_write(path, proc_text("{\"spec\":\"%s\",\"data\":\"%s\",\"seed\":1,%s", s->spec,
				     s->data, rest));
	return path;
}

static const char *simulate(const char *path, const char *json)
{
	struct proc *p = PROC_RUN(0, WAIT, "shoal-sim", "run", path, "--json", json);
	const char *line = strstr(proc_text("%s", proc_out(p)), "sim: ok");
	assert_non_null(line);
	return line;
}

static void compare(const char *const *changes, int peers, const char *rest)
{
	struct swarm s;
	struct proc *p[3];
	help_swarm_start(&s, changes);
	for (int i = 0; i < peers; i++)
		p[i] = help_swarm_peer(&s, proc_text("peer%d", i));
	const char *real = help_swarm_finish(&s, WAIT);
	for (int i = 0; i < peers; i++)
		help_swarm_ends(p[i], WAIT);
	const char *json = proc_text("%s/out.json", s.scratch);
	const char *line = simulate(scenario(&s, rest), json);
	assert_string_equal(help_run_value(line, "head"), help_run_value(real, "head"));
	assert_string_equal(help_run_value(line, "tokens"), help_run_value(real, "tokens"));
	assert_string_equal(help_run_value(line, "loss"), help_run_value(real, "val_loss"));
	assert_non_null(strstr(help_run_read(json), help_run_value(line, "head")));
}

static void a_simulation_comes_to_the_head_of_real_processes(void **state)
{
	(void)state;
	static const char *const three[] = {"round.peers_min=3", "train.total_tokens=6400", NULL},
				 *const merged[] = {"round.peers_min=2", "codec.select=all",
					 "codec.values=int8", "codec.k=null", "outer.rule=diloco",
					 "outer.lr=0.5", "outer.momentum=0.8",
					 "train.total_tokens=3200", NULL};
	compare(three, 3, GROUP("3"));
	compare(merged, 2, GROUP("2"));
}

static void it_stops_when_asked(void **state)
{
	(void)state;
	struct swarm s = {.scratch = proc_scratch()};
	static const char *const changes[] = {"timed", NULL}; /* has no end */
	s.data = help_run_data(s.scratch);
	s.spec = help_run_spec(s.scratch, s.data, changes);
	assert_int_equal(setenv("TMPDIR", s.scratch, 1), 0);
	struct proc *p = PROC_START("shoal-sim", "run", scenario(&s, GROUP("2")));
	proc_line(p, "round 0", WAIT);
	proc_signal(p, SIGINT);
	assert_int_equal(proc_wait(p, WAIT), 130);
	assert_non_null(strstr(proc_err(p), "stopped after"));
	assert_int_equal(unsetenv("TMPDIR"), 0);
	/* nothing of it is left */
	DIR *d = opendir(s.scratch);
	for (struct dirent *e; d && (e = readdir(d));)
		assert_null(strstr(e->d_name, "shoal-sim."));
	closedir(d);
	struct proc *help = PROC_RUN(0, WAIT, "shoal-sim", "run", "--help");
	assert_non_null(strstr(proc_out(help), "dies_every_s"));
	PROC_RUN(2, WAIT, "shoal-sim", "run");
	struct proc *none = PROC_RUN(1, WAIT, "shoal-sim", "run", "/nowhere.json");
	assert_non_null(strstr(proc_err(none), "/nowhere.json"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(
			a_simulation_comes_to_the_head_of_real_processes, proc_teardown),
		cmocka_unit_test_teardown(it_stops_when_asked, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
