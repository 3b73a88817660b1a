/* What a peer keeps for others, over real rounds of a tiny run. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/file.h"
#include "net/signed.h"
#include "peer/shelf.h"
#include "round/object.h"
#include "round/record.h"
#include "tests/help_peer.h"

static struct shelf *open_shelf(const struct help_peer *p, const char *name)
{
	struct shelf *s = NULL;
	struct why why = {0};
	help_peer_fine(shelf_open(help_peer_path(name), p->spec, &s, &why), &why);
	return s;
}

/* One round of member 1; its records. */
static void play(struct help_peer *p, struct standing *s, struct help_peer_records *out)
{
	struct plan plan;
	struct why why = {0};
	help_peer_plans(p, HELP_PEER_STEPS, &plan, 1);
	help_peer_train(s, &plan);
	help_peer_fine(standing_save(s, &why), &why);
	help_peer_give(p, &plan, s);
	help_peer_close(p, out);
	help_peer_apply(p, s, out);
}

/* As a peer hears of it: records in any order, then the head. */
static void hear(struct shelf *s, const struct help_peer *p, const struct help_peer_records *r)
{
	for (size_t i = r->n; i-- > 0;)
		shelf_record(s, r->at[i].bytes, r->at[i].len);
	json_t *body = ledger_head_json(&r->head, &p->spec->id);
	char *text = signed_make("head", body, help_peer_key(1));
	shelf_head(s, &r->head, text, strlen(text));
	json_decref(body);
	free(text);
}

static json_t *listed(struct shelf *s)
{
	struct shelf_object o;
	struct why why = {0};
	help_peer_fine(shelf_give(s, &(shoal_want){.kind = OBJECT_shelf}, &o, &why), &why);
	json_t *doc = json_loadb((const char *)shared_data(o.bytes), shared_len(o.bytes), 0, NULL);
	shared_drop(o.bytes);
	assert_non_null(doc);
	return doc;
}

static char *listed_text(struct shelf *s)
{
	json_t *doc = listed(s);
	char *text = json_dumps(doc, JSON_SORT_KEYS);
	json_decref(doc);
	return text;
}

static size_t count(struct shelf *s, const char *list)
{
	json_t *doc = listed(s);
	size_t n = json_array_size(json_object_get(doc, list));
	json_decref(doc);
	return n;
}

static const json_t *newest(const json_t *doc)
{
	return json_array_get(json_object_get(doc, "snapshots"), 0);
}

static struct shared *give(struct shelf *s, const shoal_want *want)
{
	struct shelf_object o;
	struct why why = {0};
	help_peer_fine(shelf_give(s, want, &o, &why), &why);
	return o.bytes;
}

static void what_was_reached_is_given(void **state)
{
	(void)state;
	struct help_peer p;
	struct help_peer_records r[3] = {{.n = 0}};
	struct ledger_head at = {0};
	const char *theirs = NULL;
	help_peer_open(&p, (const char *const[]){"round.snapshot_every=2", NULL});
	struct standing *peer = help_peer_begin(&p, 1, "a");
	struct shelf *s = open_shelf(&p, "a");
	for (int i = 0; i < 3; i++) {
		play(&p, peer, &r[i]);
		if (i == 1)
			theirs = help_peer_snapshot(&p, &at);
		hear(s, &p, &r[i]);
		json_t *doc = listed(s); /* not believed yet */
		assert_int_equal(
			json_integer_value(json_object_get(doc, "next")), r[i].head.sequence);
		json_decref(doc);
		shelf_reached(s, &r[i].head);
	}
	json_t *doc = listed(s);
	assert_int_equal(json_integer_value(json_object_get(doc, "next")), 0);
	assert_non_null(strstr(json_string_value(json_object_get(doc, "head")), "\"round\":3"));
	assert_int_equal(json_integer_value(json_object_get(newest(doc), "round")), 2);
	assert_int_equal(json_integer_value(json_object_get(newest(doc), "sequence")), at.sequence);

	/* the same bytes as the snapshot that the replica itself saves */
	shoal_want want = {.kind = OBJECT_piece};
	struct hash name;
	struct why why = {0};
	uint8_t *file;
	size_t n;
	assert_int_equal(
		hash_parse(json_string_value(json_object_get(newest(doc), "blob")), &name), 0);
	memcpy(want.name, name.b, sizeof want.name);
	struct shared *bytes = give(s, &want);
	help_peer_fine(file_read(theirs, 1 << 28, &file, &n, &why), &why);
	assert_int_equal(shared_len(bytes), n < OBJECT_PIECE ? n : OBJECT_PIECE);
	assert_memory_equal(shared_data(bytes), file, shared_len(bytes));
	free(file);
	shared_drop(bytes);

	/* every entry, or those after one */
	bytes = give(s, &(shoal_want){.kind = OBJECT_chain, .offset = at.sequence});
	struct ledger_entry e = {0};
	size_t used;
	help_peer_fine(
		ledger_entry_decode(shared_data(bytes), shared_len(bytes), &used, &e, &why), &why);
	assert_int_equal(e.sequence, at.sequence + 1);
	ledger_entry_release(&e);
	shared_drop(bytes);
	json_decref(doc);
	for (int i = 0; i < 3; i++)
		help_peer_drop(&r[i]);
	shelf_close(s);
	standing_free(peer);
	help_peer_release(&p);
}

static void what_is_not_there_is_refused(void **state)
{
	(void)state;
	struct help_peer p;
	struct shelf_object o;
	struct why why = {0};
	help_peer_open(&p, NULL);
	struct shelf *s = open_shelf(&p, "empty");
	assert_int_equal(count(s, "snapshots"), 0);
	assert_int_equal(shelf_give(s, &(shoal_want){.kind = OBJECT_piece}, &o, &why), ERR_missing);
	assert_int_equal(shelf_give(s, &(shoal_want){.kind = OBJECT_chain}, &o, &why), ERR_missing);
	assert_int_equal(
		shelf_give(s, &(shoal_want){.kind = OBJECT_chain, .offset = UINT64_MAX}, &o, &why),
		ERR_missing);
	assert_int_equal(shelf_give(s, &(shoal_want){.kind = OBJECT_contribution}, &o, &why),
		ERR_unsupported);
	shelf_close(s);
	help_peer_release(&p);
}

static void a_crash_costs_only_what_was_cut_short(void **state)
{
	(void)state;
	struct help_peer p;
	struct help_peer_records r = {.n = 0};
	help_peer_open(&p, (const char *const[]){"round.snapshot_every=1", NULL});
	struct standing *peer = help_peer_begin(&p, 1, "b");
	struct shelf *s = open_shelf(&p, "b");
	play(&p, peer, &r);
	hear(s, &p, &r);
	shelf_reached(s, &r.head);
	struct shared *before = give(s, &(shoal_want){.kind = OBJECT_chain});
	char *list = listed_text(s);
	shelf_close(s);

	/* half of the next entry was written */
	char *path = alloc_must_printf("%s/shelf/chain", help_peer_path("b"));
	int fd = open(path, O_WRONLY | O_APPEND);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, r.at[0].bytes, 100), 100);
	close(fd);
	s = open_shelf(&p, "b");
	struct shared *after = give(s, &(shoal_want){.kind = OBJECT_chain});
	assert_int_equal(shared_len(after), shared_len(before));
	assert_memory_equal(shared_data(after), shared_data(before), shared_len(before));
	char *again = listed_text(s);
	assert_string_equal(again, list);

	/* and goes on */
	struct help_peer_records next = {.n = 0};
	play(&p, peer, &next);
	hear(s, &p, &next);
	shelf_reached(s, &next.head);
	uint64_t from;
	assert_false(shelf_gap(s, &from));
	assert_int_equal(from, next.head.sequence);
	free(list);
	free(again);
	free(path);
	shared_drop(before);
	shared_drop(after);
	help_peer_drop(&r);
	help_peer_drop(&next);
	shelf_close(s);
	standing_free(peer);
	help_peer_release(&p);
}

static void who_came_late_asks_for_what_was_before(void **state)
{
	(void)state;
	struct help_peer p;
	struct help_peer_records r[2] = {{.n = 0}};
	uint64_t after = 1;
	help_peer_open(&p, (const char *const[]){"round.snapshot_every=1", NULL});
	struct standing *peer = help_peer_begin(&p, 1, "c");
	struct shelf *first = open_shelf(&p, "c"), *late = open_shelf(&p, "late");
	for (int i = 0; i < 2; i++) {
		play(&p, peer, &r[i]);
		hear(first, &p, &r[i]);
		shelf_reached(first, &r[i].head);
	}
	hear(late, &p, &r[1]);
	shelf_reached(late, &r[1].head);
	assert_true(shelf_gap(late, &after));
	assert_int_equal(after, 0);
	assert_int_equal(count(late, "records"), 0);
	struct shared *chain = give(first, &(shoal_want){.kind = OBJECT_chain});
	shelf_chain(late, shared_data(chain), shared_len(chain));
	assert_false(shelf_gap(late, &after));
	assert_int_equal(count(late, "records"), r[1].n);
	/* noise is passed over */
	shelf_chain(late, "no entries at all, though long enough to be one", 40);
	assert_int_equal(count(late, "records"), r[1].n);
	shared_drop(chain);
	help_peer_drop(&r[0]);
	help_peer_drop(&r[1]);
	shelf_close(first);
	shelf_close(late);
	standing_free(peer);
	help_peer_release(&p);
}

static void another_ledger_is_not_kept(void **state)
{
	(void)state;
	struct help_peer p;
	struct help_peer_records r = {.n = 0};
	help_peer_open(&p, (const char *const[]){"round.snapshot_every=1", NULL});
	struct standing *peer = help_peer_begin(&p, 1, "d");
	struct shelf *s = open_shelf(&p, "d");
	play(&p, peer, &r);
	struct ledger_head other = r.head;
	other.hash.b[0] ^= 1;
	hear(s, &p, &r);
	shelf_reached(s, &other);
	uint64_t after = 1;
	assert_true(shelf_gap(s, &after));
	assert_int_equal(after, 0);
	assert_int_equal(count(s, "records"), 0);
	assert_int_equal(count(s, "snapshots"), 0);
	help_peer_drop(&r);
	shelf_close(s);
	standing_free(peer);
	help_peer_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_reached_is_given),
		cmocka_unit_test(what_is_not_there_is_refused),
		cmocka_unit_test(a_crash_costs_only_what_was_cut_short),
		cmocka_unit_test(who_came_late_asks_for_what_was_before),
		cmocka_unit_test(another_ledger_is_not_kept),
	};
	return cmocka_run_group_tests(tests, help_peer_setup, help_peer_teardown);
}
