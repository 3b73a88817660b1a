/* Giving and taking over real links: who may ask, how fast it goes, and what becomes of liars. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "net/link.h"
#include "net/signed.h"
#include "peer/give.h"
#include "peer/shelf.h"
#include "peer/take.h"
#include "round/object.h"
#include "tests/help_peer.h"

#define WAIT (30 * CLOCK_SECOND)
#define MEMBERS 3
#define RATE 100000

struct bed {
	struct help_peer run;
	struct shelf *shelf; /* one snapshot, and the records of a round */
	struct hash blobs[8];
	uint64_t bytes[8];
	uint32_t n_blobs;
	struct identity_peer who[MEMBERS + 1]; /* the last one is on no roster */
	struct roster *roster;
};

static void fill_shelf(struct bed *b)
{
	struct why why = {0};
	struct help_peer_records r = {.n = 0};
	struct standing *s = help_peer_begin(&b->run, 1, "a");
	struct plan plan;
	help_peer_fine(shelf_open(help_peer_path("a"), b->run.spec, &b->shelf, &why), &why);
	help_peer_plans(&b->run, HELP_PEER_STEPS, &plan, 1);
	help_peer_train(s, &plan);
	help_peer_fine(standing_save(s, &why), &why);
	help_peer_give(&b->run, &plan, s);
	help_peer_close(&b->run, &r);
	help_peer_apply(&b->run, s, &r);
	for (size_t i = 0; i < r.n; i++)
		shelf_record(b->shelf, r.at[i].bytes, r.at[i].len);
	json_t *body = ledger_head_json(&r.head, &b->run.spec->id);
	char *text = signed_make("head", body, help_peer_key(1));
	shelf_head(b->shelf, &r.head, text, strlen(text));
	shelf_reached(b->shelf, &r.head);
	free(text);
	json_decref(body);
	standing_free(s);
	help_peer_drop(&r);
}

/* What is on the shelf, as its list has it. */
static void read_shelf(struct bed *b)
{
	static const char *const lists[] = {"snapshots", "records"};
	struct shelf_object o;
	struct why why = {0};
	help_peer_fine(shelf_give(b->shelf, &(shoal_want){.kind = OBJECT_shelf}, &o, &why), &why);
	json_t *doc = json_loadb((const char *)shared_data(o.bytes), shared_len(o.bytes), 0, NULL);
	for (size_t k = 0; k < 2; k++) {
		const json_t *row;
		size_t i;
		json_array_foreach(json_object_get(doc, lists[k]), i, row)
		{
			const char *hex = json_string_value(json_object_get(row, "blob"));
			assert_int_equal(hash_parse(hex, &b->blobs[b->n_blobs]), 0);
			b->bytes[b->n_blobs++] =
				(uint64_t)json_integer_value(json_object_get(row, "bytes"));
		}
	}
	assert_true(b->n_blobs >= 2);
	json_decref(doc);
	shared_drop(o.bytes);
}

static void make(struct bed *b)
{
	struct roster_member members[MEMBERS] = {{0}};
	struct why why = {0};
	*b = (struct bed){0};
	help_peer_open(&b->run, NULL);
	fill_shelf(b);
	read_shelf(b);
	for (uint32_t i = 0; i <= MEMBERS; i++) {
		char name[8];
		snprintf(name, sizeof name, "id%u", i);
		help_peer_fine(identity_peer_open(help_peer_path(name), &b->who[i], &why), &why);
	}
	for (uint32_t i = 0; i < MEMBERS; i++) {
		members[i].number = i + 1;
		members[i].sign = sign_public_of(b->who[i].sign);
		memcpy(members[i].curve, b->who[i].curve.public_key, ROSTER_CURVE);
		snprintf(members[i].name, sizeof members[i].name, "m%u", i + 1);
	}
	help_peer_fine(roster_new(&b->run.spec->id, 1, members, MEMBERS, &b->roster, &why), &why);
}

static void drop(struct bed *b)
{
	for (uint32_t i = 0; i <= MEMBERS; i++)
		identity_peer_release(&b->who[i]);
	roster_free(b->roster);
	shelf_close(b->shelf);
	help_peer_release(&b->run);
}

static struct give *open_give(const struct bed *b, uint32_t member, uint64_t rate)
{
	struct give *g = NULL;
	struct why why = {0};
	const struct give_config how = {.identity = &b->who[member - 1],
		.run = b->run.spec->id,
		.member = member,
		.address = "127.0.0.1:0",
		.rate = rate};
	help_peer_fine(give_open(&how, &g, &why), &why);
	give_roster(g, b->roster);
	return g;
}

/* ---- one who asks by hand */

struct asker {
	struct mailbox *mail;
	struct link *link;
	const uint8_t *key;
};

static void dial(struct asker *a, const struct bed *b, uint32_t who, const struct give *g,
	const struct hash *run)
{
	struct link_config how;
	struct why why = {0};
	shoal_hello h = {.number = who + 1, .instance = 1};
	link_config_init(&how);
	how.role = LINK_peer;
	memcpy(how.public_key, b->who[who].curve.public_key, LINK_KEY);
	memcpy(how.secret_key, b->who[who].curve.secret_key, LINK_KEY);
	how.events = a->mail = mailbox_new();
	how.seed = who;
	how.kinds[0] = (struct transfer_kind){OBJECT_shelf, OBJECT_SHELF_MAX};
	how.kinds[1] = (struct transfer_kind){OBJECT_piece, OBJECT_PIECE};
	how.n_kinds = 2;
	help_peer_fine(link_new(&how, &a->link, &why), &why);
	a->key = b->who[0].curve.public_key;
	memcpy(h.run, run->b, sizeof h.run);
	link_connect(a->link, a->key, give_address(g), &h);
}

static void hang_up(struct asker *a)
{
	link_free(a->link);
	mailbox_free(a->mail);
}

/* The next event that is not an attempt to be repeated, while the giver's clock shows now. */
static struct link_event *hear(
	struct asker *a, struct give *g, struct shelf *shelf, uint64_t now, uint64_t patience)
{
	const uint64_t until = clock_now_ns() + patience;
	while (clock_now_ns() < until) {
		give_turn(g, shelf, now);
		struct mail *m = mailbox_wait(a->mail, 5 * CLOCK_MS);
		if (!m)
			continue;
		struct link_event *e = link_event_of(m);
		if (e->mail.kind == LINK_object)
			link_answer(a->link, e->key, e->ref, ERR_OK, NULL);
		return e;
	}
	return NULL;
}

static void want(struct asker *a, const struct bed *b, uint32_t blob)
{
	shoal_header h = {.which_body = MSG_want};
	h.body.want.kind = OBJECT_piece;
	memcpy(h.body.want.name, b->blobs[blob].b, sizeof h.body.want.name);
	link_send(a->link, a->key, &h, NULL);
}

static void expect(struct link_event *e, enum link_event_kind kind)
{
	if (!e || e->mail.kind != (int)kind)
		fail_msg("%s, not %s",
			e ? link_event_name((enum link_event_kind)e->mail.kind) : "-",
			link_event_name(kind));
	link_event_free(e);
}

static void pieces_go_as_fast_as_the_rate(void **state)
{
	(void)state;
	struct bed b;
	struct asker a;
	make(&b);
	struct give *g = open_give(&b, 1, RATE);
	uint64_t now = 100 * CLOCK_SECOND;
	dial(&a, &b, 1, g, &b.run.spec->id);
	expect(hear(&a, g, b.shelf, now, WAIT), LINK_connected);
	/* the snapshot alone is more than may go at once */
	assert_true(b.bytes[0] > RATE / 2 && b.n_blobs >= 3);
	for (uint32_t i = 0; i < 3; i++)
		want(&a, &b, i);
	expect(hear(&a, g, b.shelf, now, WAIT), LINK_object);
	assert_null(hear(&a, g, b.shelf, now, CLOCK_SECOND / 2));
	now += b.bytes[0] * CLOCK_SECOND / RATE;
	for (uint32_t i = 1; i < 3; i++) {
		expect(hear(&a, g, b.shelf, now, WAIT), LINK_object);
		now += b.bytes[i] * CLOCK_SECOND / RATE;
	}
	assert_true(give_bytes(g) > 0);
	hang_up(&a);
	give_close(g);
	drop(&b);
}

static void too_many_questions_are_refused(void **state)
{
	(void)state;
	struct bed b;
	struct asker a;
	make(&b);
	struct give *g = open_give(&b, 1, RATE);
	dial(&a, &b, 1, g, &b.run.spec->id);
	uint64_t now = CLOCK_SECOND;
	expect(hear(&a, g, b.shelf, now, WAIT), LINK_connected);
	now = 0; /* nothing may go */
	for (uint32_t i = 0; i <= GIVE_ASKED; i++)
		want(&a, &b, 0);
	struct link_event *e = NULL;
	for (uint32_t seen = 0; seen <= GIVE_ASKED && (!e || e->mail.kind != LINK_message);
		seen++) {
		link_event_free(e);
		e = hear(&a, g, b.shelf, now, WAIT);
		assert_non_null(e);
	}
	assert_int_equal(e->header.which_body, MSG_refusal);
	assert_int_equal(e->header.body.refusal.code, ERR_busy);
	link_event_free(e);
	hang_up(&a);
	give_close(g);
	drop(&b);
}

static void strangers_are_refused(void **state)
{
	(void)state;
	struct bed b;
	struct asker a;
	static const struct hash other = {{9}};
	make(&b);
	struct give *g = open_give(&b, 1, RATE);
	const uint64_t now = CLOCK_SECOND;
	dial(&a, &b, MEMBERS, g, &b.run.spec->id); /* on no roster */
	struct link_event *e = hear(&a, g, b.shelf, now, WAIT);
	assert_non_null(e);
	assert_int_equal(e->why.code, ERR_unknown_peer);
	expect(e, LINK_waiting);
	hang_up(&a);
	dial(&a, &b, 1, g, &other);
	e = hear(&a, g, b.shelf, now, WAIT);
	assert_non_null(e);
	assert_int_equal(e->why.code, ERR_wrong_run);
	expect(e, LINK_waiting);
	hang_up(&a);
	give_close(g);

	struct why why;
	static const char *const bad[] = {"127.0.0.1", "*:7", "a;b:1", ":1"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const struct give_config how = {
			.identity = &b.who[0], .address = bad[i], .rate = RATE};
		assert_int_equal(give_open(&how, &g, &why), ERR_usage);
	}
	drop(&b);
}

/* ---- taking */

struct giving {
	struct give *g[2];
	struct shelf *shelf;
	atomic_bool stop;
};

static void *give_both(void *arg)
{
	struct giving *v = arg;
	while (!atomic_load(&v->stop)) {
		for (int i = 0; i < 2; i++)
			give_turn(v->g[i], v->shelf, clock_now_ns());
		poll(NULL, 0, 2); /* between two looks */
	}
	return NULL;
}

struct taken {
	const struct bed *bed;
	struct take_piece pieces[8];
	uint32_t lies; /* so many of the first pieces are taken for wrong ones */
};

static enum err put(void *arg, size_t piece, const uint8_t *bytes, size_t n, struct why *why)
{
	struct taken *t = arg;
	struct hash is = hash_of(bytes, n);
	assert_int_equal(n, t->pieces[piece].bytes);
	assert_true(hash_equal(&is, &t->bed->blobs[piece]));
	if (!t->lies)
		return ERR_OK;
	t->lies--;
	return err_why(why, ERR_hash, "a lie");
}

static struct take_outcome take(
	struct bed *b, struct taken *t, const struct take_from *from, size_t n_from)
{
	const atomic_bool stop = false;
	struct take_outcome out;
	struct why why = {0};
	t->bed = b;
	for (uint32_t i = 0; i < b->n_blobs; i++)
		t->pieces[i] = (struct take_piece){.blob = i, .bytes = b->bytes[i]};
	struct take how = {.identity = &b->who[2],
		.run = &b->run.spec->id,
		.roster = b->roster,
		.member = 3,
		.from = from,
		.n_from = n_from,
		.blobs = b->blobs,
		.n_blobs = b->n_blobs,
		.pieces = t->pieces,
		.n_pieces = b->n_blobs,
		.put = put,
		.arg = t,
		.stop = &stop};
	help_peer_fine(take_run(&how, &out, &why), &why);
	return out;
}

static bool all_here(const struct bed *b, const struct taken *t)
{
	bool here = true;
	for (uint32_t i = 0; i < b->n_blobs; i++)
		here &= t->pieces[i].here;
	return here;
}

static void what_one_does_not_give_another_does(void **state)
{
	(void)state;
	struct bed b;
	pthread_t thread;
	make(&b);
	struct giving v = {
		.shelf = b.shelf, .g = {open_give(&b, 1, 1u << 30), open_give(&b, 2, 1u << 30)}};
	assert_int_equal(pthread_create(&thread, NULL, give_both, &v), 0);
	struct take_from from[] = {{.member = 1}, {.member = 2}, {.member = 77}, {.member = 3}};
	snprintf(from[0].address, ADDRESS_MAX, "%s", give_address(v.g[0]));
	snprintf(from[1].address, ADDRESS_MAX, "%s", give_address(v.g[1]));
	snprintf(from[2].address, ADDRESS_MAX, "127.0.0.1:9"); /* nobody on the roster */
	snprintf(from[3].address, ADDRESS_MAX, "127.0.0.1:9"); /* ourselves */

	struct taken fine = {0}, once = {.lies = 1}, always = {.lies = 100}, wrong = {0};
	struct take_outcome out = take(&b, &fine, from, 4);
	assert_true(all_here(&b, &fine));
	assert_int_equal(out.left, 0);
	out = take(&b, &once, from, 4);
	assert_true(all_here(&b, &once));
	assert_int_equal(out.left, 1);
	assert_int_equal(out.used, 1);
	out = take(&b, &always, from, 4); /* then the coordinator is left */
	assert_false(all_here(&b, &always));
	assert_int_equal(out.left, 2);
	assert_int_equal(out.bytes, 0);
	/* an address where somebody else is: CURVE does not take it for member 2 */
	memcpy(from[1].address, from[0].address, ADDRESS_MAX);
	out = take(&b, &wrong, from, 2);
	assert_true(all_here(&b, &wrong));
	assert_int_equal(out.used, 1);

	atomic_store(&v.stop, true);
	pthread_join(thread, NULL);
	give_close(v.g[0]);
	give_close(v.g[1]);
	drop(&b);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, help_peer_setup, help_peer_teardown)
	const struct CMUnitTest tests[] = {
		T(pieces_go_as_fast_as_the_rate),
		T(too_many_questions_are_refused),
		T(strangers_are_refused),
		T(what_one_does_not_give_another_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
