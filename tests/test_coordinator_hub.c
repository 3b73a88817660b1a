/* The whole coordinator but for its sockets' other ends: rounds, restarts, sudden death, liars. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "coordinator/failpoint.h"
#include "round/object.h"
#include "tests/help_coordinator.h"

static void rounds_are_played_and_survive_a_restart(void **state)
{
	(void)state;
	struct spec *spec = help_coordinator_spec();
	struct hub h;
	help_coordinator_open(&h, spec);
	help_coordinator_play(&h, 4);
	help_coordinator_balances(&h);
	struct ledger_head head = run_head(&h.run);
	struct hash all = run_state(&h.run);
	assert_int_equal(head.round, 4);
	assert_int_equal(head.sequence, 8);
	assert_int_equal(ledger_tokens(h.run.ledger), 4 * 96);
	assert_true(h.have_loss);
	hub_close(&h);
	help_coordinator_open(&h, spec);
	struct hash again = run_state(&h.run);
	assert_int_equal(run_head(&h.run).sequence, 8);
	assert_memory_equal(&again, &all, sizeof all);
	help_coordinator_balances(&h);
	help_coordinator_play(&h, 6);
	help_coordinator_balances(&h);
	hub_close(&h);
	spec_free(spec);
}

/* The head after 9 rounds, as nobody disturbed them. */
static struct hash undisturbed(const struct spec *spec)
{
	struct hub h;
	help_coordinator_open(&h, spec);
	help_coordinator_play(&h, 9);
	struct hash hash = run_head(&h.run).hash;
	hub_close(&h);
	return hash;
}

/* In a process of its own, which is killed on the way. */
static int play_in_child(const struct spec *spec, const char *point, uint64_t round)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct hub h;
		failpoint_wish(point);
		help_coordinator_open(&h, spec);
		help_coordinator_play(&h, round);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* Twice at the first such moment, then at the fifth (if there is one). */
static void die_at(const struct spec *spec, const char *point)
{
	for (int n = 0; n < 3; n++) {
		char name[32];
		snprintf(name, sizeof name, "%s:%d", point, n < 2 ? 1 : 5);
		int status = play_in_child(spec, name, 8);
		if ((n < 2 || status) && (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL))
			fail_msg("%s was not passed: status %d", name, status);
	}
}

static const char *const points[] = {
#define X(name) #name,
	FAILPOINT_LIST(X)
#undef X
};

static void killed_anywhere_it_ends_the_same(void **state)
{
	(void)state;
	struct spec *spec = help_coordinator_spec();
	struct hash calm = undisturbed(spec);
	assert_int_equal(rename(help_coordinator_path("run"), help_coordinator_path("calm")), 0);
	for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
		struct hub h;
		die_at(spec, points[i]);
		help_coordinator_open(&h, spec);
		help_coordinator_balances(&h);
		help_coordinator_play(&h, 9);
		help_coordinator_balances(&h);
		struct hash hash = run_head(&h.run).hash;
		if (!hash_equal(&hash, &calm))
			fail_msg("%s: another head", points[i]);
		hub_close(&h);
		assert_int_equal(
			rename(help_coordinator_path("run"), help_coordinator_path(points[i])), 0);
	}
	spec_free(spec);
}

/* Where shards take turns the same numbers are in several places at once. */
static void killed_anywhere_streams_balance(void **state)
{
	(void)state;
	struct spec *spec = help_coordinator_spec_of("\"mode\":\"timed\",\"seconds\":10,"
						     "\"fragments\":2");
	for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
		struct hub h;
		struct why why;
		die_at(spec, points[i]);
		help_coordinator_open(&h, spec);
		help_coordinator_balances(&h);
		help_coordinator_play(&h, 9);
		help_coordinator_balances(&h);
		for (uint32_t s = 0; s < h.run.files.n_shards; s++) {
			struct shardstate now;
			if (shardfile_load(&h.run.files, s, 9, &now, &why))
				fail_msg("%s", why.text);
			struct hash have = shardstate_hash(&now),
				    want = ledger_state(h.run.ledger, s);
			assert_memory_equal(&have, &want, sizeof have);
			shardstate_release(&now);
		}
		hub_close(&h);
		assert_int_equal(
			rename(help_coordinator_path("run"), help_coordinator_path(points[i])), 0);
	}
	spec_free(spec);
}

static bool second_round_is_closed(const struct hub *h)
{
	return run_head(&h->run).round == 2;
}

static bool first_round_is_closed(const struct hub *h)
{
	return run_head(&h->run).round == 1;
}

static void contribute_all(struct hub *h)
{
	for (uint32_t i = 0; i < HELP_COORDINATOR_MEMBERS; i++)
		for (uint32_t s = 0; s < h->run.files.n_shards; s++)
			help_coordinator_contribute(h, i, s);
}

/* Rounds go on meanwhile; the loss is that of the state that was asked about. */
static void a_loss_may_take_longer_than_a_round(void **state)
{
	(void)state;
	struct spec *spec = help_coordinator_spec_of("\"mode\":\"timed\",\"seconds\":10");
	struct hub h;
	help_coordinator_open(&h, spec);
	for (uint32_t i = 0; i < HELP_COORDINATOR_MEMBERS; i++)
		help_coordinator_hello(&h, i);
	const uint32_t asked = h.validator;
	assert_int_not_equal(asked, MEMBERS_NONE);
	contribute_all(&h);
	help_coordinator_until(&h, first_round_is_closed);
	contribute_all(&h);
	help_coordinator_until(&h, second_round_is_closed);
	assert_int_equal(h.validator, asked);
	assert_true(ledger_tokens(h.run.ledger) > 0);
	shoal_header v = {.which_body = MSG_validation};
	v.body.validation.round = 0;
	v.body.validation.nats_per_token = v.body.validation.nats_per_byte = 5;
	v.body.validation.tokens = 100;
	help_coordinator_message(&h, asked - MEMBERS_FIRST, &v);
	assert_true(h.have_loss);
	assert_int_equal(h.last_loss.round, 0);
	assert_int_equal(h.last_loss.tokens, 0);
	assert_int_equal(h.refusals, 0);
	hub_close(&h);
	spec_free(spec);
}

/* Who claims to be where nobody can be hears why, is named to nobody, and takes part. */
static void an_address_that_is_nowhere_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {"0.0.0.0:7435", "224.0.0.1:7435", "255.255.255.255:7435",
		"169.254.1.1:7435", "[fe80::1]:7435", "10.0.0.1:0", "no address"};
	struct spec *spec = help_coordinator_spec();
	struct hub h;
	help_coordinator_open(&h, spec);
	const struct hub_member *m =
		hub_member(&h, members_by_link(h.run.members, help_coordinator_link(1)));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		help_coordinator_hello_at(&h, 1, bad[i]);
		assert_int_equal(m->refusals, i + 1);
		assert_true(m->linked && !*m->address);
	}
	help_coordinator_hello_at(&h, 1, "10.0.0.1:7435");
	assert_string_equal(m->address, "10.0.0.1:7435");
	assert_int_equal(m->refusals, sizeof bad / sizeof *bad);
	hub_close(&h);
	spec_free(spec);
}

static void want_after(struct hub *h, uint32_t i, uint64_t sequence)
{
	shoal_header header = {.which_body = MSG_want};
	header.body.want.kind = OBJECT_record;
	header.body.want.offset = sequence;
	help_coordinator_message(h, i, &header);
}

/* Who is a few rounds behind and asks is sent all that it lacks, and the next ones; not twice. */
static void records_that_are_wanted_are_pushed(void **state)
{
	(void)state;
	struct spec *spec = help_coordinator_spec();
	struct hub h;
	help_coordinator_open(&h, spec);
	help_coordinator_play(&h, 4);
	struct hub_member *m =
		hub_member(&h, members_by_link(h.run.members, help_coordinator_link(1)));
	help_coordinator_lost(&h, 1);
	help_coordinator_hello(&h, 1);
	m->following = false;
	want_after(&h, 1, 8); /* it has all */
	assert_int_equal(m->n_owed, 0);
	assert_false(m->following);
	m->wanted_ns = 0;
	want_after(&h, 1, 2);
	assert_int_equal(m->n_owed, 6);
	assert_true(m->following);
	m->wanted_ns = 0;
	want_after(&h, 1, 0);
	assert_int_equal(m->n_owed, 6);
	help_coordinator_lost(&h, 1);
	assert_int_equal(m->n_owed, 0);
	hub_close(&h);
	spec_free(spec);
}

int main(void)
{
	struct why why;
	if (log_select("0", &why))
		return 1;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rounds_are_played_and_survive_a_restart,
			help_coordinator_setup, help_coordinator_teardown),
		cmocka_unit_test_setup_teardown(killed_anywhere_it_ends_the_same,
			help_coordinator_setup, help_coordinator_teardown),
		cmocka_unit_test_setup_teardown(records_that_are_wanted_are_pushed,
			help_coordinator_setup, help_coordinator_teardown),
		cmocka_unit_test_setup_teardown(a_loss_may_take_longer_than_a_round,
			help_coordinator_setup, help_coordinator_teardown),
		cmocka_unit_test_setup_teardown(killed_anywhere_streams_balance,
			help_coordinator_setup, help_coordinator_teardown),
		cmocka_unit_test_setup_teardown(an_address_that_is_nowhere_is_refused,
			help_coordinator_setup, help_coordinator_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
