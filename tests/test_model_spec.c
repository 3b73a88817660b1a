/* The run spec: what is accepted, what is refused and in which words, ids, overrides, the schedule.
 */
#include <math.h>
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
#include "base/json.h"
#include "model/spec.h"

#define DEMO "configs/demo.json"

static struct spec *load(const char *const *overrides, size_t n)
{
	struct spec *s = NULL;
	struct why why = {0};
	if (spec_load(DEMO, overrides, n, &s, NULL, &why))
		fail_msg("%s", why.text);
	return s;
}

static void read_the_demo(void **state)
{
	(void)state;
	struct spec *s = load(NULL, 0);
	assert_string_equal(s->name, "demo");
	assert_int_equal(s->seed, 1);
	assert_string_equal(s->model.builder, "gpt");
	assert_int_equal(s->model.layers, 2);
	assert_int_equal(s->model.width, 128);
	assert_int_equal(s->model.heads, 4);
	assert_int_equal(s->model.context, 128);
	assert_int_equal(s->model.vocab, 256);
	assert_true(s->model.tied);
	assert_int_equal(s->model.n_shards, 2);
	assert_int_equal(s->model.shard_first[1], 1);
	assert_true(hash_is_zero(&s->manifest) && hash_is_zero(&s->init));
	assert_int_equal(spec_step_tokens(s), 256);
	assert_true(s->train.lr == 0.002 && s->train.final_lr == 0.1 && s->train.clip == 1);
	assert_int_equal(s->round.mode, SPEC_fixed);
	assert_int_equal(s->round.steps, 20);
	assert_int_equal(s->round.peers_min, 3);
	/* The run ends with a round: 78 of them. */
	assert_int_equal(s->train.total_tokens,
		78 * s->round.steps * s->round.peers_min * spec_step_tokens(s));
	assert_string_equal(s->outer.rule, "sparseloco");
	assert_string_equal(s->codec.select, "topk");
	assert_string_equal(s->codec.values, "two");
	assert_int_equal(s->codec.k, 256);
	struct hash id = hash_of(s->text, strlen(s->text));
	assert_true(hash_equal(&id, &s->id));
	spec_free(s);
}

static void fill_in_defaults(void **state)
{
	(void)state;
	static const char text[] =
		"{\"shoal\":1,\"name\":\"x\",\"seed\":7,"
		"\"model\":{\"builder\":\"gpt\",\"layers\":7,\"width\":8,\"heads\":2,\"context\":"
		"16,\"vocab\":9,"
		"\"shards\":3},\"train\":{\"batch\":6,\"lr\":1,\"total_tokens\":100},"
		"\"round\":{\"mode\":\"timed\",\"seconds\":60},\"outer\":{\"rule\":\"diloco\"},"
		"\"codec\":{\"select\":\"all\",\"values\":\"int8\"}}";
	struct spec *s = NULL;
	struct why why = {0};
	assert_int_equal(spec_parse(text, sizeof text - 1, &s, NULL, &why), ERR_OK);
	assert_true(s->model.tied);
	assert_int_equal(s->model.n_shards, 3);
	assert_int_equal(s->model.shard_first[0], 0);
	assert_int_equal(s->model.shard_first[1], 2);
	assert_int_equal(s->model.shard_first[2], 4);
	assert_int_equal(s->train.micro_batch, 6);
	assert_int_equal(s->train.seq, 16);
	assert_true(s->train.beta1 == 0.9 && s->train.beta2 == 0.95 && s->train.eps == 1e-8);
	assert_true(s->train.weight_decay == 0.1 && s->train.clip == 1 && s->train.final_lr == 0.1);
	assert_int_equal(s->train.warmup_tokens, 0);
	assert_int_equal(s->round.mode, SPEC_timed);
	assert_int_equal(s->round.steps, 0);
	assert_true(s->round.seconds == 60 && s->round.quorum == 0.67);
	assert_int_equal(s->round.peers_min, 1);
	assert_int_equal(s->round.validate_every, 10);
	assert_int_equal(s->round.snapshot_every, 20);
	assert_int_equal(s->outer.merged, SPEC_int8);
	assert_true(s->outer.lr == 1 && s->outer.momentum == 0 && s->codec.decay == 0.95);
	assert_int_equal(s->codec.chunk, 4096);
	assert_true(s->codec.k == 0 && s->codec.threshold == 0 && !s->codec.dct);
	spec_free(s);
}

static void read_how_to_compute(void **state)
{
	(void)state;
	struct spec *s = load(NULL, 0);
	assert_int_equal(s->train.precision, PRECISION_float32);
	assert_false(s->train.recompute);
	spec_free(s);
	static const char *const sets[] = {"train.precision=bf16", "train.recompute=true"};
	s = load(sets, 2);
	assert_int_equal(s->train.precision, PRECISION_bf16);
	assert_true(s->train.recompute);
	spec_free(s);
}

/* Every fragment has a shard: the demo has two. */
static void fragments_are_no_more_than_shards(void **state)
{
	(void)state;
	const char *sets[] = {
		"round.mode=timed", "round.steps=null", "round.seconds=60", "round.fragments=2"};
	struct spec *s = load(sets, 4);
	assert_true(s->round.overlap);
	assert_int_equal(s->round.fragments, 2);
	spec_free(s);
	s = NULL;
	struct why why = {0};
	sets[3] = "round.fragments=3";
	assert_int_equal(spec_load("configs/demo.json", sets, 4, &s, NULL, &why), ERR_range);
	assert_non_null(strstr(why.text, "round.fragments: is 3, and the model has 2 shards"));
}

/* Each mistake is behind its line, but for a member that was not in the file. */
static void name_lines_of_the_file(void **state)
{
	(void)state;
	struct spec *s = NULL;
	struct why why = {0};
	static const char *const set = "seed=x";
	assert_int_equal(
		spec_load("tests/data/spec_lines.json", &set, 1, &s, NULL, &why), ERR_range);
	assert_string_equal(why.text,
		"tests/data/spec_lines.json: seed: must be a whole number from "
		"0 to 9223372036854775807, is \"x\" (and 3 more)");
	struct buf all;
	buf_init(&all, SPEC_MISTAKES_MAX);
	assert_int_equal(
		spec_load("tests/data/spec_lines.json", &set, 1, &s, &all, &why), ERR_range);
	buf_put_u8(&all, 0);
	const char *text = (const char *)all.data;
	assert_non_null(strstr(text, "\nline 9: model.width: must be a multiple of heads"));
	assert_non_null(strstr(text, "\nline 14: train.lr: is missing"));
	assert_non_null(strstr(text, "\nline 15: train.bach: is not known here"));
	buf_release(&all);
}

/* Each override makes one mistake in the demo; what the sentence must hold. */
static void name_each_mistake(void **state)
{
	(void)state;
	static const struct {
		const char *set, *says;
	} rows[] = {
		{"shoal=2", "install a newer one"},
		{"shoal=0", "shoal: "},
		{"name=", "name: must not be empty"},
		{"name=a b", "name: may have letters, digits"},
		{"name=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			"name: "},
		{"seed=-1", "seed: "},
		{"seed=1.5", "seed: "},
		{"init=abc", "init: "},
		{"colour=red", "colour: "},
		{"model=3", "model: "},
		{"model.builder=mamba", "gpt"},
		{"model.layers=0", "model.layers: "},
		{"model.layers=99999999999999999999", "model.layers: "},
		{"model.width=130", "multiple of heads: 130 is not one of 4"},
		{"model.vocab=\"many\"", "model.vocab: "},
		{"model.tied=1", "model.tied: "},
		{"model.shards=3", "model.shards: "},
		{"model.shards=0", "model.shards: "},
		{"model.shards=[]", "must name the first layer"},
		{"model.shards=[1]", "item 1 is not"},
		{"model.shards=[0,0]", "item 2 is not"},
		{"model.shards=[0,2]", "item 2 is not"},
		{"model.shards=[0,\"1\"]", "item 2 is not"},
		{"model.shards={}", "model.shards: "},
		{"model.depth=2", "model.depth: "},
		{"data.manifest=00", "data.manifest: "},
		{"train.micro_batch=3", "must divide batch (2), is 3"},
		{"train.seq=129", "must be at most model.context (128), is 129"},
		{"train.lr=0", "train.lr: "},
		{"train.lr=\"fast\"", "train.lr: "},
		{"train.beta2=1", "train.beta2: "},
		{"train.warmup_tokens=1198081",
			"must be at most total_tokens (1198080), is 1198081"},
		{"round.mode=\"slow\"", "timed"},
		{"round.mode=\"timed\"", "round.seconds: "},
		{"round.seconds=5", "belongs to another mode than \"fixed\""},
		{"round.quorum=0", "round.quorum: "},
		{"round.overlap=true", "round.overlap: is for timed rounds"},
		{"round.fragments=0", "round.fragments: must be a whole number from 1 to 16"},
		{"round.fragments=2", "round.fragments: is for rounds that overlap"},
		{"outer.rule=average",
			"needs the parameters as they are: select \"all\", values \"f32\" "
			"and no dct; here are \"topk\" and \"two\""},
		{"codec.name=topk2",
			"codec.name: is how older specs named a codec; write \"select\": "
			"\"topk\", \"values\": \"two\" and k instead"},
		{"codec.name=raw", "write \"select\": \"all\", \"values\": \"f32\" instead"},
		{"codec.name=int8", "write \"select\": \"all\", \"values\": \"int8\" instead"},
		{"outer.merged=int2", "outer.merged: must be one of never, int8, int4"},
		{"codec.select=", "codec.select: must not be empty"},
		{"codec.values=a b", "codec.values: may have letters"},
		{"codec.dct=1", "codec.dct: must be true or false"},
		{"codec.threshold=-1", "codec.threshold: "},
		{"codec.k=5000", "must be at most codec.chunk (4096), is 5000"},
		{"codec.decay=2", "codec.decay: "},
		{"train.precision=half", "train.precision: must be one of float32, bf16"},
		{"train.recompute=1", "train.recompute: must be true or false"},
		{"model.kv_heads=2", "model.kv_heads: is not known here"},
		{"model.norm_eps=0", "model.norm_eps: "},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct spec *s = NULL;
		struct why why = {0};
		enum err err = spec_load(DEMO, &rows[i].set, 1, &s, NULL, &why);
		if (err != ERR_range || why.code != err || !strstr(why.text, rows[i].says) ||
			strncmp(why.text, DEMO ": ", strlen(DEMO ": ")))
			fail_msg("%s: error %d, \"%s\"", rows[i].set, err, why.text);
		assert_null(s);
	}
}

static void name_all_mistakes_at_once(void **state)
{
	(void)state;
	static const char *const sets[] = {
		"train.lr=-1", "model.heads=3", "colour=1", "round.steps=\"ten\"", "codec.k=0"};
	static const char *const paths[] = {
		"train.lr: ", "model.width: ", "colour: ", "round.steps: ", "codec.k: "};
	struct spec *s = NULL;
	struct why why = {0};
	struct buf all;
	buf_init(&all, SPEC_MISTAKES_MAX);
	assert_int_equal(spec_load(DEMO, sets, 5, &s, &all, &why), ERR_range);
	buf_put_u8(&all, 0);
	const char *text = (const char *)all.data;
	size_t lines = 0;
	for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	assert_int_equal(lines, 5);
	for (size_t i = 0; i < 5; i++)
		if (!strstr(text, paths[i]))
			fail_msg("%s is not named in:\n%s", paths[i], text);
	assert_non_null(strstr(why.text, "(and 4 more)"));
	buf_release(&all);
}

static void refuse_what_is_no_spec(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"", "{", "[]", "{}", "{\"shoal\":1,\"shoal\":1}", "\xff\xfe", "{\"model\":{}}"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct spec *s = NULL;
		struct why why = {0};
		enum err err = spec_parse(texts[i], strlen(texts[i]), &s, NULL, &why);
		if (!err || why.code != err || !why.text[0])
			fail_msg("%s: error %d, \"%s\"", texts[i], err, why.text);
		assert_null(s);
	}
	struct spec *s = NULL;
	struct why why = {0};
	assert_int_equal(spec_load("/nowhere/at/all.json", NULL, 0, &s, NULL, &why), ERR_missing);
	assert_non_null(strstr(why.text, "/nowhere/at/all.json"));
	assert_int_not_equal(spec_load("/tmp", NULL, 0, &s, NULL, &why), ERR_OK);
	char *big = alloc_must(SPEC_MAX_BYTES + 1);
	memset(big, ' ', SPEC_MAX_BYTES + 1);
	assert_int_equal(spec_parse(big, SPEC_MAX_BYTES + 1, &s, NULL, &why), ERR_toobig);
	free(big);
}

static void give_one_id_to_one_meaning(void **state)
{
	(void)state;
	struct spec *a = load(NULL, 0), *b = NULL;
	struct why why = {0};
	/* The canonical text and any other order and spacing of it are the same spec. */
	assert_int_equal(spec_parse(a->text, strlen(a->text), &b, NULL, &why), ERR_OK);
	assert_true(hash_equal(&a->id, &b->id));
	assert_string_equal(a->text, b->text);
	spec_free(b);
	b = load((const char *const[]){"train.lr=2e-3"}, 1);
	assert_true(hash_equal(&a->id, &b->id));
	spec_free(b);
	b = load((const char *const[]){"train.lr=0.001"}, 1);
	assert_false(hash_equal(&a->id, &b->id));
	spec_free(b);
	spec_free(a);
}

static void apply_overrides(void **state)
{
	(void)state;
	static const char hex[] =
		"00000000000000000000000000000000000000000000000000000000000000e1";
	char set[128];
	snprintf(set, sizeof set, "data.manifest=%s", hex);
	struct spec *s = load((const char *const[]){set, "name=7", "model.shards=1",
				      "round.steps=10", "outer.momentum=0.5"},
		5);
	char got[HASH_HEX];
	hash_hex(&s->manifest, got);
	assert_string_equal(got, hex);
	assert_string_equal(s->name, "7");
	assert_int_equal(s->model.n_shards, 1);
	assert_int_equal(s->round.steps, 10);
	assert_true(s->outer.momentum == 0.5);
	spec_free(s);

	static const char *const bad[] = {"", "train.lr", "=1", ".lr=1", "train.=1", "train.lr.x=1",
		"name.x=1", "model.shards.0=1"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct why why = {0};
		s = NULL;
		if (spec_load(DEMO, &bad[i], 1, &s, NULL, &why) != ERR_usage || !why.text[0])
			fail_msg("\"%s\": \"%s\"", bad[i], why.text);
	}
}

static void tell_the_difference(void **state)
{
	(void)state;
	struct spec *a = load(NULL, 0);
	struct spec *b = load((const char *const[]){"train.lr=0.001", "model.shards=[0]", "seed=2",
				      "outer.momentum=0.5"},
		4);
	struct buf text;
	buf_init(&text, 4096);
	spec_diff(a, a, &text);
	assert_int_equal(text.len, 0);
	spec_diff(a, b, &text);
	buf_put_u8(&text, 0);
	assert_string_equal((const char *)text.data, "model.shards: [0,1] here, [0] there\n"
						     "outer.momentum: not set here, 0.5 there\n"
						     "seed: 1 here, 2 there\n"
						     "train.lr: 0.002 here, 0.001 there\n");
	buf_release(&text);
	spec_free(a);
	spec_free(b);
}

static void follow_the_schedule(void **state)
{
	(void)state;
	struct spec_train t = {
		.lr = 0.002, .final_lr = 0.1, .warmup_tokens = 1000, .total_tokens = 1001000};
	assert_true(spec_lr(&t, 0) == 0);
	assert_true(fabs(spec_lr(&t, 250) - 0.0005) < 1e-18);
	assert_true(spec_lr(&t, 1000) == 0.002);
	assert_true(spec_lr(&t, 1001000) == 0.002 * 0.1);
	assert_true(spec_lr(&t, UINT64_MAX) == 0.002 * 0.1);
	double before = 1, worst = 0;
	for (uint64_t k = 1000; k <= 1001000; k += 250) {
		double lr = spec_lr(&t, k), x = (double)(k - 1000) / 1e6;
		double want = 0.002 * (0.1 + 0.9 * 0.5 * (1 + cos(3.14159265358979323846 * x)));
		worst = fmax(worst, fabs(lr - want) / want);
		assert_true(lr <= before);
		before = lr;
	}
	assert_true(worst < 1e-12);

	/* Known bits: another compiler or machine must not get others. */
	double lr = spec_lr(&t, 334333);
	uint64_t bits;
	memcpy(&bits, &lr, sizeof bits);
	assert_int_equal(bits, UINT64_C(0x3f59652cb41f03af));

	t.warmup_tokens = t.total_tokens;
	assert_true(spec_lr(&t, t.total_tokens - 1) < t.lr);
	assert_true(spec_lr(&t, t.total_tokens) == 0.002 * 0.1);
	t.warmup_tokens = 0;
	assert_true(spec_lr(&t, 0) == 0.002);
}

static char *text_of_file(const char *path)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	struct why why = {0};
	if (file_read(path, 1u << 20, &bytes, &n, &why))
		fail_msg("%s", why.text);
	return (char *)bytes;
}

/* Each name in (in, "name" of the readers has a row in the manual. */
static size_t members_in_manual(const char *path, const char *manual)
{
	char *source = text_of_file(path);
	size_t members = 0;
	for (const char *at = source; (at = strstr(at, "in, \"")) != NULL;) {
		at += strlen("in, \"");
		int n = (int)strcspn(at, "\"");
		char cell[80];
		snprintf(cell, sizeof cell, "%.*s`", n, at);
		if (n && !strstr(manual, cell))
			fail_msg("configs/README.md has no row for %.*s", n, at);
		members++;
	}
	free(source);
	return members;
}

static void document_every_member(void **state)
{
	(void)state;
	char *manual = text_of_file("configs/README.md");
	assert_true(members_in_manual("model/spec.c", manual) > 25);
	assert_true(members_in_manual("model/spec_model.c", manual) > 20);
	assert_true(members_in_manual("model/usergraph_read.c", manual) > 8);
	for (uint32_t i = 1; i < OP_COUNT; i++) {
		char cell[40];
		snprintf(cell, sizeof cell, "`%s`", op_def((enum op)i)->name);
		if (!strstr(manual, cell))
			fail_msg("configs/README.md does not know the op %s", cell);
	}
	static const char *const top[] = {"`shoal` |", "`name` |", "`seed` |", "`init` |"};
	for (size_t i = 0; i < sizeof top / sizeof *top; i++)
		assert_non_null(strstr(manual, top[i]));
	free(manual);
	struct spec *s = NULL;
	struct why why = {0};
	static const char *const others[] = {"gpt2-124m", "llama-tiny", "graph-tiny"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		char path[80];
		snprintf(path, sizeof path, "configs/%s.json", others[i]);
		if (spec_load(path, NULL, 0, &s, NULL, &why))
			fail_msg("%s", why.text);
		spec_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_the_demo),
		cmocka_unit_test(fill_in_defaults),
		cmocka_unit_test(fragments_are_no_more_than_shards),
		cmocka_unit_test(read_how_to_compute),
		cmocka_unit_test(name_lines_of_the_file),
		cmocka_unit_test(name_each_mistake),
		cmocka_unit_test(name_all_mistakes_at_once),
		cmocka_unit_test(refuse_what_is_no_spec),
		cmocka_unit_test(give_one_id_to_one_meaning),
		cmocka_unit_test(apply_overrides),
		cmocka_unit_test(tell_the_difference),
		cmocka_unit_test(follow_the_schedule),
		cmocka_unit_test(document_every_member),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
