/* Scenario files: what they say, and every mistake by its path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "sim/scenario.h"
#include "tests/help_sim.h"

#define GOOD "\"count\":2,\"speed\":100,\"up\":1,\"down\":2"

static void groups_are_numbered_from_one(void **state)
{
	(void)state;
	struct scenario s;
	struct why why;
	const char *path = help_sim_scenario(
		"\"rounds\":7,\"coordinator\":{\"up\":50},"
		"\"peers\":[{" GOOD ",\"rtt_ms\":40},{" GOOD ",\"joins_s\":9,\"liar\":\"zero\","
		"\"churn\":{\"dies_every_s\":60,\"back_after_s\":5}}]");
	help_sim_fine(scenario_load(path, &s, &why), &why);
	assert_int_equal(s.rounds, 7);
	assert_int_equal(s.peers, 4);
	assert_true(s.up == 50e6 && s.down == 1000e6);
	assert_ptr_equal(scenario_member(&s, 2), &s.groups[0]);
	assert_ptr_equal(scenario_member(&s, 3), &s.groups[1]);
	assert_null(scenario_member(&s, 5));
	assert_true(s.groups[0].rtt_s == 0.04 && s.groups[0].up == 1e6);
	assert_true(s.groups[1].dies_every_s == 60 && s.groups[1].back_after_s == 5);
	assert_int_equal(s.groups[1].lie, LIE_zero);
	/* beside the file, not where the process is */
	assert_int_equal(s.spec[0], '/');
	assert_non_null(strstr(s.spec, "/run.json"));
	scenario_release(&s);
}

static void every_mistake_is_named(void **state)
{
	(void)state;
	static const struct {
		const char *rest, *says;
	} bad[] = {
		{"\"x\":1,\"peers\":[{" GOOD "}]", "x"},
		{"\"rounds\":0,\"peers\":[{" GOOD "}]", "rounds"},
		{"\"peers\":[]", "peers"},
		{"\"rounds\":5", "peers"},
		{"\"peers\":[3]", "peers[0]"},
		{"\"peers\":[{" GOOD "},{\"speed\":1,\"up\":1,\"down\":1}]", "peers[1].count"},
		{"\"peers\":[{\"count\":1,\"speed\":0,\"up\":1,\"down\":1}]", "peers[0].speed"},
		{"\"peers\":[{\"count\":1,\"speed\":1,\"up\":0,\"down\":1}]", "peers[0].up"},
		{"\"peers\":[{" GOOD ",\"liar\":\"rude\"}]", "peers[0].liar"},
		{"\"peers\":[{" GOOD ",\"rtt\":1}]", "peers[0].rtt"},
		{"\"peers\":[{" GOOD ",\"churn\":{}}]", "peers[0].churn.dies_every_s"},
		{"\"peers\":[{" GOOD "}],\"coordinator\":{\"up\":-1}", "coordinator.up"},
		{"\"peers\":[{" GOOD "}],\"coordinator\":{\"upp\":1}", "coordinator.upp"},
		{"\"peers\":[{\"count\":9000,\"speed\":1,\"up\":1,\"down\":1},"
		 "{\"count\":9000,\"speed\":1,\"up\":1,\"down\":1}]",
			"18000 together"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct scenario s;
		struct why why = {0};
		assert_int_equal(
			scenario_load(help_sim_scenario(bad[i].rest), &s, &why), ERR_syntax);
		if (!strstr(why.text, bad[i].says))
			fail_msg("\"%s\" does not name %s", why.text, bad[i].says);
		scenario_release(&s);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, help_sim_setup, help_sim_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(groups_are_numbered_from_one),
		TEST(every_mistake_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
