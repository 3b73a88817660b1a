/* A peer whose link is short of time keeps less of every chunk, and says why. */
#include "tests/help_stage.h"
#include "peer/statusfile.h"

#define STEPS 3
#define SPEC_K 64 /* of 1024 in help_peer.h's spec */
#define LEAST_K 2

static const char *const timed[] = {
	"round.mode=timed", "round.steps=null", "round.seconds=1", NULL};
static struct stage s;

/* What shard 0's contribution to the open round keeps. */
static uint32_t kept(void)
{
	struct contribution_view view;
	struct codec_vector v;
	struct why why = {0};
	const struct buf *bytes = &s.p.gifts[0][0].bytes;
	help_peer_fine(contribution_parse(bytes->data, bytes->len, &view, &why), &why);
	help_peer_fine(contribution_decode(&view, &s.p.exchange.codec,
			       (size_t)replica_count(s.p.replica, 0), &v, &why),
		&why);
	uint32_t k = v.params.k;
	codec_release(&v);
	return k;
}

/* A round of so many seconds, of which no peer needs more than a few milliseconds; what was kept.
 */
static uint32_t play(double seconds)
{
	const size_t from = s.ledger.n;
	const unsigned before = s.contributions;
	help_peer_plans(&s.p, STEPS, &s.plan, 1);
	s.plan.seconds = seconds;
	s.open = true;
	memset(s.have, 0, sizeof s.have);
	stage_send_plan(&s);
	STAGE_UNTIL(&s, s.contributions >= before + 2 || s.refused);
	if (s.refused)
		fail_msg("%s", s.why.text);
	uint32_t k = kept();
	stage_close(&s);
	stage_push(&s, from);
	stage_send_head(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	return k;
}

static bool said(const char *part)
{
	struct statusfile f;
	struct why why;
	help_peer_fine(statusfile_read(help_peer_path("peer"), &f, &why), &why);
	return strstr(f.rate, part) != NULL;
}

static void begin(const char *const *changes)
{
	stage_open(&s, changes);
	stage_start_peer(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
}

static void end(void)
{
	stage_end(&s);
	stage_wait_peer(&s, ERR_OK);
	stage_release(&s);
}

static void a_short_round_makes_it_send_less(void **state)
{
	(void)state;
	begin(timed);
	assert_int_equal(play(1e-4), SPEC_K); /* nothing is known of the link */
	assert_int_equal(play(1e-4), LEAST_K);
	assert_int_equal(play(1e-4), LEAST_K);
	assert_int_equal(play(10000), SPEC_K);
	STAGE_UNTIL(&s, said("k 64 of 1024, two, as the spec says"));
	assert_int_equal(play(1e-4), LEAST_K);
	STAGE_UNTIL(&s, said("k 2 of 1024, two, the least there is: it takes"));
	end();
}

static void rounds_of_steps_never_vary(void **state)
{
	(void)state;
	begin(NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(play(0), SPEC_K);
	assert_false(said("k"));
	end();
}

/* A peer that begins anew has measured nothing, and hands over what it cut before as it was. */
static void a_restart_forgets_the_link(void **state)
{
	(void)state;
	begin(timed);
	assert_int_equal(play(1e-4), SPEC_K);
	assert_int_equal(play(1e-4), LEAST_K);
	stage_end(&s);
	stage_wait_peer(&s, ERR_OK);
	s.reports = 0;
	stage_start_peer(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	assert_int_equal(play(1e-4), SPEC_K);
	assert_int_equal(play(1e-4), LEAST_K);
	end();
}

#define T(name) cmocka_unit_test_setup_teardown(name, help_peer_setup, help_peer_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_short_round_makes_it_send_less),
		T(rounds_of_steps_never_vary),
		T(a_restart_forgets_the_link),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
