/* The run key's backup as an operator meets it: made, lost, brought back, and a run that goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/file.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define TOOL "shoal-coordinator"
#define WAIT 60

static void holds(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

/* One sentence, the status, nothing on standard output. */
static void refuses(int status, const char *says, const char *const *argv)
{
	struct proc *p = proc_run(status, WAIT, argv);
	const char *line = proc_text("%s", proc_err(p));
	holds(line, says);
	if (strchr(line, '\n') != line + strlen(line) - 1)
		fail_msg("not one line:\n%s", line);
	assert_string_equal(proc_out(p), "");
}
#define REFUSES(status, says, ...) \
	refuses(status, says, (const char *const[]){TOOL, __VA_ARGS__, NULL})

/* A file that only we can read, as passphrases must be. */
static const char *secret(const struct swarm *s, const char *name, const char *text)
{
	const char *path = proc_text("%s/%s", s->scratch, name);
	struct why why;
	if (file_write(path, text, strlen(text), 0600, &why))
		fail_msg("%s", why.text);
	return path;
}

static void a_lost_key_comes_back_and_the_run_goes_on(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, (const char *const[]){"timed", NULL});
	const char *words = secret(&s, "words", "correct horse battery\nnot this line\n"),
		   *file = proc_text("%s/run-key.backup", s.scratch),
		   *keys = proc_text("%s/keys", s.dir);
	/* while the run is served */
	struct proc *p =
		PROC_RUN(0, WAIT, TOOL, "backup", s.dir, "--out", file, "--passphrase-file", words);
	const char *key = help_run_value(proc_out(p), "key");
	holds(help_run_read(s.link), key); /* what the join link pins */
	struct stat st;
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	struct proc *peer = help_swarm_peer(&s, "peer");
	help_swarm_round(&s, 2, WAIT);
	help_swarm_stop(&s);

	/* a key that is there is kept */
	REFUSES(1, "is there already", "restore", file, "--dir", s.dir, "--passphrase-file", words);
	assert_int_equal(rename(keys, proc_text("%s/lost", s.scratch)), 0);
	REFUSES(1, "shoal-coordinator restore", "serve", s.spec, "--data", s.data, "--dir", s.dir,
		"--address", "127.0.0.1", "--port", "0", "--link-port", "0");
	setenv("SHOAL_PASSPHRASE", "correct horse battery", 1);
	p = PROC_RUN(0, WAIT, TOOL, "restore", file, "--dir", s.dir);
	unsetenv("SHOAL_PASSPHRASE");
	holds(proc_out(p), key);
	holds(proc_out(p), "the run goes on");
	help_swarm_coordinator(&s);
	/* The coordinator's other keys are new: its statement, by the run key, tells the peer. */
	proc_line(peer, "the coordinator has a new key or port", WAIT);
	help_swarm_round(&s, 4, WAIT);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void what_is_wrong_is_named(void **state)
{
	(void)state;
	struct swarm s, other;
	help_swarm_start(&s, NULL);
	help_swarm_stop(&s);
	const char *words = secret(&s, "words", "correct horse battery\n"),
		   *wrong = secret(&s, "wrong", "incorrect horse battery\n"),
		   *brief = secret(&s, "brief", "horse\n"), *none = secret(&s, "none", "\n"),
		   *file = proc_text("%s/run-key.backup", s.scratch),
		   *empty = proc_text("%s/new", s.scratch),
		   *nowhere = proc_text("%s/nowhere", s.scratch);
	REFUSES(2, "no folder is given", "backup", "--out", file);
	REFUSES(2, "--out FILE is missing", "backup", s.dir);
	REFUSES(1, "there is no run key", "backup", nowhere, "--out", file, "--passphrase-file",
		words);
	assert_false(file_exists(nowhere));
	REFUSES(2, "fewer than 8", "backup", s.dir, "--out", file, "--passphrase-file", brief);
	REFUSES(1, "is empty", "backup", s.dir, "--out", file, "--passphrase-file", none);
	REFUSES(1, nowhere, "backup", s.dir, "--out", file, "--passphrase-file", nowhere);
	assert_int_equal(chmod(wrong, 0644), 0);
	REFUSES(1, "chmod 600", "backup", s.dir, "--out", file, "--passphrase-file", wrong);
	assert_int_equal(chmod(wrong, 0600), 0);
	assert_false(file_exists(file));
	PROC_RUN(0, WAIT, TOOL, "backup", s.dir, "--out", file, "--passphrase-file", words);
	REFUSES(1, "never overwrites", "backup", s.dir, "--out", file, "--passphrase-file", words);

	REFUSES(2, "no backup is given", "restore", "--dir", empty);
	REFUSES(2, "--dir DIR is missing", "restore", file);
	REFUSES(1, "does not open this backup", "restore", file, "--dir", empty,
		"--passphrase-file", wrong);
	REFUSES(1, "not a backup of a run key", "restore", s.spec, "--dir", empty,
		"--passphrase-file", words);
	REFUSES(1, nowhere, "restore", nowhere, "--dir", empty, "--passphrase-file", words);
	assert_false(file_exists(empty));
	/* into the folder of another run */
	help_swarm_start(&other, NULL);
	help_swarm_stop(&other);
	assert_int_equal(
		rename(proc_text("%s/keys", other.dir), proc_text("%s/lost", other.scratch)), 0);
	REFUSES(1, "of another run", "restore", file, "--dir", other.dir, "--passphrase-file",
		words);
	assert_false(file_exists(proc_text("%s/keys", other.dir)));
	struct proc *p = PROC_RUN(
		0, WAIT, TOOL, "restore", file, "--dir", empty, "--passphrase-file", words);
	holds(proc_out(p), "The folder holds no run");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_lost_key_comes_back_and_the_run_goes_on, proc_teardown),
		cmocka_unit_test_teardown(what_is_wrong_is_named, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
