/* Which piece is asked of whom: the rarest, of the nearest, and nothing of who is too slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/clock.h"
#include "peer/pick.h"

#define MB (1u << 20)

static const bool both[] = {true, true}, first[] = {true, false}, none[] = {false, false};

static bool next(const struct pick_piece *pieces, size_t n, const struct pick_peer *peers,
	size_t n_peers, struct pick_choice *out)
{
	const struct pick p = {pieces, n, peers, n_peers, 2};
	return pick_next(&p, out);
}

static void the_rarest_first(void **state)
{
	(void)state;
	struct pick_choice c;
	struct pick_piece pieces[] = {{0, false, MB}, {1, false, MB}, {1, false, MB}};
	const struct pick_peer peers[] = {
		{.open = true, .keeps = first}, {.open = true, .keeps = both}};
	assert_true(next(pieces, 3, peers, 2, &c));
	assert_int_equal(c.piece, 1); /* one peer keeps blob 1, two keep blob 0 */
	assert_int_equal(c.peer, 1);
	pieces[1].taken = true;
	assert_true(next(pieces, 3, peers, 2, &c));
	assert_int_equal(c.piece, 2);
	pieces[2].taken = true;
	assert_true(next(pieces, 3, peers, 2, &c));
	assert_int_equal(c.piece, 0);
	pieces[0].taken = true;
	assert_false(next(pieces, 3, peers, 2, &c));
}

static void who_does_not_keep_it_is_not_asked(void **state)
{
	(void)state;
	struct pick_choice c;
	const struct pick_piece pieces[] = {{1, false, MB}};
	const struct pick_peer peers[] = {{.open = true, .keeps = first},
		{.open = true, .keeps = none}, {.open = false, .keeps = both}};
	assert_false(next(pieces, 1, peers, 3, &c));
	assert_false(next(pieces, 1, peers, 0, &c));
}

static void the_nearest_is_asked(void **state)
{
	(void)state;
	struct pick_choice c;
	const struct pick_piece pieces[] = {{0, false, MB}};
	struct pick_peer peers[] = {
		{.open = true, .keeps = both, .rtt_ns = 80 * CLOCK_MS, .rate = 4e6},
		{.open = true, .keeps = both, .rtt_ns = 10 * CLOCK_MS, .rate = 4e6}};
	assert_true(next(pieces, 1, peers, 2, &c));
	assert_int_equal(c.peer, 1);
	peers[1].asked = 1; /* then the other is sooner */
	peers[1].asked_bytes = MB;
	assert_true(next(pieces, 1, peers, 2, &c));
	assert_int_equal(c.peer, 0);
	peers[0].rate = 0; /* not known: tried */
	assert_true(next(pieces, 1, peers, 2, &c));
	assert_int_equal(c.peer, 0);
}

static void a_slow_one_holds_nothing_up(void **state)
{
	(void)state;
	struct pick_choice c;
	struct pick_piece pieces[64] = {{0, false, MB}};
	const struct pick_peer peers[] = {
		{.open = true, .keeps = both, .asked = 2, .asked_bytes = 2 * MB, .rate = 10e6},
		{.open = true, .keeps = both, .rate = 1e5}};
	/* Ten seconds for a piece of the slow one; the fast one is through with all in less. */
	for (size_t i = 0; i < 64; i++)
		pieces[i] = (struct pick_piece){0, false, MB};
	assert_false(next(pieces, 64, peers, 2, &c));
	/* With much more to be had it helps. */
	for (size_t i = 0; i < 64; i++)
		pieces[i].bytes = 4 * MB;
	pieces[0].bytes = MB;
	assert_true(next(pieces, 64, peers, 2, &c));
	assert_int_equal(c.peer, 1);
}

/* Equals with nothing else to do never wait for each other. */
static void the_last_piece_is_asked_for(void **state)
{
	(void)state;
	struct pick_choice c;
	const struct pick_piece pieces[] = {{0, false, MB}};
	const struct pick_peer peers[] = {
		{.open = true, .keeps = both, .rtt_ns = CLOCK_SECOND, .rate = 1e6},
		{.open = true, .keeps = both, .rtt_ns = CLOCK_SECOND, .rate = 1e6}};
	assert_true(next(pieces, 1, peers, 2, &c));
	assert_int_equal(c.peer, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rarest_first),
		cmocka_unit_test(who_does_not_keep_it_is_not_asked),
		cmocka_unit_test(the_nearest_is_asked),
		cmocka_unit_test(a_slow_one_holds_nothing_up),
		cmocka_unit_test(the_last_piece_is_asked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
