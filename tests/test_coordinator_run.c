/* The folder of a run: what a start finds, mends and refuses; the ledger replayed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "coordinator/snapshot.h"
#include "round/replica.h"
#include "tests/help_coordinator.h"

static struct spec *spec;

/* A run of five rounds, stopped. */
static int made(void **state)
{
	struct hub h;
	if (help_coordinator_setup(state))
		return -1;
	spec = help_coordinator_spec();
	help_coordinator_open(&h, spec);
	help_coordinator_play(&h, 5);
	hub_close(&h);
	return 0;
}

static int unmade(void **state)
{
	spec_free(spec);
	return help_coordinator_teardown(state);
}

static enum err open_run(struct run *r, bool serving, struct why *why)
{
	const struct run_config c = {.dir = help_coordinator_path("run"),
		.spec = serving ? spec : NULL,
		.serving = serving};
	return run_open(&c, r, why);
}

static void must_open(struct run *r, bool serving)
{
	struct why why;
	if (open_run(r, serving, &why))
		fail_msg("%s", why.text);
}

/* One byte in the middle of a file is another one. */
static void damage(const char *path)
{
	struct stat st;
	uint8_t b;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(pread(fd, &b, 1, st.st_size / 2), 1);
	b ^= 0x40;
	assert_int_equal(pwrite(fd, &b, 1, st.st_size / 2), 1);
	close(fd);
}

static size_t count_files(const char *name, const char *begins)
{
	size_t n = 0;
	DIR *d = opendir(help_coordinator_path(name));
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		n += !strncmp(e->d_name, begins, strlen(begins));
	closedir(d);
	return n;
}

static void a_damaged_shard_is_made_again(void **state)
{
	(void)state;
	struct run r;
	must_open(&r, false);
	struct hash all = run_state(&r);
	run_release(&r);
	damage(help_coordinator_path("run/state/shard-0-round-5.state"));
	assert_int_equal(unlink(help_coordinator_path("run/state/shard-1-round-5.state")), 0);
	must_open(&r, true);
	for (uint32_t i = 0; i < 2; i++) {
		struct shardstate s;
		struct why why;
		assert_int_equal(shardfile_load(&r.files, i, 5, &s, &why), ERR_OK);
		struct hash have = shardstate_hash(&s), want = ledger_state(r.ledger, i);
		assert_memory_equal(&have, &want, sizeof have);
		shardstate_release(&s);
	}
	struct hash again = run_state(&r);
	assert_memory_equal(&again, &all, sizeof all);
	run_release(&r);
}

/* The snapshot and the records are damaged too: said, not guessed. */
static void what_cannot_be_mended_is_said(void **state)
{
	(void)state;
	struct run r;
	struct why why;
	damage(help_coordinator_path("run/state/shard-0-round-5.state"));
	damage(help_coordinator_path("run/snapshot-000000000003.state"));
	damage(help_coordinator_path("run/snapshot-000000000000.state"));
	assert_int_equal(open_run(&r, true, &why), ERR_hash);
	help_coordinator_told(&why, ERR_hash, "shard 0 cannot be made again");
	run_release(&r);
}

static void what_a_death_left_is_removed(void **state)
{
	(void)state;
	struct run r;
	struct why why;
	static const char junk[] = "left";
	const char *const paths[] = {"run/state/shard-0-round-6.state",
		"run/state/shard-0-round-4.state", "run/state/shard-0-round-9.state.x.tmp",
		"run/snapshot-000000000002.state"};
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(
			file_write(help_coordinator_path(paths[i]), junk, 4, 0600, &why), ERR_OK);
	struct hash name;
	must_open(&r, false);
	assert_int_equal(blob_put(r.blobs, junk, 4, &name, &why), ERR_OK);
	run_release(&r);
	must_open(&r, true);
	assert_false(blob_has(r.blobs, &name));
	run_release(&r);
	for (size_t i = 0; i < 4; i++)
		assert_false(file_exists(help_coordinator_path(paths[i])));
	assert_int_equal(count_files("run/state", "shard-"), 2);
	assert_int_equal(count_files("run", "snapshot-"), 2);
}

static void another_spec_is_refused_with_the_difference(void **state)
{
	(void)state;
	struct run r;
	struct why why;
	struct spec *mine = spec, *other = NULL;
	static const char *const sets[] = {"train.lr=0.5"};
	assert_int_equal(
		spec_load(help_coordinator_path("spec.json"), sets, 1, &other, NULL, &why), ERR_OK);
	spec = other;
	assert_int_equal(open_run(&r, true, &why), ERR_spec);
	help_coordinator_told(&why, ERR_spec, "train.lr: 0.001 here, 0.5 there");
	run_release(&r);
	spec = mine;
	spec_free(other);
}

static void one_process_serves_a_folder(void **state)
{
	(void)state;
	struct run r, second;
	struct why why;
	must_open(&r, true);
	assert_int_equal(open_run(&second, true, &why), ERR_busy);
	run_release(&second);
	must_open(&second, false); /* looking is allowed */
	run_release(&second);
	run_release(&r);
}

static void lost_keys_are_named(void **state)
{
	(void)state;
	struct run r;
	struct why why;
	assert_int_equal(unlink(help_coordinator_path("run/keys/run.key")), 0);
	assert_int_equal(open_run(&r, true, &why), ERR_missing);
	help_coordinator_told(&why, ERR_missing, "put the keys back from their backup");
	run_release(&r);
	const struct run_config none = {.dir = help_coordinator_path("nothing")};
	assert_int_equal(run_open(&none, &r, &why), ERR_missing);
	help_coordinator_told(&why, ERR_missing, "holds no run");
	run_release(&r);
	assert_false(file_exists(help_coordinator_path("nothing")));
}

static void note_oldest(void *arg, const struct store_snapshot *s)
{
	*(struct store_snapshot *)arg = *s;
}

static enum err replay_all(const struct run *r, struct why *why)
{
	const struct replay replay = run_replay(r);
	struct store_snapshot from = {0};
	enum err err = store_snapshot_list(r->store, note_oldest, &from, why);
	for (uint32_t i = 0; !err && i < r->files.n_shards; i++) {
		struct shardstate s = {0};
		err = shardstate_init(&s, i, r->files.n[i], r->exchange.rule.row);
		if (!err)
			err = replay_begin(&replay, &from, &s, why);
		if (!err)
			err = replay_shard(&replay, &s, run_head(r).round, why);
		struct hash have = err ? (struct hash){{0}} : shardstate_hash(&s),
			    want = ledger_state(r->ledger, i);
		if (!err)
			assert_memory_equal(&have, &want, sizeof have);
		shardstate_release(&s);
	}
	return err;
}

static void a_replay_names_the_first_difference(void **state)
{
	(void)state;
	struct run r;
	struct why why;
	struct store_entry e;
	must_open(&r, false);
	if (replay_all(&r, &why))
		fail_msg("%s", why.text);
	/* the record of round 4, shard 1 */
	assert_int_equal(store_entry_find(r.store, 8, &e, &why), ERR_OK);
	char *path = blob_path(r.blobs, &e.record);
	damage(path);
	free(path);
	assert_int_equal(replay_all(&r, &why), ERR_hash);
	help_coordinator_told(&why, ERR_hash, "ledger entry 8 (round 4, shard 1)");
	run_release(&r);
}

/* The files' own snapshots are those of a replica in memory. */
static void snapshots_are_what_peers_read(void **state)
{
	(void)state;
	struct run r;
	struct why why;
	struct statefile *file = NULL;
	struct replica *replica = NULL;
	struct ledger_head head;
	must_open(&r, false);
	size_t n[2] = {r.files.n[0], r.files.n[1]};
	const struct replica_shape shape = {.rule = r.exchange.rule, .n_shards = 2, .n = n};
	assert_int_equal(replica_new(&shape, &replica), ERR_OK);
	char *path = snapshot_path(r.dir, 3);
	assert_int_equal(statefile_open(path, "snapshot", &spec->id, &file, &why), ERR_OK);
	assert_int_equal(replica_load(replica, file, &head, &why), ERR_OK);
	assert_int_equal(head.round, 3);
	assert_int_equal(head.sequence, 6);
	assert_true(run_knows(&r, 6, &head.hash));
	struct store_entry e;
	assert_int_equal(store_entry_find(r.store, 6, &e, &why), ERR_OK);
	struct hash have = replica_hash(replica, 1);
	assert_memory_equal(&have, &e.state, sizeof have);
	statefile_close(file);
	free(path);
	replica_free(replica);
	run_release(&r);
}

static bool shard_in(const struct hub *h)
{
	return h->members[MEMBERS_FIRST].arrived[0].have;
}

static void find_blob(void *arg, const struct store_contribution *c)
{
	*(struct hash *)arg = c->blob;
}

static void a_damaged_contribution_is_asked_for_again(void **state)
{
	(void)state;
	struct hub h;
	struct hash blob;
	struct why why;
	help_coordinator_open(&h, spec);
	for (uint32_t i = 0; i < HELP_COORDINATOR_MEMBERS; i++)
		help_coordinator_hello(&h, i);
	help_coordinator_contribute(&h, 0, 0);
	help_coordinator_until(&h, shard_in);
	assert_int_equal(store_contribution_list(h.run.store, find_blob, &blob, &why), ERR_OK);
	char *path = blob_path(h.run.blobs, &blob);
	hub_close(&h);
	damage(path);
	free(path);
	help_coordinator_open(&h, spec);
	assert_false(h.members[MEMBERS_FIRST].arrived[0].have);
	help_coordinator_play(&h, 7);
	hub_close(&h);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, made, unmade)

int main(void)
{
	struct why why;
	if (log_select("0", &why))
		return 1;
	const struct CMUnitTest tests[] = {
		TEST(a_damaged_shard_is_made_again),
		TEST(what_cannot_be_mended_is_said),
		TEST(what_a_death_left_is_removed),
		TEST(another_spec_is_refused_with_the_difference),
		TEST(one_process_serves_a_folder),
		TEST(lost_keys_are_named),
		TEST(a_replay_names_the_first_difference),
		TEST(snapshots_are_what_peers_read),
		TEST(a_damaged_contribution_is_asked_for_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
