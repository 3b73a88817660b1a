/* What a coordinator that rebuilds its folder makes of the lists that peers give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "coordinator/rebuild_parts.h"
#include "net/signed.h"

static const struct hash run = {{7}};

static char *head(const struct sign_key *k, const struct hash *of, uint64_t sequence)
{
	const struct ledger_head h = {sequence, sequence / 2, {{9}}};
	json_t *body = ledger_head_json(&h, of);
	char *text = signed_make("head", body, k);
	json_decref(body);
	return text;
}

static const char blob[] = "1111111111111111111111111111111111111111111111111111111111111111";

/* A list as a peer gives it: one snapshot, n records after number first. */
static char *list(const char *signed_head, uint64_t snapshot, uint64_t first, int n)
{
	json_t *records = json_array();
	for (int i = 0; i < n; i++)
		json_array_append_new(records,
			json_pack("{s:I, s:s, s:i}", "sequence",
				(json_int_t)(first + (uint64_t)i + 1), "blob", blob, "bytes", 100));
	json_t *doc = json_pack("{s:s, s:i, s:i, s:[{s:I, s:I, s:s, s:s, s:i}], s:o}", "head",
		signed_head, "next", 0, "taken", 50, "snapshots", "round",
		(json_int_t)(snapshot / 2), "sequence", (json_int_t)snapshot, "head", blob, "blob",
		blob, "bytes", 1000, "records", records);
	char *text = json_dumps(doc, 0);
	json_decref(doc);
	return text;
}

static enum err parse(const char *text, const struct sign_key *k, struct rebuild_list *out)
{
	struct sign_public public = sign_public_of(k);
	struct why why = {0};
	enum err err = rebuild_list_parse(text, strlen(text), &run, &public, out, &why);
	if (err)
		assert_true(why.text[0]);
	return err;
}

/* Whether a snapshot at this entry with n records after number first serves for head 10. */
static bool serves(uint64_t snapshot, uint64_t first, int n)
{
	struct sign_key *k = sign_make();
	struct rebuild_list l;
	struct store_snapshot chosen;
	size_t at = 99;
	char *h = head(k, &run, 10), *text = list(h, snapshot, first, n);
	assert_int_equal(parse(text, k, &l), ERR_OK);
	assert_int_equal(l.head.sequence, 10);
	assert_int_equal(l.taken, 50);
	bool yes = rebuild_list_choose(&l, &chosen, &at);
	if (yes && n)
		assert_int_equal(l.records[at].sequence, snapshot + 1);
	rebuild_list_release(&l);
	free(h);
	free(text);
	sign_free(k);
	return yes;
}

static void records_must_lead_from_the_snapshot_to_the_head(void **state)
{
	(void)state;
	assert_true(serves(6, 6, 4));
	assert_true(serves(6, 2, 8));
	assert_true(serves(10, 10, 0));
	assert_true(serves(6, 6, 9));   /* they may go on */
	assert_false(serves(6, 6, 3));  /* end before it */
	assert_false(serves(6, 7, 9));  /* begin too late */
	assert_false(serves(12, 2, 8)); /* a snapshot beyond the head */
}

static void what_is_not_a_list_or_not_signed_is_refused(void **state)
{
	(void)state;
	struct sign_key *k = sign_make(), *other = sign_make();
	const struct hash stranger = {{8}};
	struct rebuild_list l;
	char *good = head(k, &run, 10), *forged = head(other, &run, 10),
	     *foreign = head(k, &stranger, 10);
	const struct {
		char *text;
		enum err code;
	} cases[] = {
		{list(forged, 6, 6, 4), ERR_signature},
		{list(foreign, 6, 6, 4), ERR_wrong_run},
		{list("", 6, 6, 4), ERR_missing},
		{list(good, 6, 6, (int)REBUILD_RECORDS + 1), ERR_syntax},
		{strdup("{}"), ERR_syntax},
		{strdup("[1]"), ERR_syntax},
		{strdup("no list"), ERR_syntax},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(parse(cases[i].text, k, &l), cases[i].code);
		assert_null(l.records);
		free(cases[i].text);
	}
	free(good);
	free(forged);
	free(foreign);
	sign_free(k);
	sign_free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_must_lead_from_the_snapshot_to_the_head),
		cmocka_unit_test(what_is_not_a_list_or_not_signed_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
