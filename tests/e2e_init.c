/* A run that begins with a model from elsewhere: real programs, a folder in Hugging Face's layout,
 * and the loss that this model has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define PEER "shoal-peer"
#define TOOL "shoal-coordinator"
#define WAIT 120

/* A few steps of training, so that the model is not what any seed gives. */
static const char *const shorter[] = {
	"train.total_tokens=3200", "round.validate_every=4", "round.snapshot_every=5", NULL};

struct start {
	const char *scratch, *data, *spec, *folder;
	const char *loss; /* that shoal-peer eval gives for the folder */
};

static void make(struct start *s)
{
	s->scratch = proc_scratch();
	s->data = help_run_data(s->scratch);
	s->spec = help_run_spec(s->scratch, s->data, shorter);
	const char *local = proc_text("%s/local", s->scratch);
	s->folder = proc_text("%s/model", s->scratch);
	PROC_RUN(0, WAIT, PEER, "local", s->spec, "--data", s->data, "--dir", local);
	PROC_RUN(0, WAIT, TOOL, "export", local, "--out", s->folder, "--dtype", "bf16",
		"--max-file", "40K");
	struct proc *p = PROC_RUN(0, WAIT, PEER, "eval", s->folder, "--data", s->data);
	s->loss = help_run_value(proc_out(p), "val_loss");
	assert_true(strtod(s->loss, NULL) < 4); /* it has learned something */
}

static void holds(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

static struct proc *serve(struct swarm *w, const char *spec, const char *init)
{
	w->coordinator = PROC_START(TOOL, "serve", spec, "--data", w->data, "--dir", w->dir,
		"--address", "127.0.0.1", "--port", "0", "--link-port", "0", "--invite-file",
		w->link, "--exit-at-end", init ? "--init" : NULL, init);
	return w->coordinator;
}

static struct swarm swarm_of(const struct start *s)
{
	return (struct swarm){.scratch = s->scratch,
		.data = s->data,
		.spec = s->spec,
		.dir = proc_text("%s/run", s->scratch),
		.link = proc_text("%s/join.link", s->scratch)};
}

static void a_run_begins_with_the_folders_loss(void **state)
{
	(void)state;
	struct start s;
	make(&s);
	struct swarm w = swarm_of(&s);
	serve(&w, s.spec, s.folder);
	proc_line(w.coordinator, "join link:", WAIT);
	struct proc *peer = help_swarm_peer(&w, "alone");
	const char *line = help_swarm_finish(&w, WAIT);
	help_swarm_ends(peer, WAIT);
	assert_string_equal(help_run_value(line, "start_loss"), s.loss);
	assert_true(strtod(help_run_value(line, "val_loss"), NULL) < strtod(s.loss, NULL));
	help_swarm_verify(&w, line);
}

static void a_coordinator_with_other_weights_refuses(void **state)
{
	(void)state;
	struct start s;
	make(&s);
	struct swarm w = swarm_of(&s);
	const char *other = proc_text("%s/other", s.scratch);
	PROC_RUN(0, WAIT, TOOL, "export", s.folder, "--out", other, "--dtype", "float32");

	/* The spec names the weights: then they are needed, and no others will do. */
	const char *named = help_run_spec(s.scratch, s.data,
		(const char *[]){"init=" /* 64 digits */
				 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
			NULL});
	assert_int_equal(proc_wait(serve(&w, named, NULL), WAIT), 1);
	holds(proc_err(w.coordinator), "name their folder with --init");
	assert_int_equal(proc_wait(serve(&w, named, s.folder), WAIT), 1);
	holds(proc_err(w.coordinator), "the spec's init is 001122334455");

	/* A run that was begun goes on with its own only. */
	w.dir = proc_text("%s/begun", s.scratch);
	proc_line(serve(&w, s.spec, s.folder), "join link:", WAIT);
	help_swarm_stop(&w);
	assert_int_equal(proc_wait(serve(&w, s.spec, other), WAIT), 1);
	holds(proc_err(w.coordinator), "init:");
	assert_int_equal(proc_wait(serve(&w, s.spec, NULL), WAIT), 1);
	holds(proc_err(w.coordinator), "init:");
	proc_line(serve(&w, s.spec, s.folder), "join link:", WAIT);
	help_swarm_stop(&w);
}

static void local_begins_with_it_and_resumes(void **state)
{
	(void)state;
	struct start s;
	make(&s);
	const char *dir = proc_text("%s/more", s.scratch), *bad = proc_text("%s/bad", s.scratch);
	struct proc *p = PROC_RUN(0, WAIT, PEER, "local", s.spec, "--data", s.data, "--dir", dir,
		"--init", s.folder, "--tokens", "640", "--threads", "1");
	const char *first = proc_text("after 0 tokens: validation %s", s.loss);
	holds(proc_err(p), first);
	p = PROC_RUN(0, WAIT, PEER, "local", s.spec, "--data", s.data, "--dir", dir, "--init",
		s.folder, "--threads", "1");
	holds(proc_err(p), "resuming");
	const char *whole = help_run_value(proc_out(p), "state");
	p = PROC_RUN(0, WAIT, PEER, "local", s.spec, "--data", s.data, "--dir",
		proc_text("%s/calm", s.scratch), "--init", s.folder, "--threads", "1");
	assert_true(help_run_same(whole, help_run_value(proc_out(p), "state")));

	p = PROC_RUN(1, WAIT, PEER, "local", s.spec, "model.layers=3", "--data", s.data, "--dir",
		bad, "--init", s.folder);
	holds(proc_err(p), "model.layers = 2, the spec has 3");
	p = PROC_RUN(
		1, WAIT, PEER, "local", s.spec, "--data", s.data, "--dir", bad, "--init", s.data);
	holds(proc_err(p), "config.json");
}

/* prepare fills in the spec, so that everybody knows what the run begins with. */
static void prepare_names_the_weights(void **state)
{
	(void)state;
	struct start s;
	make(&s);
	struct swarm w = swarm_of(&s);
	const char *text = proc_text("%s/text.txt", s.scratch),
		   *named = proc_text("%s/named.json", s.scratch);
	PROC_RUN(0, WAIT, TOOL, "prepare", text, "--out", s.data, "--spec", s.spec, "--write-spec",
		named, "--init", s.folder);
	holds(help_run_read(named), "\"init\"");
	assert_int_equal(proc_wait(serve(&w, named, NULL), WAIT), 1);
	holds(proc_err(w.coordinator), "name their folder with --init");
	proc_line(serve(&w, named, s.folder), "join link:", WAIT);
	help_swarm_stop(&w);
	proc_line(serve(&w, named, NULL), "join link:", WAIT); /* it has them now */
	help_swarm_stop(&w);

	struct proc *p = PROC_RUN(1, WAIT, TOOL, "prepare", text, "--out", s.data, "--spec", s.spec,
		"--write-spec", named, "--init", s.folder, "model.width=64");
	holds(proc_err(p), "model.width = 32, the spec has 64");
	p = PROC_RUN(2, WAIT, TOOL, "prepare", text, "--out", s.data, "--init", s.folder);
	holds(proc_err(p), "give --spec too");
}

/* eval and generate go by the tokenizer that lies in the folder. */
static void a_folders_tokenizer_counts(void **state)
{
	(void)state;
	struct start s;
	make(&s);
	const char *text = proc_text("%s/text.txt", s.scratch),
		   *pairs = proc_text("%s/pairs", s.scratch),
		   *whole = proc_text("%s/whole", s.scratch);
	struct proc *p = PROC_RUN(0, WAIT, PEER, "generate", s.folder, "--tokens", "20");
	const char *bytes = proc_text("%s", proc_out(p)); /* 256 ids and no tokenizer: bytes */
	PROC_RUN(0, WAIT, TOOL, "export", proc_text("%s/local", s.scratch), "--data", s.data,
		"--out", whole, "--dtype", "bf16");
	p = PROC_RUN(0, WAIT, PEER, "generate", whole, "--tokens", "20");
	assert_string_equal(proc_out(p), bytes);
	p = PROC_RUN(0, WAIT, PEER, "eval", whole, "--data", s.data);
	assert_string_equal(help_run_value(proc_out(p), "val_loss"), s.loss);

	PROC_RUN(0, WAIT, TOOL, "prepare", text, "--out", pairs, "--tokenizer", "bpe", "--vocab",
		"257", "--seq", "32");
	p = PROC_RUN(1, WAIT, PEER, "eval", s.folder, "--data", pairs);
	holds(proc_err(p), "257 ids");
	help_run_write(proc_text("%s/tokenizer.json", whole), "{}");
	p = PROC_RUN(1, WAIT, PEER, "eval", whole, "--data", s.data);
	holds(proc_err(p), "tokenizer.json");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_run_begins_with_the_folders_loss, proc_teardown),
		cmocka_unit_test_teardown(a_coordinator_with_other_weights_refuses, proc_teardown),
		cmocka_unit_test_teardown(prepare_names_the_weights, proc_teardown),
		cmocka_unit_test_teardown(a_folders_tokenizer_counts, proc_teardown),
		cmocka_unit_test_teardown(local_begins_with_it_and_resumes, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
