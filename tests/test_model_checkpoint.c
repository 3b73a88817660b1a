/* Saved states that contradict themselves: each is refused with its path and a reason. */
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
#include "model/checkpoint.h"

static const char spec_text[] =
	"{\"shoal\":1,\"name\":\"x\",\"seed\":7,\"model\":{\"builder\":\"gpt\",\"layers\":2,"
	"\"width\":8,"
	"\"heads\":2,\"context\":4,\"vocab\":9,\"shards\":2},\"train\":{\"batch\":1,\"lr\":1,"
	"\"total_tokens\":100},\"round\":{\"mode\":\"fixed\",\"steps\":1},\"outer\":{\"rule\":"
	"\"mean_R\"},"
	"\"codec\":{\"select\":\"all\",\"values\":\"int8\"}}";

struct made {
	const char *kind, *spec; /* spec NULL: no section */
	bool other_run, short_shard, no_shard;
};

struct fixture {
	char dir[64], *path;
	struct spec *spec;
	struct graph *graph;
};

static int setup(void **state)
{
	struct fixture *f = alloc_must_zero(1, sizeof *f);
	struct why why;
	snprintf(f->dir, sizeof f->dir, "/tmp/shoal-test.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(spec_parse(spec_text, sizeof spec_text - 1, &f->spec, NULL, &why), ERR_OK);
	assert_int_equal(graph_build(&f->spec->model, 1, 1, &f->graph, &why), ERR_OK);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	if (f->path)
		(void)unlink(f->path);
	free(f->path);
	assert_int_equal(rmdir(f->dir), 0);
	graph_free(f->graph);
	spec_free(f->spec);
	free(f);
	return 0;
}

static void make(struct fixture *f, const struct made *m)
{
	struct statefile_out *out = NULL;
	struct why why;
	json_t *meta = json_object();
	struct statefile_head head = {.kind = m->kind, .run = f->spec->id, .meta = meta};
	head.run.b[0] ^= m->other_run;
	const struct statefile_series series = {f->dir, m->kind, m->kind, NULL};
	free(f->path);
	f->path = statefile_path(&series, 3);
	assert_int_equal(statefile_create(f->path, &head, &out, &why), ERR_OK);
	if (m->spec)
		assert_int_equal(
			statefile_add(out, "spec", m->spec, strlen(m->spec), &why), ERR_OK);
	for (uint32_t i = 0; i < f->graph->n_shards - m->no_shard; i++) {
		size_t n = f->graph->shard_params[i];
		float *values = alloc_must_zero(n, sizeof *values);
		char name[24];
		graph_init_shard(f->graph, i, f->spec->seed, values);
		snprintf(name, sizeof name, "param.%u", i);
		n = (n - (m->short_shard && i == 1)) * sizeof *values;
		assert_int_equal(statefile_add(out, name, values, n, &why), ERR_OK);
		free(values);
	}
	assert_int_equal(statefile_commit(out, &why), ERR_OK);
	json_decref(meta);
}

static void open_what_is_whole(void **state)
{
	struct fixture *f = *state;
	static const char *const kinds[] = {"local", "snapshot"};
	for (size_t k = 0; k < 2; k++) {
		make(f, &(struct made){.kind = kinds[k], .spec = spec_text});
		const char *const paths[] = {f->path, f->dir};
		for (size_t i = 0; i < 2; i++) {
			struct checkpoint c;
			struct why why = {0};
			if (checkpoint_open(paths[i], &c, NULL, &why))
				fail_msg("%s", why.text);
			assert_string_equal(c.path, f->path);
			assert_string_equal(statefile_kind(c.file), kinds[k]);
			assert_true(hash_equal(&c.spec->id, &f->spec->id));
			uint32_t t = graph_find(c.graph, "h.1.ln_1.weight");
			assert_int_not_equal(t, GRAPH_NONE);
			const struct tensor *gain = &c.graph->tensors[t];
			assert_true(c.shards[gain->shard][gain->offset] == 1);
			checkpoint_close(&c);
			checkpoint_close(&c);
		}
		(void)unlink(f->path);
	}
}

static void refuse_what_contradicts_itself(void **state)
{
	struct fixture *f = *state;
	static const struct {
		struct made made;
		enum err err;
		const char *says;
	} rows[] = {
		{{.kind = "local"}, ERR_missing, "no spec inside"},
		{{.kind = "local", .spec = "{}"}, ERR_range, "the spec inside: "},
		{{.kind = "local", .spec = "not JSON"}, ERR_syntax, "the spec inside: "},
		{{.kind = "snapshot", .spec = spec_text, .other_run = true}, ERR_wrong_run,
			"another"},
		{{.kind = "snapshot", .spec = spec_text, .short_shard = true}, ERR_shape,
			"param.1"},
		{{.kind = "snapshot", .spec = spec_text, .no_shard = true}, ERR_missing, "param.1"},
		{{.kind = "bundle", .spec = spec_text}, ERR_magic, ""},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct checkpoint c;
		struct why why = {0};
		make(f, &rows[i].made);
		enum err err = checkpoint_open(f->path, &c, NULL, &why);
		if (err != rows[i].err || !strstr(why.text, rows[i].says) ||
			!strstr(why.text, f->path))
			fail_msg("row %zu: error %d, \"%s\"", i, err, why.text);
		checkpoint_close(&c);
		(void)unlink(f->path);
	}
	struct checkpoint c;
	struct why why = {0};
	assert_int_equal(checkpoint_open(f->dir, &c, NULL, &why), ERR_missing);
	assert_non_null(strstr(why.text, f->dir));
	checkpoint_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(open_what_is_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(refuse_what_contradicts_itself, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
