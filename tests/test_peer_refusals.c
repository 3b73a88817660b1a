/* What a peer must not take: entries that do not lead to the signed head, another history, what was
 * tampered with, a snapshot that is not the one that was signed; and what it is told then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>
#include "base/file.h"
#include "net/joinlink.h"
#include "peer/command.h"
#include "tests/help_peer.h"

static const char *const sparse[] = {NULL};
static const char *const diloco[] = {"outer.rule=diloco", "outer.lr=0.7", "outer.momentum=0.8",
	"codec.select=all", "codec.values=int8", "codec.k=null", "codec.decay=1.0", NULL};

static struct why why;

static void fine(enum err e)
{
	help_peer_fine(e, &why);
}

/* ---- what is not true */

struct trouble {
	struct help_peer p;
	struct standing *s;         /* member 1 before the round */
	struct help_peer_records r; /* of members 1 and 2 */
};

static void make_trouble(struct trouble *t)
{
	struct plan plans[2];
	help_peer_open(&t->p, sparse);
	t->r = (struct help_peer_records){.n = 0};
	t->s = help_peer_begin(&t->p, 1, "a");
	struct standing *b = help_peer_begin(&t->p, 2, "b");
	help_peer_plans(&t->p, HELP_PEER_STEPS, plans, 2);
	help_peer_train(t->s, &plans[0]);
	fine(standing_save(t->s, &why));
	help_peer_train(b, &plans[1]);
	help_peer_give(&t->p, &plans[0], t->s);
	help_peer_give(&t->p, &plans[1], b);
	help_peer_close(&t->p, &t->r);
	standing_free(b);
}

static void end_trouble(struct trouble *t)
{
	help_peer_drop(&t->r);
	standing_free(t->s);
	help_peer_release(&t->p);
}

/* Refused, and as it was: the truth is still taken. */
static void unchanged(struct trouble *t, enum err e, enum err want, const char *says)
{
	assert_int_equal(e, want);
	help_peer_told(&why, want, says);
	assert_int_equal(standing_head(t->s).sequence, 0);
	assert_true(standing_confirmed(t->s));
	size_t n;
	assert_non_null(standing_sent(t->s, 1, &n));
}

/* Refused in the middle: it says that it stands nowhere, and comes back from what it saved. */
static void undone(struct trouble *t, enum err e)
{
	struct plan plan = {.round = 1};
	double loss;
	assert_int_not_equal(e, ERR_OK);
	assert_int_equal(standing_head(t->s).sequence, 0);
	assert_false(standing_confirmed(t->s));
	assert_false(standing_answers(t->s, &plan));
	assert_int_equal(standing_ready(t->s, &plan, &why), ERR_state);
	assert_int_equal(standing_step(t->s, &plan, 0, &loss, &why), ERR_state);
	assert_int_equal(standing_cut(t->s, &plan, 1, &why), ERR_state);
	assert_int_equal(standing_save(t->s, &why), ERR_state);
	assert_int_equal(
		standing_apply(t->s, t->r.at, t->r.n, &t->r.head, t->p.roster, &why), ERR_state);
	help_peer_told(&why, ERR_state, "stands nowhere");
	fine(standing_resume(t->s, &why));
}

static void entries_that_do_not_lead_to_the_head_are_refused(void **state)
{
	(void)state;
	struct trouble t;
	make_trouble(&t);
	struct help_peer_records *r = &t.r;
	struct ledger_head other = r->head;
	other.hash.b[31] ^= 1;
	unchanged(&t, standing_apply(t.s, r->at, r->n, &other, t.p.roster, &why), ERR_fork, "");
	/* in the wrong order, with one missing, twice */
	struct standing_record swapped[] = {r->at[1], r->at[0]}, twice[] = {r->at[0], r->at[0]};
	unchanged(&t, standing_apply(t.s, swapped, 2, &r->head, t.p.roster, &why), ERR_fork, "");
	unchanged(&t, standing_apply(t.s, twice, 2, &r->head, t.p.roster, &why), ERR_fork, "");
	unchanged(&t, standing_apply(t.s, r->at, 1, &r->head, t.p.roster, &why), ERR_shape,
		"whole rounds");
	/* cut short */
	struct standing_record shorter[] = {r->at[0], {r->at[1].bytes, r->at[1].len - 40}};
	assert_int_not_equal(standing_apply(t.s, shorter, 2, &r->head, t.p.roster, &why), ERR_OK);
	unchanged(&t, why.code, why.code, "");
	help_peer_apply(&t.p, t.s, r);
	/* what was applied is not applied again */
	assert_int_equal(standing_apply(t.s, r->at, r->n, &r->head, t.p.roster, &why), ERR_fork);
	end_trouble(&t);
}

static void another_history_is_refused(void **state)
{
	(void)state;
	struct trouble t;
	make_trouble(&t);
	/* the same two members, but member 2 alone: another round 1 */
	struct help_peer q;
	struct plan plans[2];
	struct help_peer_records fork = {.n = 0};
	help_peer_open(&q, sparse);
	struct standing *b = help_peer_begin(&q, 2, "fork");
	help_peer_plans(&q, HELP_PEER_STEPS, plans, 2);
	help_peer_train(b, &plans[1]);
	help_peer_give(&q, &plans[1], b);
	help_peer_close(&q, &fork);
	unchanged(&t, standing_apply(t.s, fork.at, fork.n, &t.r.head, t.p.roster, &why), ERR_fork,
		"");
	help_peer_apply(&t.p, t.s, &t.r);
	/* on another history the next round does not follow */
	struct help_peer_records next = {.n = 0};
	help_peer_close(&q, &next);
	assert_int_equal(
		standing_apply(t.s, next.at, next.n, &next.head, t.p.roster, &why), ERR_fork);
	assert_true(standing_confirmed(t.s));
	help_peer_drop(&fork);
	help_peer_drop(&next);
	standing_free(b);
	help_peer_release(&q);
	end_trouble(&t);
}

static void a_tampered_contribution_is_refused(void **state)
{
	(void)state;
	struct trouble t;
	make_trouble(&t);
	uint8_t *bytes = (uint8_t *)(uintptr_t)t.r.at[1].bytes;
	const size_t len = t.r.at[1].len, places[] = {len - 1, len - 60, len / 2};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		bytes[places[i]] ^= 0x10;
		undone(&t, standing_apply(t.s, t.r.at, t.r.n, &t.r.head, t.p.roster, &why));
		bytes[places[i]] ^= 0x10;
		assert_int_equal(standing_head(t.s).sequence, 0);
	}
	help_peer_apply(&t.p, t.s, &t.r);
	end_trouble(&t);
}

/* A roster of members 1 and, when with is set, 2, whose key is that of `key`. */
static struct roster *other_roster(const struct help_peer *p, bool with, uint32_t key)
{
	struct roster_member members[2] = {0};
	struct roster *r = NULL;
	for (uint32_t i = 0; i < 2; i++) {
		members[i] = *roster_by_number(p->roster, i + 1);
		if (i == 1)
			members[i].sign = sign_public_of(help_peer_key(key));
	}
	fine(roster_new(&p->spec->id, 2, members, with ? 2 : 1, &r, &why));
	return r;
}

static void a_signature_of_another_key_is_refused(void **state)
{
	(void)state;
	struct trouble t;
	make_trouble(&t);
	struct roster *stranger = other_roster(&t.p, true, HELP_PEER_MEMBERS + 1);
	enum err e = standing_apply(t.s, t.r.at, t.r.n, &t.r.head, stranger, &why);
	assert_int_equal(e, ERR_signature);
	undone(&t, e);
	roster_free(stranger);
	/* a roster that is behind is no reason to begin again */
	struct roster *old = other_roster(&t.p, false, 2);
	unchanged(&t, standing_apply(t.s, t.r.at, t.r.n, &t.r.head, old, &why), ERR_unknown_peer,
		"member 2");
	roster_free(old);
	help_peer_apply(&t.p, t.s, &t.r);
	end_trouble(&t);
}

/* ---- beginning */

static void nothing_saved_is_missing(void **state)
{
	(void)state;
	struct help_peer p;
	help_peer_open(&p, sparse);
	struct standing *s = help_peer_standing(&p, 1, "a");
	assert_int_equal(standing_resume(s, &why), ERR_missing);
	assert_int_equal(standing_head(s).sequence, 0);
	assert_false(standing_confirmed(s));
	standing_free(s);
	help_peer_release(&p);
}

static void a_snapshot_must_be_the_one_that_was_signed(void **state)
{
	(void)state;
	struct help_peer p, q;
	struct ledger_head at, moved, other;
	help_peer_open(&p, sparse);
	help_peer_open(&q, diloco); /* another run */
	struct standing *s = help_peer_begin(&p, 1, "a");
	const char *first = help_peer_snapshot(&p, &at);
	help_peer_play(&p, &s, 1);
	moved = ledger_at(p.ledger);
	assert_int_equal(standing_begin(s, first, &moved, &why), ERR_fork);
	assert_false(standing_confirmed(s));
	other = at;
	other.hash.b[3] ^= 1;
	assert_int_equal(standing_begin(s, first, &other, &why), ERR_fork);
	const char *foreign = help_peer_snapshot(&q, &other);
	assert_int_equal(standing_begin(s, foreign, &other, &why), ERR_wrong_run);
	assert_int_not_equal(standing_begin(s, help_peer_path("none"), &at, &why), ERR_OK);
	/* round 0 of this run, but with other weights than its ledger begins with */
	struct ledger_head genesis = {.hash = ledger_genesis(&p.spec->id, NULL, 0)};
	struct replica_snapshot about = {p.spec->id, p.spec->text, genesis};
	const char *wrong = help_peer_path("wrong");
	fine(replica_save(q.replica, &about, wrong, &why));
	assert_int_equal(standing_begin(s, wrong, &genesis, &why), ERR_fork);
	help_peer_told(&why, ERR_fork, "initial weights");
	fine(standing_begin(s, first, &at, &why));
	standing_free(s);
	help_peer_release(&p);
	help_peer_release(&q);
}

/* A state of a higher round that is damaged does not outlive the new beginning. */
static void a_new_beginning_replaces_damaged_states(void **state)
{
	(void)state;
	struct help_peer p;
	struct ledger_head at;
	help_peer_open(&p, sparse);
	struct standing *s = help_peer_begin(&p, 1, "a");
	const char *first = help_peer_snapshot(&p, &at);
	for (int i = 0; i < 3; i++) {
		help_peer_play(&p, &s, 1);
		fine(standing_save(s, &why));
	}
	const struct statefile_series series = {.dir = help_peer_path("a"), .prefix = "local"};
	for (uint64_t i = 2; i <= 3; i++) {
		char *path = statefile_path(&series, i);
		FILE *f = fopen(path, "r+");
		assert_non_null(f);
		fseek(f, 5000, SEEK_SET);
		fputs("damage", f);
		fclose(f);
		free(path);
	}
	assert_int_equal(standing_resume(s, &why), ERR_hash);
	assert_false(standing_confirmed(s));
	fine(standing_begin(s, first, &at, &why));
	s = help_peer_again(&p, s, 1, "a");
	assert_int_equal(standing_head(s).sequence, 0);
	standing_free(s);
	help_peer_release(&p);
}

/* ---- folders */

/* A link to a run of this id in a file of this name. */
static const char *link_file(const char *name, uint8_t id)
{
	struct joinlink link = {.host = "127.0.0.1", .port = 1, .run = {{id}}};
	struct invite invite;
	char text[JOINLINK_MAX];
	link.key = sign_public_of(help_peer_key(1));
	invite_make(0, 0, &invite);
	invite_text(&invite, &link.run, help_peer_key(1), link.invite);
	joinlink_format(&link, text);
	fine(file_write(help_peer_path(name), text, strlen(text), 0600, &why));
	return help_peer_path(name);
}

/* Keys, data and states of one run do not get mixed up with another's. */
static void a_folder_of_another_run_is_refused(void **state)
{
	(void)state;
	const char *dir = help_peer_path("run"), *out = help_peer_path("out");
	fine(file_mkdirs(dir, 0700, &why));
	link_file("run/join.link", 1);
	const char *other = link_file("other.link", 2);
	char *argv[] = {(char[]){"join"}, (char *)(uintptr_t)other, (char[]){"--dir"},
		(char *)(uintptr_t)dir, NULL};
	int kept = dup(STDERR_FILENO), to = open(out, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(kept >= 0 && to >= 0);
	dup2(to, STDERR_FILENO);
	int status = join_command(4, argv);
	dup2(kept, STDERR_FILENO);
	close(kept);
	close(to);
	uint8_t *text;
	size_t n;
	assert_int_equal(status, 2);
	fine(file_read(out, 1 << 20, &text, &n, &why));
	assert_non_null(strstr((char *)text, "of its own with --dir"));
	free(text);
}

/* ---- plans that do not fit */

static void a_plan_must_start_from_the_head_and_have_data(void **state)
{
	(void)state;
	struct help_peer p;
	struct plan plan;
	double loss;
	help_peer_open(&p, sparse);
	struct standing *s = help_peer_begin(&p, 1, "a");
	help_peer_plans(&p, HELP_PEER_STEPS, &plan, 1);
	fine(standing_ready(s, &plan, &why));
	assert_int_equal(standing_step(s, &plan, HELP_PEER_STEPS, &loss, &why), ERR_range);
	plan.parent.hash.b[0] ^= 1;
	assert_int_equal(standing_ready(s, &plan, &why), ERR_wrong_parent);
	assert_true(standing_confirmed(s));
	standing_free(s);
	help_peer_release(&p);
}

static void a_rule_or_codec_that_is_not_known_is_named(void **state)
{
	(void)state;
	static const char *const wrong[] = {"outer.rule=best", "codec.select=zip"};
	struct help_peer p;
	help_peer_open(&p, sparse);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct spec *spec = NULL;
		struct standing *s = NULL;
		fine(spec_load(help_peer_path("spec.json"), &wrong[i], 1, &spec, NULL, &why));
		struct standing_config how = {.spec = spec,
			.corpus = p.data.corpus,
			.key = help_peer_key(1),
			.dir = help_peer_path("a"),
			.backend = "cpu"};
		assert_int_equal(standing_new(&how, &s, &why), ERR_unsupported);
		assert_null(s);
		spec_free(spec);
	}
	help_peer_release(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, help_peer_setup, help_peer_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(entries_that_do_not_lead_to_the_head_are_refused),
		TEST(another_history_is_refused),
		TEST(a_tampered_contribution_is_refused),
		TEST(a_signature_of_another_key_is_refused),
		TEST(nothing_saved_is_missing),
		TEST(a_snapshot_must_be_the_one_that_was_signed),
		TEST(a_new_beginning_replaces_damaged_states),
		TEST(a_folder_of_another_run_is_refused),
		TEST(a_plan_must_start_from_the_head_and_have_data),
		TEST(a_rule_or_codec_that_is_not_known_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
