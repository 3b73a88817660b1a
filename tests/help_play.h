/* Rounds of a peer's control loop on the stage: what tests of it begin and end with. */
#ifndef TESTS_HELP_PLAY_H
#define TESTS_HELP_PLAY_H
#include "tests/help_stage.h"

#define STEPS 3

static struct stage s;

/* It has joined, and stands at the head. */
static inline void begin(void)
{
	stage_start_peer(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
}

static inline void contributed(unsigned shards)
{
	STAGE_UNTIL(&s, s.contributions >= shards || s.refused);
	if (s.refused)
		fail_msg("%s", s.why.text);
}

static inline void end(void)
{
	stage_end(&s);
	stage_wait_peer(&s, ERR_OK);
	assert_string_equal(s.bye, "the run has ended");
	stage_release(&s);
}

/* A round from plan to report, records first. */
static inline void play(void)
{
	const size_t from = s.ledger.n;
	const unsigned before = s.contributions;
	stage_plan(&s, STEPS);
	contributed(before + 2);
	stage_close(&s);
	stage_push(&s, from);
	stage_send_head(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, help_peer_setup, help_peer_teardown)

#endif
