/* A coordinator's folder is lost; the run goes on from the key's backup and what the peers keep. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
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
#include "base/clock.h"
#include "base/file.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define TOOL "shoal-coordinator"
#define WAIT 60

static const char *backup(const struct swarm *s)
{
	const char *words = proc_text("%s/words", s->scratch),
		   *file = proc_text("%s/run-key.backup", s->scratch);
	struct why why;
	if (file_write(words, "correct horse battery\n", 22, 0600, &why))
		fail_msg("%s", why.text);
	PROC_RUN(0, WAIT, TOOL, "backup", s->dir, "--out", file, "--passphrase-file", words);
	return file;
}

static struct proc *rebuild(const struct swarm *s, const char *file, const char *wait)
{
	return PROC_START(TOOL, "rebuild", s->spec, "--backup", file, "--passphrase-file",
		proc_text("%s/words", s->scratch), "--data", s->data, "--dir", s->dir, "--address",
		"127.0.0.1", "--port", proc_text("%u", s->port), "--link-port",
		proc_text("%u", s->link_port), "--wait", wait);
}

/* The line of the outcome. */
static const char *rebuilt(struct proc *p)
{
	const char *line = proc_line(p, "rebuild: ok", WAIT);
	assert_int_equal(proc_wait(p, WAIT), 0);
	return line;
}

/* Waits until the ledger stands at this round and the peer has applied it; then the next round has
 * just begun, so that the coordinator is not stopped between a signature and its arrival. */
static void settle(const struct swarm *s, uint64_t round, const char *name)
{
	help_swarm_round(s, round, WAIT);
	json_t *doc = help_swarm_get(s, "/api/v1/head");
	const char *hash = json_string_value(json_object_get(json_object_get(doc, "body"), "hash"));
	const char *path = proc_text("%s/%s/shelf/index.json", s->scratch, name);
	uint64_t deadline = clock_now_ns() + WAIT * CLOCK_SECOND;
	assert_non_null(hash);
	while (!file_exists(path) || !strstr(help_run_read(path), hash)) {
		if (clock_now_ns() > deadline)
			fail_msg("%s does not reach the head %s", name, hash);
		poll(NULL, 0, 20); /* between two looks, under the deadline above */
	}
	json_decref(doc);
}

static void the_ledger_goes_on_from_the_same_head(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s,
		(const char *const[]){"timed", "round.seconds=1", "round.snapshot_every=2", NULL});
	const char *file = backup(&s);
	help_swarm_peer(&s, "first");
	help_swarm_round(&s, 3, WAIT);
	help_swarm_peer(&s, "late"); /* did not see the ledger's beginning */
	settle(&s, 7, "late");
	const char *stopped = help_swarm_stop(&s), *lost = proc_text("%s/lost", s.scratch);
	assert_int_equal(rename(s.dir, lost), 0);

	const char *line = rebuilt(rebuild(&s, file, "20"));
	assert_string_equal(help_run_value(line, "head"), help_run_value(stopped, "head"));
	assert_string_equal(help_run_value(line, "tokens"), help_run_value(stopped, "tokens"));
	assert_string_equal(help_run_value(line, "members"), "2");
	assert_string_not_equal(help_run_value(line, "snapshot"), "0");
	help_swarm_verify(&s, stopped);
	/* the peers' snapshot has the bytes of the coordinator's */
	const char *picture = proc_text(
		"snapshot-%012llu.state", strtoull(help_run_value(line, "snapshot"), NULL, 10));
	assert_true(help_run_same(
		proc_text("%s/%s", lost, picture), proc_text("%s/%s", s.dir, picture)));

	uint64_t at = strtoull(help_run_value(line, "round"), NULL, 10);
	help_swarm_coordinator(&s);
	help_swarm_round(&s, at + 3, WAIT);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void a_peer_that_was_started_anew_helps(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s,
		(const char *const[]){"timed", "round.seconds=1", "round.snapshot_every=2", NULL});
	const char *file = backup(&s);
	struct proc *peer = help_swarm_peer(&s, "only");
	settle(&s, 4, "only");
	const char *stopped = help_swarm_stop(&s);
	proc_signal(peer, SIGKILL);
	(void)proc_wait(peer, WAIT);
	assert_int_equal(rename(s.dir, proc_text("%s/lost", s.scratch)), 0);
	struct proc *p = rebuild(&s, file, "20");
	help_swarm_peer(&s, "only");
	assert_string_equal(help_run_value(rebuilt(p), "head"), help_run_value(stopped, "head"));
	help_swarm_verify(&s, stopped);
}

/* The first byte of every blob on a peer's shelf. */
static void damage(const struct swarm *s, const char *name)
{
	const char *dir = proc_text("%s/%s/shelf/blobs", s->scratch, name);
	unsigned n = 0;
	DIR *d = opendir(dir);
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		int fd = open(proc_text("%s/%s", dir, e->d_name), O_WRONLY);
		assert_true(fd >= 0);
		assert_int_equal(pwrite(fd, "?", 1, 0), 1);
		close(fd);
		n++;
	}
	closedir(d);
	assert_int_not_equal(n, 0);
}

static void a_damaged_shelf_is_left_for_another(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s,
		(const char *const[]){"timed", "round.seconds=1", "round.snapshot_every=2", NULL});
	const char *file = backup(&s);
	help_swarm_peer(&s, "bad");
	struct proc *good = help_swarm_peer(&s, "good");
	settle(&s, 4, "good");
	const char *stopped = help_swarm_stop(&s);
	proc_signal(good, SIGSTOP); /* so that the bad one is asked first */
	damage(&s, "bad");
	assert_int_equal(rename(s.dir, proc_text("%s/lost", s.scratch)), 0);
	struct proc *p = rebuild(&s, file, "1");
	proc_line(p, "does not help", WAIT);
	proc_signal(good, SIGCONT);
	assert_string_equal(help_run_value(rebuilt(p), "head"), help_run_value(stopped, "head"));
	help_swarm_verify(&s, stopped);
}

static void what_is_there_is_not_written_over(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, (const char *const[]){"timed", NULL});
	const char *file = backup(&s);
	help_swarm_stop(&s);
	struct proc *p = rebuild(&s, file, "20");
	assert_int_equal(proc_wait(p, WAIT), 1);
	if (!strstr(proc_err(p), "holds something"))
		fail_msg("it says: %s", proc_err(p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(the_ledger_goes_on_from_the_same_head, proc_teardown),
		cmocka_unit_test_teardown(a_peer_that_was_started_anew_helps, proc_teardown),
		cmocka_unit_test_teardown(a_damaged_shelf_is_left_for_another, proc_teardown),
		cmocka_unit_test_teardown(what_is_there_is_not_written_over, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
