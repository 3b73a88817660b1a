/*
 * The control loop of a peer against a coordinator that says things early, late, twice, in the
 * wrong order, or not at all.
 */
#include "tests/help_play.h"
#include <sys/stat.h>

#define MANY 100000 /* steps that no test waits for */

/* ---- in order */

static void a_life(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	assert_int_equal(s.joins, 1);
	assert_int_equal(s.states, 1);
	for (int i = 0; i < 3; i++)
		play();
	assert_int_equal(s.lists, 0); /* nothing had to be fetched */
	/* the last plan asks for the loss only */
	help_peer_plans(&s.p, 0, &s.plan, 1);
	s.plan.n_spans = 0;
	s.plan.validate = true;
	stage_send_plan(&s);
	STAGE_UNTIL(&s, s.validations == 1);
	assert_int_equal(s.validated, 3);
	/* it waits, and says why */
	STAGE_UNTIL(&s, strstr(s.reason, "waiting for the coordinator to open a round"));
	assert_int_equal(s.doing, shoal_state_ready);
	/* the snapshot has served; the link is kept for coming back, with its invite, for the user
	 * only
	 */
	char hex[HASH_HEX], name[100];
	struct stat st;
	hash_hex(&s.snapshot.blob, hex);
	snprintf(name, sizeof name, "peer/snapshot/%s", hex);
	assert_false(file_exists(help_peer_path(name)));
	assert_int_equal(stat(help_peer_path("peer/join.link"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	end();
	assert_int_equal(s.byes, 1);
}

static void coming_back_it_goes_on_from_its_own_state(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	play();
	play();
	stage_end(&s);
	stage_wait_peer(&s, ERR_OK);
	s.reports = 0;
	begin();
	assert_int_equal(s.hello_sequence, 4);
	assert_int_equal(s.states, 1); /* no snapshot again */
	play();
	end();
}

/* ---- out of order */

static void a_head_comes_before_its_records(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	stage_plan(&s, STEPS);
	contributed(2);
	stage_close(&s);
	stage_send_head(&s);
	STAGE_UNTIL(&s, strstr(s.reason, "are on their way"));
	stage_push(&s, 1); /* the second first */
	STAGE_UNTIL(&s, s.delivered == 1);
	stage_push(&s, 0);
	STAGE_UNTIL(&s, stage_at_head(&s));
	assert_int_equal(s.lists, 0);
	end();
}

static void records_come_twice_and_before_their_head(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	stage_plan(&s, STEPS);
	contributed(2);
	stage_close(&s);
	stage_push(&s, 0);
	STAGE_UNTIL(&s, s.delivered == 2);
	stage_push(&s, 0);
	STAGE_UNTIL(&s, s.delivered == 4);
	stage_send_head(&s);
	stage_send_head(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	stage_push(&s, 0); /* and once more, when they are past */
	STAGE_UNTIL(&s, s.delivered == 6);
	play();
	end();
}

/* The next plan is said in the same breath as the head. */
static void a_plan_comes_while_it_applies(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	for (unsigned round = 1; round <= 4; round++) {
		stage_plan(&s, STEPS);
		contributed(2 * round);
		const size_t from = s.ledger.n;
		stage_close(&s);
		stage_push(&s, from);
		stage_send_head(&s);
	}
	STAGE_UNTIL(&s, stage_at_head(&s));
	end();
}

static void a_plan_said_twice_is_answered_once(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	stage_plan(&s, STEPS);
	stage_send_plan(&s);
	stage_send_plan(&s);
	contributed(2);
	STAGE_UNTIL(&s, strstr(s.reason, "contribution delivered"));
	/* the answer may be asked for again: the same bytes come */
	stage_send_plan(&s);
	contributed(4);
	stage_close(&s);
	stage_push(&s, 0);
	stage_send_head(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	assert_int_equal(s.contributions, 4);
	play();
	end();
}

/* ---- rounds that go another way */

/* The round closes while it is still training: what it did is dropped, and it is in the next. */
static void a_round_closes_without_it(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	stage_plan(&s, MANY);
	STAGE_UNTIL(&s, s.doing == shoal_state_working);
	stage_close(&s);
	stage_push(&s, 0);
	stage_send_head(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	assert_int_equal(s.contributions + s.refused, 0);
	play();
	end();
}

static void a_round_is_opened_anew_with_other_data(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	stage_plan(&s, MANY); /* while it trains */
	STAGE_UNTIL(&s, s.doing == shoal_state_working);
	stage_plan(&s, STEPS);
	contributed(2);
	help_peer_plans(&s.p, STEPS, &s.plan, 1); /* and after it has answered */
	s.p.n_gifts[0] = s.p.n_gifts[1] = 0;
	for (int i = 0; i < 2; i++)
		buf_release(&s.p.gifts[i][0].bytes);
	stage_send_plan(&s);
	contributed(4);
	stage_close(&s);
	stage_push(&s, 0);
	stage_send_head(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	end();
}

/* Nothing is wrong with it: it is kept, and comes until there is room. */
static void a_contribution_without_room_is_sent_again(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	s.verdict = ERR_full;
	stage_plan(&s, STEPS);
	STAGE_UNTIL(&s, s.refused >= 4); /* twice */
	STAGE_UNTIL(&s, strstr(s.reason, "sent again until there is room"));
	s.verdict = ERR_OK;
	s.refused = 0;
	STAGE_UNTIL(&s, s.contributions == 2);
	assert_int_equal(s.refused, 0);
	stage_close(&s);
	stage_push(&s, 0);
	stage_send_head(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	play();
	end();
}

static void a_refused_contribution_travels_with_the_next(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	s.verdict = ERR_wrong_round;
	stage_plan(&s, STEPS);
	STAGE_UNTIL(&s, s.refused == 2);
	STAGE_UNTIL(&s, strstr(s.reason, "was refused"));
	s.verdict = ERR_OK;
	s.refused = 0;
	stage_close(&s);
	stage_push(&s, 0);
	stage_send_head(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	play();
	end();
}

/* Nothing is heard of what it sends, and the round closes: it does not send on. */
static void a_late_contribution_is_called_back(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	s.silent = true;
	stage_plan(&s, STEPS);
	STAGE_UNTIL(&s, strstr(s.reason, "sending the contribution"));
	stage_close(&s);
	stage_push(&s, 0);
	stage_send_head(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	STAGE_UNTIL(&s, strstr(s.reason, "waiting for the coordinator to open a round"));
	s.silent = false;
	play();
	end();
}

static void the_end_comes_while_it_trains(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	stage_plan(&s, MANY);
	STAGE_UNTIL(&s, s.doing == shoal_state_working);
	end();
}

/* The last round is still on its way when the end is said. */
static void the_last_round_is_applied_before_the_end(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	stage_plan(&s, STEPS);
	contributed(2);
	stage_close(&s);
	stage_send_head(&s);
	stage_end(&s);
	stage_push(&s, 0);
	stage_wait_peer(&s, ERR_OK);
	assert_true(stage_at_head(&s));
	stage_release(&s);
}

/* ---- behind */

static void close_rounds(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		stage_close(&s);
}

static void it_begins_behind_the_ledger(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	close_rounds(3); /* the snapshot is of round 0 */
	begin();
	assert_int_equal(s.hello_sequence, 0);
	assert_int_equal(s.reported, 6);
	play();
	end();
}

/* Nothing is fetched by HTTPS what the link can bring. */
static void it_asks_for_the_records_over_the_link(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	s.gives = true;
	close_rounds(50); /* more than the inbox applies at once */
	begin();
	assert_int_equal(s.wants, 1);
	assert_int_equal(s.lists, 0);
	assert_int_equal(s.reported, 100);
	play();
	assert_int_equal(s.wants, 1); /* who is at the head is sent the next ones */
	end();
}

/* Nobody says that it is behind but the welcome. */
static void the_welcome_is_ahead(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	s.hide_head = true;
	close_rounds(2);
	begin();
	assert_int_equal(s.lists, 1);
	play();
	end();
}

static void a_long_absence_is_caught_up_in_pieces(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	close_rounds(100); /* 200 entries: more than the inbox applies at once, four lists */
	begin();
	assert_int_equal(s.lists, 4);
	assert_int_equal(s.early, 0); /* only the signed head is reported */
	play();
	end();
}

static void what_is_not_kept_any_more_needs_the_snapshot(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	stage_end(&s);
	stage_wait_peer(&s, ERR_OK);
	close_rounds(5);
	s.pruned = 8;
	stage_snapshot(&s);
	s.reports = 0;
	begin();
	assert_int_equal(s.reported, 10);
	assert_int_equal(s.states, 2);
	play();
	end();
}

/* ---- what is not true */

static void a_tampered_record_does_not_stop_it(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	play();
	stage_plan(&s, STEPS);
	contributed(4);
	stage_close(&s);
	uint8_t *bytes = (uint8_t *)(uintptr_t)s.ledger.at[3].bytes;
	bytes[s.ledger.at[3].len - 1] ^= 1;
	stage_push(&s, 2);
	STAGE_UNTIL(&s, s.delivered == 4);
	bytes[s.ledger.at[3].len - 1] ^= 1;
	stage_send_head(&s);
	/* it goes back to what it saved, with its contribution in flight, and asks for the truth */
	STAGE_UNTIL(&s, stage_at_head(&s));
	assert_int_equal(s.states, 1);
	assert_true(s.lists >= 1);
	play();
	end();
}

static void a_contributor_that_is_new_is_looked_up(void **state)
{
	(void)state;
	struct plan plans[3];
	struct why why;
	stage_open(&s, NULL);
	begin();
	struct standing *third = help_peer_standing(&s.p, 3, "third");
	help_peer_fine(standing_begin(third, s.snapshot.path, &s.snapshot.at, &why), &why);
	stage_roster(&s, 2, 3); /* not told over the link */
	help_peer_plans(&s.p, 1, plans, 3);
	double loss;
	help_peer_fine(standing_ready(third, &plans[2], &why), &why);
	help_peer_fine(standing_step(third, &plans[2], 0, &loss, &why), &why);
	help_peer_fine(standing_cut(third, &plans[2], 1, &why), &why);
	help_peer_give(&s.p, &plans[2], third);
	stage_close(&s);
	stage_push(&s, 0);
	stage_send_head(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	assert_int_equal(s.states, 1);
	standing_free(third);
	play();
	end();
}

/* The coordinator finds that the replica differs: it begins again from the snapshot. */
static void a_replica_that_has_drifted_begins_again(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	shoal_header no = msg_refusal(0, ERR_hash, "the replica differs");
	s.reports = 0;
	stage_send(&s, no, NULL);
	STAGE_UNTIL(&s, s.states == 2 && stage_at_head(&s));
	play();
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_life),
		TEST(coming_back_it_goes_on_from_its_own_state),
		TEST(a_head_comes_before_its_records),
		TEST(records_come_twice_and_before_their_head),
		TEST(a_plan_comes_while_it_applies),
		TEST(a_plan_said_twice_is_answered_once),
		TEST(a_round_closes_without_it),
		TEST(a_round_is_opened_anew_with_other_data),
		TEST(a_contribution_without_room_is_sent_again),
		TEST(a_refused_contribution_travels_with_the_next),
		TEST(a_late_contribution_is_called_back),
		TEST(the_end_comes_while_it_trains),
		TEST(the_last_round_is_applied_before_the_end),
		TEST(it_begins_behind_the_ledger),
		TEST(it_asks_for_the_records_over_the_link),
		TEST(the_welcome_is_ahead),
		TEST(a_long_absence_is_caught_up_in_pieces),
		TEST(what_is_not_kept_any_more_needs_the_snapshot),
		TEST(a_tampered_record_does_not_stop_it),
		TEST(a_contributor_that_is_new_is_looked_up),
		TEST(a_replica_that_has_drifted_begins_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
