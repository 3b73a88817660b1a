/* The control loop of a peer whose coordinator refuses it, breaks the link, goes away or comes
 * late.
 */
#include "tests/help_play.h"

/* ---- refusals */

static void a_refused_hello_ends_it_with_the_sentence(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	s.refusal = ERR_fork;
	stage_start_peer(&s);
	stage_wait_peer(&s, ERR_fork);
	help_peer_told(&s.end, ERR_fork, "go away, says the test");
	stage_release(&s);
}

static void a_fork_at_its_own_head_ends_it(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	play();
	struct ledger_head other = ledger_at(s.p.ledger);
	other.hash.b[0] ^= 1;
	free(s.head);
	s.head = stage_sign(&s, "head", ledger_head_json(&other, &s.p.spec->id));
	stage_send_head(&s);
	stage_wait_peer(&s, ERR_fork);
	help_peer_told(&s.end, ERR_fork, "is not the one that this peer follows");
	stage_release(&s);
}

static void a_link_of_another_key_is_refused(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	struct sign_key *other = sign_make();
	s.joinlink.key = sign_public_of(other);
	stage_start_peer(&s);
	stage_wait_peer(&s, ERR_signature);
	sign_free(other);
	stage_release(&s);
}

/* ---- links that break */

static void cut_link(void)
{
	const unsigned losts = s.losts;
	link_admit(s.link, s.curve.public_key, 1); /* somebody else */
	STAGE_UNTIL(&s, s.losts > losts);
	link_admit(s.link, stage_key(&s), 1);
}

static void the_link_breaks_while_it_trains(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	stage_plan(&s, 2000);
	STAGE_UNTIL(&s, s.doing == shoal_state_working);
	unsigned hellos = s.hellos;
	cut_link();
	STAGE_UNTIL(&s, s.hellos > hellos);
	contributed(2);
	stage_close(&s);
	stage_push(&s, 0);
	stage_send_head(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	play();
	end();
}

static void the_link_breaks_while_it_waits(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	stage_plan(&s, STEPS);
	contributed(2);
	unsigned hellos = s.hellos;
	cut_link();
	STAGE_UNTIL(&s, s.hellos > hellos);
	STAGE_UNTIL(&s, strstr(s.reason, "contribution delivered"));
	/* the round closes while the link is down: only the next hello tells */
	cut_link();
	stage_close(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	play();
	end();
}

static void the_coordinator_comes_back(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	begin();
	play();
	stage_plan(&s, STEPS);
	contributed(4);
	stage_close_doors(&s);
	stage_close(&s);
	stage_listen(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	play();
	end();
}

/* The machine was lost and the run key came out of its backup: every other key is new. */
static void the_coordinator_comes_back_with_other_keys(void **state)
{
	(void)state;
	static const char *const names[] = {"127.0.0.1"};
	stage_open(&s, NULL);
	begin();
	play();
	stage_plan(&s, STEPS);
	contributed(4);
	stage_close_doors(&s);
	tls_free(s.tls);
	s.tls = tls_make(names, 1);
	identity_curve_make(&s.curve);
	stage_close(&s);
	stage_listen(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	play();
	end();
}

/* It was not there when the peer came. */
static void the_coordinator_comes_late(void **state)
{
	(void)state;
	stage_open(&s, NULL);
	stage_close_doors(&s);
	stage_start_peer(&s);
	uint64_t until = clock_now_ns() + CLOCK_SECOND;
	while (clock_now_ns() < until) /* it is refused a few times */
		event_base_loop(s.base, EVLOOP_ONCE);
	stage_listen(&s);
	STAGE_UNTIL(&s, stage_at_head(&s));
	play();
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_refused_hello_ends_it_with_the_sentence),
		TEST(a_fork_at_its_own_head_ends_it),
		TEST(a_link_of_another_key_is_refused),
		TEST(the_link_breaks_while_it_trains),
		TEST(the_link_breaks_while_it_waits),
		TEST(the_coordinator_comes_back),
		TEST(the_coordinator_comes_back_with_other_keys),
		TEST(the_coordinator_comes_late),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
