/* The manifest: its text is canonical, and every way to lie in it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/json.h"
#include "model/manifest.h"
#include "tests/help_model.h"

#define HASH_A "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SHARD(bytes, tokens) "{\"bytes\":" #bytes ",\"hash\":\"" HASH_A "\",\"tokens\":" #tokens "}"
#define SPLIT(shards, text, tokens) \
	"{\"shards\":[" shards "],\"text_bytes\":" #text ",\"tokens\":" #tokens "}"
#define MANIFEST(nats, train, validation, vocab) \
	"{\"micronats\":" nats ",\"shoal_manifest\":1,\"tokenizer\":\"" HASH_A \
	"\",\"train\":" train ",\"validation\":" validation ",\"vocab\":" vocab "}"
#define NATS "[3000000,2000000,1000000]"
#define GOOD \
	MANIFEST(NATS, SPLIT(SHARD(1024, 500) "," SHARD(44, 10), 1200, 510), SPLIT("", 0, 0), "300")

static void good_ones_are_read(void **state)
{
	(void)state;
	struct manifest *m = NULL;
	struct why why = {0};
	if (manifest_parse(GOOD, strlen(GOOD), &m, &why))
		fail_msg("%s", why.text);
	assert_string_equal(m->text, GOOD);
	struct hash id = hash_of(GOOD, strlen(GOOD));
	assert_true(hash_equal(&id, &m->id));
	assert_int_equal(m->vocab, 300);
	assert_int_equal(m->micronats[1], 2000000);
	assert_int_equal(m->train.n_shards, 2);
	assert_int_equal(m->train.tokens, 510);
	assert_int_equal(m->train.text_bytes, 1200);
	assert_int_equal(m->train.shards[1].tokens, 10);
	assert_int_equal(m->train.shards[1].bytes, 44);
	assert_int_equal(m->train.shards[0].hash.b[1], 0x11);
	assert_int_equal(m->validation.n_shards, 0);
	/* The text is what json_canonical would make, from whatever it was read. */
	json_t *doc;
	assert_int_equal(json_parse(GOOD, strlen(GOOD), 1u << 20, &doc, NULL), ERR_OK);
	char *canonical = json_canonical(doc), *loose = json_dumps(doc, JSON_INDENT(3));
	assert_string_equal(m->text, canonical);
	struct manifest *again = NULL;
	help_model_write("m.json", loose, strlen(loose));
	assert_int_equal(manifest_load(help_model_path("m.json"), &again, &why), ERR_OK);
	assert_string_equal(again->text, m->text);
	free(canonical);
	free(loose);
	json_decref(doc);
	manifest_free(again);
	manifest_free(m);
	manifest_free(NULL);
}

static void lies_are_refused(void **state)
{
	(void)state;
#define ONE SPLIT(SHARD(524, 500), 500, 500)
#define NONE SPLIT("", 0, 0)
	static const struct {
		const char *text;
		enum err code;
		const char *part;
	} rows[] = {
		{"", ERR_truncated, "empty"},
		{"[1]", ERR_magic, "not a manifest"},
		{"{}", ERR_magic, "not a manifest"},
		{"{\"shoal_manifest\":2}", ERR_version, "version 2, this program reads version 1"},
		{"{\"shoal_manifest\":1}", ERR_syntax, "tokenizer: is missing"},
		{MANIFEST(NATS, ONE, NONE, "256,\"x\":1"), ERR_syntax, "x"},
		{MANIFEST(NATS, ONE, NONE, "255"), ERR_syntax, "vocab"},
		{MANIFEST(NATS, ONE, NONE, "262145"), ERR_syntax, "vocab"},
		{MANIFEST("[1,2]", ONE, NONE, "256"), ERR_syntax, "micronats"},
		{MANIFEST("[1,2,-3]", ONE, NONE, "256"), ERR_syntax, "micronats"},
		{MANIFEST("[1,2,9e9]", ONE, NONE, "256"), ERR_syntax, "micronats"},
		{MANIFEST("7", ONE, NONE, "256"), ERR_syntax, "micronats"},
		{MANIFEST(NATS, NONE, ONE, "256"), ERR_syntax, "train: has no shards"},
		{MANIFEST(NATS, "[]", ONE, "256"), ERR_syntax, "train"},
		{MANIFEST(NATS, ONE, NONE, "257"), ERR_syntax, "train.shards[0].bytes"},
		{MANIFEST(NATS, SPLIT(SHARD(523, 500), 500, 500), NONE, "256"), ERR_syntax,
			"train.shards[0].bytes"},
		{MANIFEST(NATS, SPLIT(SHARD(24, 0), 0, 0), NONE, "256"), ERR_syntax,
			"train.shards[0].tokens"},
		{MANIFEST(NATS, SPLIT(SHARD(268435481, 268435457), 268435457, 268435457), NONE,
			 "256"),
			ERR_syntax, "train.shards[0].tokens"},
		{MANIFEST(NATS, SPLIT(SHARD(524, 500), 500, 501), NONE, "256"), ERR_syntax,
			"train.tokens"},
		{MANIFEST(NATS, SPLIT(SHARD(524, 500), 499, 500), NONE, "256"), ERR_syntax,
			"train.text_bytes"},
		{MANIFEST(NATS, SPLIT(SHARD(524, 500), 256001, 500), NONE, "256"), ERR_syntax,
			"train.text_bytes"},
		{MANIFEST(NATS, ONE, SPLIT("7", 0, 0), "256"), ERR_syntax, "validation.shards[0]"},
		{MANIFEST(NATS, ONE, SPLIT("{\"bytes\":25,\"hash\":\"xy\",\"tokens\":1}", 1, 1),
			 "256"),
			ERR_syntax, "validation.shards[0].hash"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct manifest *m = NULL;
		struct why why = {0};
		assert_int_equal(
			manifest_parse(rows[i].text, strlen(rows[i].text), &m, &why), rows[i].code);
		assert_null(m);
		help_model_told(&why, rows[i].code, rows[i].part);
	}
	struct manifest *m = NULL;
	struct why why;
	assert_int_equal(manifest_load(help_model_path("none"), &m, &why), ERR_missing);
	help_model_write("bad", "{}", 2);
	assert_int_equal(manifest_load(help_model_path("bad"), &m, &why), ERR_magic);
	help_model_told(&why, ERR_magic, "bad: not a manifest");
}

/* A list longer than allowed, and one as long as allowed, which must fit the file's own limit. */
static void the_list_is_bounded(void **state)
{
	(void)state;
	struct manifest m = {.vocab = 256};
	m.train.n_shards = m.validation.n_shards = MANIFEST_SHARDS_MAX + 1;
	m.train.shards = m.validation.shards =
		alloc_must_zero(MANIFEST_SHARDS_MAX + 1, sizeof *m.train.shards);
	for (size_t i = 0; i <= MANIFEST_SHARDS_MAX; i++)
		m.train.shards[i] = (struct manifest_shard){.tokens = MANIFEST_SHARD_TOKENS_MAX,
			.bytes = MANIFEST_SHARD_TOKENS_MAX + 24ull};
	for (unsigned over = 0; over < 2; over++) {
		m.train.n_shards = m.validation.n_shards = MANIFEST_SHARDS_MAX + over;
		m.train.tokens = m.validation.tokens = m.train.n_shards * (1ull << 28);
		m.train.text_bytes = m.validation.text_bytes = m.train.tokens * 128;
		struct manifest *again = NULL;
		struct why why = {0};
		assert_int_equal(manifest_print(&m, &why), ERR_OK);
		assert_int_equal(manifest_parse(m.text, strlen(m.text), &again, &why),
			over ? ERR_syntax : ERR_OK);
		manifest_free(again);
	}
	free(m.train.shards);
	free(m.text);
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	enum err e;
	long n = 1;
	do {
		struct manifest *m = NULL;
		alloc_fail_at(n++);
		e = manifest_parse(GOOD, strlen(GOOD), &m, NULL);
		manifest_free(m);
		assert_true(e == ERR_OK || e == ERR_nomem);
	} while (e);
	alloc_fail_at(0);
	assert_true(n > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, help_model_setup, help_model_teardown)
		T(good_ones_are_read),
		T(lies_are_refused),
		T(the_list_is_bounded),
		T(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
