/* The store: what comes back, what is refused, what a failed transaction leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "coordinator/store.h"
#include "coordinator/store_sql.h"
#include "tests/help_coordinator.h"

static struct store *open_store(void)
{
	struct store *s = NULL;
	struct why why;
	if (store_open(help_coordinator_path("store.sqlite"), &s, &why))
		fail_msg("%s", why.text);
	return s;
}

static void commit(struct store *s)
{
	struct why why;
	if (store_commit(s, &why))
		fail_msg("%s", why.text);
}

static void facts_come_back(void **state)
{
	(void)state;
	struct store *s = open_store();
	struct why why;
	uint8_t *bytes;
	size_t n;
	uint64_t v;
	assert_int_equal(store_get(s, "x", &bytes, &n, &why), ERR_missing);
	assert_null(bytes);
	assert_int_equal(store_get_number(s, "n", 7, &v, &why), ERR_OK);
	assert_int_equal(v, 7);
	store_begin(s);
	store_put(s, "x", "a\0b", 3);
	store_put(s, "empty", NULL, 0);
	store_put_number(s, "n", UINT64_MAX);
	commit(s);
	store_close(s);
	s = open_store();
	assert_int_equal(store_get(s, "x", &bytes, &n, &why), ERR_OK);
	assert_int_equal(n, 3);
	assert_memory_equal(bytes, "a\0b\0", 4);
	free(bytes);
	assert_int_equal(store_get(s, "empty", &bytes, &n, &why), ERR_OK);
	assert_int_equal(n, 0);
	free(bytes);
	assert_int_equal(store_get_number(s, "n", 7, &v, &why), ERR_OK);
	assert_true(v == UINT64_MAX);
	store_close(s);
	store_close(NULL);
}

static void count_member(void *arg, const struct store_member *m)
{
	uint32_t *sum = arg;
	*sum += m->number + 100 * m->removed;
}

static void count_invite(void *arg, const struct store_invite *i)
{
	struct store_invite *last = arg;
	*last = *i;
}

static void members_and_invites(void **state)
{
	(void)state;
	struct store *s = open_store();
	struct why why;
	struct store_member m = {.number = 1, .sign = {1}, .curve = {2}, .name = "one"};
	struct store_invite i = {.id = "0123456789abcdef", .uses = 2, .expires_s = 9}, found;
	uint32_t sum = 0;
	bool bound;
	store_begin(s);
	store_member_put(s, &m);
	m = (struct store_member){.number = 2, .sign = {3}, .curve = {4}, .name = "two"};
	store_member_put(s, &m);
	m.removed = true;
	store_member_put(s, &m);
	store_invite_add(s, &i);
	store_invite_use(s, i.id, m.sign);
	store_invite_use(s, i.id, m.sign); /* the same key: one use */
	commit(s);
	assert_int_equal(store_member_list(s, count_member, &sum, &why), ERR_OK);
	assert_int_equal(sum, 103);
	assert_int_equal(store_invite_find(s, i.id, &found, &why), ERR_OK);
	assert_int_equal(found.used, 1);
	assert_int_equal(found.expires_s, 9);
	assert_int_equal(store_invite_find(s, "other", &found, &why), ERR_missing);
	assert_int_equal(store_invite_bound(s, i.id, m.sign, &bound, &why), ERR_OK);
	assert_true(bound);
	assert_int_equal(store_invite_bound(s, i.id, m.curve, &bound, &why), ERR_OK);
	assert_false(bound);
	store_begin(s);
	store_invite_revoke(s, i.id);
	commit(s);
	assert_int_equal(store_invite_list(s, count_invite, &found, &why), ERR_OK);
	assert_true(found.revoked);

	/* a key is one member's only; nothing of the transaction happens */
	m = (struct store_member){.number = 3, .sign = {1}, .curve = {9}, .name = "thief"};
	store_begin(s);
	store_put_number(s, "seen", 1);
	store_member_put(s, &m);
	store_put_number(s, "seen", 2);
	assert_int_equal(store_commit(s, &why), ERR_exists);
	uint64_t seen;
	assert_int_equal(store_get_number(s, "seen", 0, &seen, &why), ERR_OK);
	assert_int_equal(seen, 0);
	store_close(s);
}

static void take_plan(void *arg, const struct store_plan *p)
{
	*(struct store_plan *)arg = *p;
}

static void count_contribution(void *arg, const struct store_contribution *c)
{
	uint64_t *sum = arg;
	*sum = *sum * 10 + c->shard * 3 + c->peer;
}

static void the_open_round(void **state)
{
	(void)state;
	struct store *s = open_store();
	struct why why;
	const struct store_plan p = {
		.round = 4, .member = 7, .steps = 5, .n_spans = 2, .spans = {{1, 3}, {9, 12}}};
	struct store_plan got = {0};
	struct store_contribution c = {.shard = 1, .peer = 2, .round = 4, .sequences = 5};
	const struct span pool[] = {{3, 5}, {12, 99}};
	struct span *spans;
	size_t n;
	uint64_t order = 0;
	store_begin(s);
	store_plan_add(s, &p);
	store_contribution_add(s, &c);
	c.shard = 0;
	store_contribution_add(s, &c);
	c.peer = 1;
	store_contribution_add(s, &c);
	store_pool_put(s, pool, 2);
	commit(s);
	assert_int_equal(store_plan_list(s, take_plan, &got, &why), ERR_OK);
	assert_memory_equal(&got, &p, sizeof p);
	assert_int_equal(store_contribution_list(s, count_contribution, &order, &why), ERR_OK);
	assert_int_equal(order, 125); /* (0,1) (0,2) (1,2) */
	assert_int_equal(store_pool_get(s, &spans, &n, &why), ERR_OK);
	assert_int_equal(n, 2);
	assert_memory_equal(spans, pool, sizeof pool);
	free(spans);
	store_begin(s);
	store_contribution_add(s, &c);
	assert_int_equal(store_commit(s, &why), ERR_exists); /* once for each shard */
	store_begin(s);
	store_contribution_remove(s, 2);
	store_plan_remove(s, 7);
	store_pool_put(s, NULL, 0);
	commit(s);
	order = 0;
	got = (struct store_plan){0};
	assert_int_equal(store_contribution_list(s, count_contribution, &order, &why), ERR_OK);
	assert_int_equal(order, 1);
	assert_int_equal(store_plan_list(s, take_plan, &got, &why), ERR_OK);
	assert_int_equal(got.round, 0);
	assert_int_equal(store_pool_get(s, &spans, &n, &why), ERR_OK);
	assert_int_equal(n, 0);
	free(spans);
	store_close(s);
}

static void take_contribution(void *arg, const struct store_contribution *c)
{
	*(struct store_contribution *)arg = *c;
}

/* First somebody else has its bytes, then they come here. */
static void a_contribution_moves(void **state)
{
	(void)state;
	struct store *s = open_store();
	struct why why;
	struct store_contribution c = {.shard = 1,
					  .peer = 2,
					  .round = 4,
					  .sequences = 5,
					  .bytes = 99,
					  .id = {{1}},
					  .via = 7,
					  .tokens = 40,
					  .planes = {{3}}},
				  got = {0};
	store_begin(s);
	store_contribution_add(s, &c);
	commit(s);
	assert_int_equal(store_contribution_list(s, take_contribution, &got, &why), ERR_OK);
	assert_memory_equal(&got, &c, sizeof c);
	c.blob = (struct hash){{2}};
	c.via = STORE_HERE;
	c.bytes = 100;
	store_begin(s);
	store_contribution_move(s, &c);
	commit(s);
	assert_int_equal(store_contribution_list(s, take_contribution, &got, &why), ERR_OK);
	assert_memory_equal(&got, &c, sizeof c);
	store_close(s);
}

/* As the layout before this one had it. */
static void an_older_store_is_brought_up_to_date(void **state)
{
	(void)state;
	struct store *s = open_store();
	struct store_contribution got = {0};
	struct why why;
	const char *const old =
		"DROP TABLE contribution;"
		"CREATE TABLE contribution (shard INTEGER NOT NULL, peer INTEGER NOT NULL,"
		" round INTEGER NOT NULL, sequences INTEGER NOT NULL, bytes INTEGER NOT NULL,"
		" id BLOB NOT NULL, blob BLOB NOT NULL, PRIMARY KEY (shard, peer)) WITHOUT ROWID;"
		"INSERT INTO contribution VALUES (1, 2, 4, 5, 99, x'01', x'02');"
		"PRAGMA user_version = 2;";
	assert_int_equal(sqlite3_exec(s->db, old, NULL, NULL, NULL), SQLITE_OK);
	store_close(s);
	for (int i = 0; i < 2; i++) {
		s = open_store();
		assert_int_equal(store_contribution_list(s, take_contribution, &got, &why), ERR_OK);
		assert_int_equal(got.peer, 2);
		assert_int_equal(got.blob.b[0], 2);
		assert_int_equal(got.via, STORE_HERE);
		assert_true(hash_is_zero(&got.planes));
		store_close(s);
	}
}

/* A sequence number that is in neither plan, pool nor ledger is lost for the run. */
static void a_pool_is_stored_whole_or_not_at_all(void **state)
{
	(void)state;
	struct store *s = open_store();
	const size_t too_many = STORE_FACT_MAX / sizeof(struct span) + 1;
	struct span *pool = calloc(too_many, sizeof *pool), *back = NULL;
	struct why why;
	size_t n;
	pool[0] = (struct span){3, 5};
	store_begin(s);
	store_pool_put(s, pool, 1);
	commit(s);
	store_begin(s);
	store_pool_put(s, pool, too_many);
	assert_int_equal(store_commit(s, &why), ERR_nomem);
	store_begin(s);
	alloc_fail_at(1);
	store_pool_put(s, pool, 1);
	alloc_fail_at(0);
	assert_int_equal(store_commit(s, &why), ERR_nomem);
	assert_int_equal(store_pool_get(s, &back, &n, &why), ERR_OK);
	assert_int_equal(n, 1);
	assert_memory_equal(back, pool, sizeof *back);
	free(back);
	free(pool);
	store_close(s);
}

static void count_entry(void *arg, const struct store_entry *e)
{
	uint64_t *sum = arg;
	*sum = *sum * 10 + e->sequence;
	assert_memory_equal(e->entry, "bytes", e->entry_len);
	assert_int_equal(e->entry_len, 5);
}

static void count_refusal(void *arg, const struct store_refusal *r)
{
	uint64_t *n = arg;
	if (!*n)
		assert_int_equal(r->round, 499); /* newest first */
	(*n)++;
}

static void count_code(void *arg, enum err code, uint64_t count)
{
	uint64_t *n = arg;
	assert_int_equal(code, ERR_tokens);
	*n += count;
}

static void add_loss(void *arg, const struct store_round *r)
{
	*(double *)arg += r->nats_per_byte;
}

static void count_input(void *arg, const struct hash *blob)
{
	uint64_t *sum = arg;
	*sum = *sum * 10 + blob->b[0];
}

/* What updates were merged from is there until its entry's record goes. */
static void inputs_of_merged_updates(void **state)
{
	(void)state;
	struct store *s = open_store();
	struct why why;
	uint64_t seen = 0;
	store_begin(s);
	for (uint8_t i = 1; i <= 6; i++)
		store_input_add(s, 10 + i / 2, &(struct hash){{i}});
	store_input_add(s, 13, &(struct hash){{6}}); /* the same once more */
	commit(s);
	assert_int_equal(store_input_list(s, 11, count_input, &seen, &why), ERR_OK);
	assert_int_equal(seen, 123);
	store_begin(s);
	store_input_remove(s, 11);
	commit(s);
	seen = 0;
	assert_int_equal(store_input_list(s, INT64_MAX, count_input, &seen, &why), ERR_OK);
	assert_int_equal(seen, 456);
	store_close(s);
}

static void history(void **state)
{
	(void)state;
	struct store *s = open_store();
	struct why why;
	struct store_entry e = {.entry = (const uint8_t *)"bytes", .entry_len = 5, .shard = 1};
	struct store_refusal r = {.code = ERR_tokens, .what = "contribution", .text = "too many"};
	struct store_round row = {
		.members = 2, .merged = 3, .bytes_up = 10, .bytes_down = 7, .nats_per_byte = 1.25};
	struct store_round_sum total;
	uint64_t sum = 0, n = 0, counted = 0;
	store_begin(s);
	for (e.sequence = 1; e.sequence <= 5; e.sequence++)
		store_entry_add(s, &e);
	for (row.round = 1; row.round <= 3; row.round++)
		store_round_add(s, &row);
	for (r.round = 0; r.round < 500; r.round++)
		store_refusal_add(s, &r);
	commit(s);
	assert_int_equal(
		store_entry_list(s, &(struct store_range){2, 2}, count_entry, &sum, &why), ERR_OK);
	assert_int_equal(sum, 34);
	assert_int_equal(store_entry_find(s, 5, &e, &why), ERR_OK);
	assert_int_equal(e.shard, 1);
	assert_null(e.entry);
	assert_int_equal(store_entry_find(s, 6, &e, &why), ERR_missing);
	assert_int_equal(store_refusal_list(s, count_refusal, &n, &why), ERR_OK);
	assert_int_equal(n, STORE_REFUSALS);
	assert_int_equal(store_refusal_counts(s, count_code, &counted, &why), ERR_OK);
	assert_int_equal(counted, 500);
	double nats = 0;
	assert_int_equal(
		store_round_list(s, &(struct store_range){1, 5}, add_loss, &nats, &why), ERR_OK);
	assert_float_equal(nats, 2 * 1.25, 0);
	assert_int_equal(store_round_total(s, &total, &why), ERR_OK);
	assert_int_equal(total.rounds, 3);
	assert_int_equal(total.members, 6);
	assert_int_equal(total.bytes_up, 30);
	assert_int_equal(total.merged, 9);
	store_close(s);
}

static enum err try_open(const char *name, struct why *why)
{
	struct store *s;
	enum err err = store_open(help_coordinator_path(name), &s, why);
	assert_true(err || s);
	store_close(s);
	return err;
}

static void what_is_not_ours_is_refused(void **state)
{
	(void)state;
	struct why why;
	struct store *s = open_store();
	sqlite3_exec(s->db, "PRAGMA user_version = 99", NULL, NULL, NULL);
	store_close(s);
	try_open("store.sqlite", &why);
	help_coordinator_told(&why, ERR_version, "layout 99");

	const char *other = help_coordinator_path("other.sqlite");
	sqlite3 *db;
	assert_int_equal(sqlite3_open(other, &db), SQLITE_OK);
	sqlite3_exec(db, "CREATE TABLE t (x)", NULL, NULL, NULL);
	sqlite3_close(db);
	try_open("other.sqlite", &why);
	help_coordinator_told(&why, ERR_magic, "another program's");

	static const char junk[4096] = "this is no database, whatever its name says";
	assert_int_equal(
		file_write(help_coordinator_path("junk.sqlite"), junk, sizeof junk, 0600, &why),
		ERR_OK);
	try_open("junk.sqlite", &why);
	help_coordinator_told(&why, ERR_magic, "not a coordinator's database");

	try_open("no/such/folder", &why);
	help_coordinator_told(&why, ERR_permission, "no/such/folder");
}

static void a_full_disk_loses_nothing(void **state)
{
	(void)state;
	struct why why;
	static char much[1 << 20];
	struct store *s = open_store();
	uint8_t *bytes;
	size_t n;
	store_begin(s);
	store_put(s, "kept", "yes", 3);
	commit(s);
	sqlite3_exec(s->db, "PRAGMA max_page_count = 40", NULL, NULL, NULL);
	store_begin(s);
	store_put(s, "kept", "no", 2);
	store_put(s, "much", much, sizeof much);
	assert_int_equal(store_commit(s, &why), ERR_full);
	help_coordinator_told(&why, ERR_full, "the disk of");
	assert_int_equal(store_get(s, "kept", &bytes, &n, &why), ERR_OK);
	assert_string_equal((const char *)bytes, "yes");
	free(bytes);
	/* and goes on when there is room again */
	sqlite3_exec(s->db, "PRAGMA max_page_count = 10000", NULL, NULL, NULL);
	store_begin(s);
	store_put(s, "much", much, sizeof much);
	commit(s);
	store_close(s);
}

/* Another process writes at the same time: invites while a run is served. */
static void two_processes_share_it(void **state)
{
	(void)state;
	struct store *s = open_store();
	struct why why;
	const struct store_invite i = {.id = "ffffffffffffffff"};
	struct store_invite found;
	const char *path = help_coordinator_path("store.sqlite");
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct store *other;
		if (store_open(path, &other, &why))
			_exit(1);
		store_begin(other);
		store_invite_add(other, &i);
		_exit(store_commit(other, &why) ? 2 : 0);
	}
	for (int k = 0; k < 50; k++) {
		store_begin(s);
		store_put_number(s, "k", (uint64_t)k);
		commit(s);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(store_invite_find(s, i.id, &found, &why), ERR_OK);
	store_close(s);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, help_coordinator_setup, help_coordinator_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(facts_come_back),
		TEST(members_and_invites),
		TEST(the_open_round),
		TEST(a_contribution_moves),
		TEST(an_older_store_is_brought_up_to_date),
		TEST(a_pool_is_stored_whole_or_not_at_all),
		TEST(inputs_of_merged_updates),
		TEST(history),
		TEST(what_is_not_ours_is_refused),
		TEST(a_full_disk_loses_nothing),
		TEST(two_processes_share_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
