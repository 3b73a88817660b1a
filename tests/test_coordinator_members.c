/* Members: numbers that are given out once, keys that are one member's, the signed roster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "coordinator/members.h"
#include "net/signed.h"
#include "tests/help_coordinator.h"

struct world {
	struct store *store;
	struct sign_key *key;
	struct members *members;
	struct hash run;
};

static struct world begin(void)
{
	struct world w = {.key = sign_make(), .run = hash_of("run", 3)};
	struct why why;
	assert_int_equal(store_open(help_coordinator_path("store.sqlite"), &w.store, &why), ERR_OK);
	assert_int_equal(members_load(w.store, &w.run, w.key, &w.members, &why), ERR_OK);
	return w;
}

static void end(struct world *w)
{
	members_free(w->members);
	store_close(w->store);
	sign_free(w->key);
}

static struct members_new newcomer(uint8_t sign, uint8_t curve, const char *name)
{
	struct members_new n = {.name = name, .version = "v", .now_s = 5};
	memset(n.sign, sign, sizeof n.sign);
	memset(n.curve, curve, sizeof n.curve);
	return n;
}

static uint32_t add(struct world *w, const struct members_new *n)
{
	struct why why;
	uint32_t number;
	assert_int_equal(members_find(w->members, n, &number, &why), ERR_missing);
	store_begin(w->store);
	number = members_add(w->members, n);
	assert_int_equal(store_commit(w->store, &why), ERR_OK);
	assert_int_equal(members_renew(w->members, &why), ERR_OK);
	return number;
}

static void numbers_are_given_out_once(void **state)
{
	(void)state;
	struct world w = begin();
	struct why why;
	uint32_t number;
	size_t n;
	struct members_new one = newcomer(1, 11, "one"), two = newcomer(2, 12, "zwei \xc3\xa4");
	assert_int_equal(members_count(w.members), 0);
	assert_int_equal(add(&w, &one), MEMBERS_FIRST);
	assert_int_equal(add(&w, &two), MEMBERS_FIRST + 1);
	assert_int_equal(members_find(w.members, &one, &number, &why), ERR_OK);
	assert_int_equal(number, MEMBERS_FIRST);
	assert_int_equal(members_by_link(w.members, two.curve), MEMBERS_FIRST + 1);
	assert_string_equal(members_at(w.members, MEMBERS_FIRST + 1)->name, two.name);
	assert_null(members_at(w.members, 0));
	assert_null(members_at(w.members, 1000000));
	uint8_t *links = members_links(w.members, &n);
	assert_int_equal(n, 2);
	assert_memory_equal(links + STORE_KEY, two.curve, STORE_KEY);
	free(links);

	/* the transaction that takes it in fails: the number is free again */
	struct members_new three = newcomer(3, 13, "three");
	store_begin(w.store);
	assert_int_equal(members_add(w.members, &three), MEMBERS_FIRST + 2);
	store_rollback(w.store);
	assert_int_equal(members_renew(w.members, &why), ERR_OK);
	assert_int_equal(members_count(w.members), 2);

	/* one that was removed keeps its number for ever */
	store_begin(w.store);
	assert_int_equal(members_remove(w.members, MEMBERS_FIRST + 1), ERR_OK);
	assert_int_equal(store_commit(w.store, &why), ERR_OK);
	assert_int_equal(members_renew(w.members, &why), ERR_OK);
	assert_int_equal(add(&w, &three), MEMBERS_FIRST + 2);
	assert_int_equal(members_by_link(w.members, two.curve), MEMBERS_NONE);
	assert_int_equal(members_find(w.members, &two, &number, &why), ERR_unknown_peer);
	help_coordinator_told(&why, ERR_unknown_peer, "removed by the operator");
	end(&w);
}

static void keys_are_one_members(void **state)
{
	(void)state;
	struct world w = begin();
	struct why why;
	uint32_t number;
	struct members_new one = newcomer(1, 11, "one"), thief = newcomer(1, 99, "thief"),
			   other = newcomer(99, 11, "other"), nameless = newcomer(5, 15, ""),
			   rude = newcomer(6, 16, "a\nb");
	add(&w, &one);
	assert_int_equal(members_find(w.members, &thief, &number, &why), ERR_exists);
	help_coordinator_told(&why, ERR_exists, "this signing key belongs to member 1");
	assert_int_equal(members_find(w.members, &other, &number, &why), ERR_exists);
	help_coordinator_told(&why, ERR_exists, "this link key belongs to member 1");
	assert_int_equal(members_find(w.members, &nameless, &number, &why), ERR_syntax);
	assert_int_equal(members_find(w.members, &rude, &number, &why), ERR_syntax);
	end(&w);
}

static void the_roster_is_signed_and_grows(void **state)
{
	(void)state;
	struct world w = begin();
	struct why why;
	json_t *body = NULL;
	struct roster *r = NULL;
	struct members_new one = newcomer(1, 11, "one");
	uint64_t version = roster_version(members_roster(w.members));
	add(&w, &one);
	const char *text = members_text(w.members);
	struct sign_public key = sign_public_of(w.key);
	assert_int_equal(signed_open(text, strlen(text), "roster", key.b, &body, &why), ERR_OK);
	assert_int_equal(roster_parse(body, &w.run, &r, &why), ERR_OK);
	assert_int_equal(roster_version(r), version + 1);
	assert_memory_equal(roster_by_number(r, MEMBERS_FIRST)->curve, one.curve, 32);
	roster_free(r);
	json_decref(body);
	end(&w);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, help_coordinator_setup, help_coordinator_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(numbers_are_given_out_once),
		TEST(keys_are_one_members),
		TEST(the_roster_is_signed_and_grows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
