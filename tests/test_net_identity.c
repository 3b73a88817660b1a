/* Key files: made once, kept, and refused when they are open to others, cut short or damaged.
 * SECURITY.md, invariants 3, 4 and 19. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "net/backup.h"
#include "net/identity.h"
#include "net/passphrase.h"

static char scratch[64], dir[96];

static const char *in(const char *name)
{
	static char path[4][160];
	static size_t turn;
	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
	return path[turn];
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static int setup(void **state)
{
	(void)state;
	snprintf(scratch, sizeof scratch, "/tmp/shoal-identity.XXXXXX");
	if (!mkdtemp(scratch))
		return -1;
	snprintf(dir, sizeof dir, "%s/keys", scratch);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return nftw(scratch, drop, 16, FTW_DEPTH | FTW_PHYS);
}

static unsigned mode_of(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 0777u;
}

static void test_coordinator(void **state)
{
	struct identity_coordinator a, b;
	struct why why = {0};
	(void)state;
	assert_false(identity_coordinator_exists(dir));
	assert_int_equal(identity_coordinator_open(dir, &a, &why), ERR_missing);
	assert_int_equal(identity_coordinator_make(dir, NULL, &why), ERR_OK);
	assert_true(identity_coordinator_exists(dir));
	assert_int_equal(identity_coordinator_open(dir, &a, &why), ERR_OK);
	assert_int_equal(identity_coordinator_open(dir, &b, &why), ERR_OK);
	assert_memory_equal(sign_public_of(a.run).b, sign_public_of(b.run).b, SIGN_PUBLIC);
	assert_memory_equal(&a.curve, &b.curve, sizeof a.curve);
	struct hash x = tls_spki(a.tls), y = tls_spki(b.tls);
	assert_true(hash_equal(&x, &y));
	assert_int_equal(mode_of(dir), 0700);
	assert_int_equal(mode_of(in("run.key")), 0600);
	assert_int_equal(mode_of(in("curve.key")), 0600);
	assert_int_equal(mode_of(in("tls.key")), 0600);
	assert_int_equal(identity_coordinator_make(dir, NULL, &why), ERR_exists);
	assert_non_null(strstr(why.text, "never overwritten"));
	identity_coordinator_release(&a);
	identity_coordinator_release(&b);
	identity_coordinator_release(NULL);
}

static void test_lost_tls_key_is_made_anew(void **state)
{
	struct identity_coordinator a;
	struct why why = {0};
	(void)state;
	assert_int_equal(identity_coordinator_make(dir, NULL, &why), ERR_OK);
	assert_int_equal(identity_coordinator_open(dir, &a, &why), ERR_OK);
	struct hash before = tls_spki(a.tls);
	identity_coordinator_release(&a);
	unlink(in("tls.key"));
	assert_int_equal(identity_coordinator_open(dir, &a, &why), ERR_OK);
	struct hash after = tls_spki(a.tls);
	assert_false(hash_equal(&before, &after));
	identity_coordinator_release(&a);
	// A key without its certificate, and one of another key.
	assert_int_equal(rename(in("tls.crt"), in("other")), 0);
	assert_int_equal(identity_coordinator_open(dir, &a, &why), ERR_missing);
	assert_non_null(strstr(why.text, "tls.crt"));
	assert_int_equal(file_write(in("tls.crt"), "hello", 5, 0644, &why), ERR_OK);
	assert_int_equal(identity_coordinator_open(dir, &a, &why), ERR_syntax);
	assert_int_equal(rename(in("other"), in("tls.crt")), 0);
	assert_int_equal(chmod(in("tls.key"), 0640), 0);
	assert_int_equal(identity_coordinator_open(dir, &a, &why), ERR_permission);
	assert_non_null(strstr(why.text, "chmod 600"));
}

static void test_peer(void **state)
{
	struct identity_peer a, b;
	struct why why = {0};
	(void)state;
	assert_int_equal(identity_peer_open(dir, &a, &why), ERR_OK);
	assert_int_equal(identity_peer_open(dir, &b, &why), ERR_OK);
	assert_memory_equal(sign_public_of(a.sign).b, sign_public_of(b.sign).b, SIGN_PUBLIC);
	assert_memory_equal(&a.curve, &b.curve, sizeof a.curve);
	assert_int_equal(a.instance >> 32, 1);
	assert_int_equal(b.instance >> 32, 2);
	assert_int_equal(mode_of(in("peer.key")), 0600);
	identity_peer_release(&a);
	identity_peer_release(&b);
	identity_peer_release(NULL);
	// The start of a copy has the same count and yet another number.
	uint8_t *starts;
	size_t n;
	assert_int_equal(file_read(in("starts"), 100, &starts, &n, &why), ERR_OK);
	assert_int_equal(identity_peer_open(dir, &a, &why), ERR_OK);
	assert_int_equal(file_write(in("starts"), starts, n, 0600, &why), ERR_OK);
	assert_int_equal(identity_peer_open(dir, &b, &why), ERR_OK);
	assert_int_equal(a.instance >> 32, b.instance >> 32);
	assert_true(a.instance != b.instance);
	free(starts);
	identity_peer_release(&a);
	identity_peer_release(&b);
}

static void refuse_peer(enum err code, const char *says)
{
	struct identity_peer p;
	struct why why = {0};
	assert_int_equal(identity_peer_open(dir, &p, &why), code);
	assert_null(p.sign);
	if (!strstr(why.text, says))
		fail_msg("\"%s\" is not in: %s", says, why.text);
}

static void test_files_that_are_not_taken(void **state)
{
	struct identity_peer p;
	struct why why = {0};
	uint8_t *good;
	size_t n;
	(void)state;
	assert_int_equal(identity_peer_open(dir, &p, &why), ERR_OK);
	identity_peer_release(&p);
	assert_int_equal(file_read(in("peer.key"), 1000, &good, &n, &why), ERR_OK);
	assert_int_equal(chmod(in("peer.key"), 0604), 0);
	refuse_peer(ERR_permission, "chmod 600");
	for (size_t cut = 0; cut < n; cut++) {
		assert_int_equal(file_write(in("peer.key"), good, cut, 0600, &why), ERR_OK);
		refuse_peer(ERR_truncated, "peer.key");
	}
	for (size_t i = 0; i < n; i++) {
		good[i] ^= 0x10;
		assert_int_equal(file_write(in("peer.key"), good, n, 0600, &why), ERR_OK);
		assert_int_not_equal(identity_peer_open(dir, &p, &why), ERR_OK);
		good[i] ^= 0x10;
	}
	assert_int_equal(
		file_write(in("peer.key"), "-----BEGIN PRIVATE KEY-----", 27, 0600, &why), ERR_OK);
	refuse_peer(ERR_magic, "not a key file of shoal");
	good[8] = 9;
	assert_int_equal(file_write(in("peer.key"), good, n, 0600, &why), ERR_OK);
	refuse_peer(ERR_version, "version 9");
	good[8] = 1;
	assert_int_equal(rename(in("starts"), in("peer.key")), 0);
	refuse_peer(ERR_magic, "holds a start counter where a peer's key belongs");
	uint8_t *large = calloc(1, 5000);
	assert_int_equal(file_write(in("peer.key"), large, 5000, 0600, &why), ERR_OK);
	refuse_peer(ERR_toobig, "peer.key");
	free(large);
	free(good);
	assert_int_equal(chmod(dir, 0770), 0);
	refuse_peer(ERR_permission, "chmod 700");
}

static void test_backup(void **state)
{
	struct sign_key *run = sign_make(), *again;
	struct identity_coordinator c;
	struct why why = {0};
	uint8_t *bytes;
	size_t n;
	(void)state;
	assert_int_equal(file_mkdirs(dir, 0700, &why), ERR_OK);
	const char *path = in("backup");
	assert_int_equal(backup_write(path, run, "short", &why), ERR_usage);
	assert_int_equal(backup_write(path, run, "correct horse", &why), ERR_OK);
	assert_int_equal(mode_of(path), 0600);
	assert_int_equal(backup_write(path, run, "correct horse", &why), ERR_exists);
	assert_int_equal(backup_read(path, "correct horse", &again, &why), ERR_OK);
	assert_memory_equal(sign_public_of(run).b, sign_public_of(again).b, SIGN_PUBLIC);
	assert_int_equal(identity_coordinator_make(dir, again, &why), ERR_OK);
	sign_free(again);
	assert_int_equal(identity_coordinator_open(dir, &c, &why), ERR_OK);
	assert_memory_equal(sign_public_of(run).b, sign_public_of(c.run).b, SIGN_PUBLIC);
	identity_coordinator_release(&c);
	assert_int_equal(backup_read(path, "correct house", &again, &why), ERR_signature);
	assert_null(again);
	assert_int_equal(file_read(path, 1000, &bytes, &n, &why), ERR_OK);
	bytes[n - 20] ^= 1;
	assert_int_equal(file_write(path, bytes, n, 0600, &why), ERR_OK);
	assert_int_equal(backup_read(path, "correct horse", &again, &why), ERR_signature);
	assert_int_equal(file_write(path, bytes, n - 1, 0600, &why), ERR_OK);
	assert_int_equal(backup_read(path, "correct horse", &again, &why), ERR_truncated);
	bytes[10] = 40; // a cost that would take all memory
	assert_int_equal(file_write(path, bytes, n, 0600, &why), ERR_OK);
	assert_int_equal(backup_read(path, "correct horse", &again, &why), ERR_range);
	bytes[8] = 2;
	assert_int_equal(file_write(path, bytes, n, 0600, &why), ERR_OK);
	assert_int_equal(backup_read(path, "correct horse", &again, &why), ERR_version);
	bytes[0] = 'X';
	assert_int_equal(file_write(path, bytes, n, 0600, &why), ERR_OK);
	assert_int_equal(backup_read(path, "correct horse", &again, &why), ERR_magic);
	free(bytes);
	sign_free(run);
}

static void test_passphrase(void **state)
{
	struct why why = {0};
	char *p;
	(void)state;
	assert_int_equal(file_mkdirs(dir, 0700, &why), ERR_OK);
	const char *path = in("passphrase");
	assert_int_equal(file_write(path, "correct horse\nx", 15, 0600, &why), ERR_OK);
	assert_int_equal(passphrase_get(path, true, &p, &why), ERR_OK);
	assert_string_equal(p, "correct horse");
	passphrase_free(p);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(passphrase_get(path, true, &p, &why), ERR_permission);
	assert_int_equal(file_write(path, "\n", 1, 0600, &why), ERR_OK);
	assert_int_equal(passphrase_get(path, true, &p, &why), ERR_syntax);
	setenv("SHOAL_PASSPHRASE", "from outside", 1);
	assert_int_equal(passphrase_get(NULL, true, &p, &why), ERR_OK);
	assert_string_equal(p, "from outside");
	assert_null(getenv("SHOAL_PASSPHRASE"));
	passphrase_free(p);
	passphrase_free(NULL);
}

static void answer(int fd, const char *prompt, const char *line)
{
	char seen[200];
	size_t n = 0;
	// What was typed before is thrown away, so the prompt is waited for.
	do {
		assert_true(n < sizeof seen - 1);
		assert_int_equal(read(fd, seen + n, 1), 1);
		seen[++n] = 0;
	} while (!strstr(seen, prompt));
	assert_int_equal(write(fd, line, strlen(line)), strlen(line));
}

/* What passphrase_get made of two answers on a terminal of its own. */
static int asked(const char *first, const char *second)
{
	int fd, status;
	pid_t child = forkpty(&fd, NULL, NULL, NULL);
	assert_true(child >= 0);
	if (child == 0) {
		struct why why;
		char *p;
		enum err e = passphrase_get(NULL, second != NULL, &p, &why);
		_exit(e == ERR_OK && strcmp(p, "several words") != 0 ? 99 : (int)e);
	}
	answer(fd, "passphrase: ", first);
	if (second)
		answer(fd, "once more: ", second);
	assert_int_equal(waitpid(child, &status, 0), child);
	close(fd);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_passphrase_from_a_terminal(void **state)
{
	(void)state;
	unsetenv("SHOAL_PASSPHRASE");
	assert_int_equal(asked("several words\n", NULL), ERR_OK);
	assert_int_equal(asked("several words\n", "several words\n"), ERR_OK);
	assert_int_equal(asked("several words\n", "several wards\n"), ERR_usage);
	assert_int_equal(asked("sev\003\n", NULL), ERR_interrupted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_coordinator, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost_tls_key_is_made_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(test_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_files_that_are_not_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(test_backup, setup, teardown),
		cmocka_unit_test_setup_teardown(test_passphrase, setup, teardown),
		cmocka_unit_test(test_passphrase_from_a_terminal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
