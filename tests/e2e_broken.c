/* Folders that disks, backups and people have damaged: a start goes on, or says in a sentence what
 * is broken and what to do, and destroys nothing that is left. */
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

#define WAIT 150

static const char *const timed[] = {"timed", NULL};

/* A run that stopped, or was killed, after some rounds. */
static void play(struct swarm *s, bool killed)
{
	help_swarm_start(s, timed);
	struct proc *p = help_swarm_peer(s, "peer");
	help_swarm_round(s, 22, WAIT); /* past a snapshot */
	if (killed)
		proc_signal(s->coordinator, SIGKILL);
	else
		help_swarm_stop(s);
	proc_wait(s->coordinator, WAIT);
	proc_signal(p, SIGKILL);
	proc_wait(p, WAIT);
}

static void copy(const struct swarm *s, const char *to)
{
	PROC_RUN(0, 60, "/bin/cp", "-a", s->dir, proc_text("%s/%s", s->scratch, to));
}

/* A start on that folder ends with this sentence. */
static void refused(const struct swarm *s, const char *dir, const char *says)
{
	struct proc *p = PROC_RUN(1, 60, "shoal-coordinator", "serve", s->spec, "--data", s->data,
		"--dir", dir, "--address", "127.0.0.1", "--port", "0", "--link-port", "0");
	if (!strstr(proc_err(p), says))
		fail_msg("\"%s\" is not in:\n%s", says, proc_err(p));
}

static void a_store_that_lost_its_newest_part_is_not_begun_anew(void **state)
{
	(void)state;
	struct swarm s;
	play(&s, true);
	const char *dir = proc_text("%s/copy", s.scratch);
	copy(&s, "copy");
	PROC_RUN(0, 60, "/bin/rm", proc_text("%s/store.sqlite-wal", dir));
	refused(&s, dir, "its newest part is lost");
	help_run_write(proc_text("%s/store.sqlite", dir), "");
	refused(&s, dir, "its newest part is lost");
	/* nothing of it was swept away: with the store back it goes on */
	PROC_RUN(0, 60, "/bin/cp", "-a", proc_text("%s/store.sqlite", s.dir),
		proc_text("%s/store.sqlite-wal", s.dir), dir);
	s.dir = dir;
	help_swarm_coordinator(&s);
	help_swarm_round(&s, 22, WAIT);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* ---- a peer's folder */

static void overwrite(const char *path, const char *with)
{
	PROC_RUN(0, 60, "/bin/sh", "-c", proc_text("printf '%s' >'%s'", with, path));
}

/* What is damaged is fetched again, also what is no text to train on. */
static void a_peers_damaged_data_is_fetched_again(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	struct proc *p = help_swarm_peer(&s, "peer");
	proc_line(p, "linked with the coordinator", WAIT);
	proc_signal(p, SIGKILL);
	proc_wait(p, WAIT);
	PROC_RUN(0, 60, "/bin/sh", "-c",
		proc_text("for f in '%s'/peer/blobs/*; do echo x >$f; done", s.scratch));
	overwrite(proc_text("%s/peer/manifest.json", s.scratch), "{");
	overwrite(proc_text("%s/peer/status.json", s.scratch), "{");
	p = help_swarm_peer(&s, "peer");
	proc_line(p, "contribution delivered", WAIT);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(
			a_store_that_lost_its_newest_part_is_not_begun_anew, proc_teardown),
		cmocka_unit_test_teardown(a_peers_damaged_data_is_fetched_again, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
