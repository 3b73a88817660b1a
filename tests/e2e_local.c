/* Training alone, as a user meets it: real processes, killed, resumed, stopped, misused. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/help_proc.h"
#include "tests/help_run.h"

/* A sanitizer keeps what was freed, and maps terabytes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#define PEER "shoal-peer"
#define WAIT 60

static const char *scratch, *data, *spec;

static int make(void **state)
{
	(void)state;
	scratch = proc_scratch();
	data = help_run_data(scratch);
	spec = help_run_spec(scratch, data, NULL);
	return 0;
}

static void holds(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

/* Trains to the end; returns the final state's file. */
static const char *train(const char *dir, const char *threads)
{
	struct proc *p = PROC_RUN(
		0, WAIT, PEER, "local", spec, "--data", data, "--dir", dir, "--threads", threads);
	return help_run_value(proc_out(p), "state");
}

static void it_learns(void **state)
{
	(void)state;
	struct proc *p = PROC_RUN(0, WAIT, PEER, "local", spec, "--data", data, "--dir",
		proc_text("%s/run", scratch));
	double loss = strtod(help_run_value(proc_out(p), "val_loss"), NULL);
	holds(proc_err(p), "after 0 tokens: validation 5.5"); /* ln 256 */
	assert_true(loss > 0.5 && loss < 2.6); /* the words' letters are soon known */
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
	(void)state;
	const char *one = train(proc_text("%s/one", scratch), "1"),
		   *three = train(proc_text("%s/three", scratch), "3");
	assert_true(help_run_same(one, three));
}

static void killed_and_resumed_gives_the_same_bits(void **state)
{
	(void)state;
	const char *calm = train(proc_text("%s/calm", scratch), "1"),
		   *dir = proc_text("%s/killed", scratch);
	for (int i = 0; i < 4; i++) {
		struct proc *p = PROC_START(PEER, "local", spec, "--data", data, "--dir", dir,
			"--threads", "1", "--save-every", "0");
		proc_line(p, i ? "resuming" : "after 0 tokens", WAIT);
		/* a saved state appears: the process is in the midst of its steps */
		proc_line(p, "after ", WAIT);
		proc_signal(p, SIGKILL);
		int status = proc_wait(p, WAIT);
		assert_true(status == 128 + SIGKILL || status == 0);
	}
	const char *left = proc_text("%s/local-000000000001.state.Qk3TdE.tmp", dir);
	help_run_write(left, "half a state");
	assert_true(help_run_same(calm, train(dir, "1")));
	assert_int_equal(access(left, F_OK), -1); /* the dead do not fill the disk */
}

static void ctrl_c_saves_and_leaves(void **state)
{
	(void)state;
	const char *calm = train(proc_text("%s/calm", scratch), "1"),
		   *dir = proc_text("%s/stopped", scratch);
	struct proc *p =
		PROC_START(PEER, "local", spec, "--data", data, "--dir", dir, "--threads", "1");
	proc_line(p, "after 0 tokens", WAIT);
	proc_signal(p, SIGINT);
	assert_int_equal(proc_wait(p, WAIT), 130);
	holds(proc_err(p), "the same command goes on from there");
	assert_true(help_run_same(calm, train(dir, "1")));
}

static void a_damaged_state_is_passed_over(void **state)
{
	(void)state;
	const char *dir = proc_text("%s/damaged", scratch);
	const char *last = train(dir, "1"), *calm = proc_text("%s/calm.state", scratch);
	help_run_write(calm, "");
	assert_int_equal(rename(last, calm), 0);
	PROC_RUN(0, WAIT, PEER, "local", spec, "--data", data, "--dir", dir, "--threads", "1",
		"--tokens", "6400", "--save-every", "0");
	const char *again = proc_text("%s/local-000000000100.state", dir);
	struct stat st;
	assert_int_equal(stat(again, &st), 0);
	assert_int_equal(truncate(again, st.st_size / 2), 0);
	struct proc *p = PROC_RUN(
		0, WAIT, PEER, "local", spec, "--data", data, "--dir", dir, "--threads", "1");
	holds(proc_err(p), "local-000000000100.state");
	assert_true(help_run_same(calm, help_run_value(proc_out(p), "state")));
}

static void generate_and_eval_work_on_the_state(void **state)
{
	(void)state;
	const char *dir = proc_text("%s/run", scratch);
	const char *file = train(dir, "1");
	struct proc *a = PROC_RUN(
		0, WAIT, PEER, "generate", file, "--data", data, "--tokens", "60", "--seed", "5");
	struct proc *b = PROC_RUN(
		0, WAIT, PEER, "generate", dir, "--data", data, "--tokens", "60", "--seed", "5");
	struct proc *c = PROC_RUN(
		0, WAIT, PEER, "generate", dir, "--data", data, "--tokens", "60", "--seed", "6");
	const char *text = proc_text("%s", proc_out(a));
	assert_string_equal(text, proc_out(b));
	assert_string_not_equal(text, proc_out(c));
	struct proc *e = PROC_RUN(0, WAIT, PEER, "eval", dir, "--data", data);
	struct proc *l = PROC_RUN(0, WAIT, PEER, "local", spec, "--data", data, "--dir", dir);
	assert_string_equal(
		help_run_value(proc_out(e), "val_loss"), help_run_value(proc_out(l), "val_loss"));
}

/* Llama's architecture and a network that a user wrote down: they train, and what is saved is used.
 */
static void other_architectures_train_too(void **state)
{
	(void)state;
	static const char *const names[] = {"llama-tiny", "graph-tiny"};
	for (size_t i = 0; i < 2; i++) {
		const char *dir = proc_text("%s/%s", scratch, names[i]);
		const char *file = proc_text("configs/%s.json", names[i]);
		struct proc *l = PROC_RUN(0, WAIT, PEER, "local", file, "train.seq=16",
			"train.total_tokens=3200", "train.warmup_tokens=0", "--data", data, "--dir",
			dir);
		double loss = strtod(help_run_value(proc_out(l), "val_loss"), NULL);
		assert_true(loss > 0.5 && loss < 4.5); /* log 256 is 5.55 */
		struct proc *e = PROC_RUN(0, WAIT, PEER, "eval", dir, "--data", data);
		assert_string_equal(help_run_value(proc_out(e), "val_loss"),
			help_run_value(proc_out(l), "val_loss"));
		struct proc *g = PROC_RUN(0, WAIT, PEER, "generate", dir, "--data", data,
			"--tokens", "200", "--seed", "5");
		assert_true(strlen(proc_out(g)) > 100);
	}
}

/* One sentence with cause and cure, status, nothing on standard output. */
static void refuses(int status, const char *says, const char *const *argv)
{
	struct proc *p = proc_run(status, WAIT, argv);
	holds(proc_err(p), says);
	assert_string_equal(proc_out(p), "");
}
#define REFUSES(status, says, ...) \
	refuses(status, says, (const char *const[]){PEER, __VA_ARGS__, NULL})

static void mistakes_are_named(void **state)
{
	(void)state;
	const char *dir = proc_text("%s/bad", scratch), *nothing = proc_text("%s/nothing", scratch);
	REFUSES(2, "did you mean", "local", spec, "--dta", data, "--dir", dir);
	REFUSES(2, "there is no command", "lokal");
	REFUSES(1, "template.jsom", "local", proc_text("%s/template.jsom", scratch), "--data", data,
		"--dir", dir);
	REFUSES(1, "manifest.json", "local", spec, "--data", nothing, "--dir", dir);
	REFUSES(1, "there is no training device \"gpu\"", "local", spec, "--data", data, "--dir",
		dir, "--backend", "gpu");
	REFUSES(1, "seq", "local", spec, "train.seq=64", "--data", data, "--dir", dir);
	REFUSES(1, "/proc/none", "local", spec, "--data", data, "--dir", "/proc/none");
	const char *images = proc_text("%s/images.json", scratch);
	help_run_write(images,
		"{\"shoal\":1,\"name\":\"images\",\"seed\":1,\"model\":{\"builder\":\"resnet\","
		"\"blocks\":[1],\"width\":4,\"image\":[1,28,28],\"classes\":300},\"train\":{"
		"\"batch\":2,\"lr\":0.1,\"total_tokens\":100},\"round\":{\"mode\":\"fixed\","
		"\"steps\":5},\"outer\":{\"rule\":\"average\"},\"codec\":{\"select\":\"all\","
		"\"values\":\"f32\"}}");
	REFUSES(1, "holds a text, but the spec's model reads images of 1 x 28 x 28", "local",
		images, "--data", data, "--dir", dir);
	REFUSES(1, "is not a state file of shoal", "eval", spec, "--data", data);
	REFUSES(2, "threads", "local", spec, "--data", data, "--dir", dir, "--threads", "-1");
}

static void another_runs_folder_is_refused_with_the_difference(void **state)
{
	(void)state;
	const char *dir = proc_text("%s/other", scratch);
	train(dir, "1");
	struct proc *p = PROC_RUN(
		1, WAIT, PEER, "local", spec, "train.lr=0.001", "--data", data, "--dir", dir);
	holds(proc_err(p), "train.lr: 0.001 here, 0.003 there");
	holds(proc_err(p), "use another folder");
}

static void two_processes_in_one_folder_are_refused(void **state)
{
	(void)state;
	const char *dir = proc_text("%s/busy", scratch);
	struct proc *p = PROC_START(
		PEER, "local", spec, "train.total_tokens=100000000", "--data", data, "--dir", dir);
	proc_line(p, "after 0 tokens", WAIT);
	REFUSES(1, proc_text("%d", (int)proc_pid(p)), "local", spec, "--data", data, "--dir", dir);
	proc_signal(p, SIGKILL);
}

/* ---- memory */

/* One step of 512 sequences, which take about 75 MiB at once, by argv. */
static struct proc *train_wide(int status, const char *const *more)
{
	const char *argv[24] = {PEER, "local", spec, "train.batch=512", "train.micro_batch=512",
		"--tokens", "16384", "--windows", "4", "--threads", "1", "--data", data, "--dir",
		proc_text("%s/wide-%s", scratch, more[1] ? more[1] : "free")};
	size_t n = 15;
	for (size_t i = 0; more[i]; i++)
		argv[n++] = more[i];
	return proc_run(status, WAIT, argv);
}

static double peak(struct proc *p)
{
	return strtod(help_run_value(proc_out(p), "rss_mib"), NULL);
}

/* The same loss in less memory; and no start where not even one sequence fits. */
static void it_trains_in_the_memory_that_it_may_take(void **state)
{
	(void)state;
	struct proc *all = train_wide(0, (const char *const[]){NULL, NULL});
	struct proc *less = train_wide(0, (const char *const[]){"--memory", "100M", NULL});
	const char *told = strstr(proc_err(less), "for lack of memory ");
	assert_non_null(told);
	assert_true(atoi(told + strlen("for lack of memory ")) < 512);
	holds(proc_err(less), "of 512 sequences at a time (train.micro_batch)");
	assert_null(strstr(proc_err(all), "for lack of memory"));
	double a = strtod(help_run_value(proc_out(all), "val_loss"), NULL),
	       b = strtod(help_run_value(proc_out(less), "val_loss"), NULL);
	assert_true(a > 0 && a - b < 1e-3 && b - a < 1e-3);
#ifndef SANITIZED
	assert_true(peak(less) < peak(all) && peak(less) < 100);
#endif
	struct proc *none = train_wide(1, (const char *const[]){"--memory", "65M", NULL});
	holds(proc_err(none), "out of memory: training on sequences of");
	holds(proc_err(none), "1 at a time, takes");
}

/* A limit of address space is seen as well: a smaller micro-batch, or a sentence, but never an end
 * by the system. */
static void a_limit_of_address_space_is_no_crash(void **state)
{
	(void)state;
#ifdef SANITIZED
	skip();
#endif
	bool trained = false, refused = false;
	for (int mib = 80; mib <= 240; mib += 40) {
		struct proc *p = PROC_START("/bin/sh", "-c",
			proc_text("ulimit -v %d; exec %s --help", mib * 1024, proc_program(PEER)));
		int status = proc_wait(p, WAIT); /* 127: no room for the libraries */
		assert_true(status == 0 || status == 127);
	}
	for (int mib = 180; mib <= 900; mib += 80) {
		const char *line = proc_text("ulimit -v %d; exec %s local %s train.batch=512 "
					     "train.micro_batch=512 --tokens 16384 --windows 4 "
					     "--threads 1 --data %s --dir %s/limit-%d",
			mib * 1024, proc_program(PEER), spec, data, scratch, mib);
		struct proc *p = PROC_START("/bin/sh", "-c", line);
		int status = proc_wait(p, WAIT);
		trained |= status == 0;
		refused |= status == 1 && strstr(proc_err(p), "out of memory");
		if (status != 0 && status != 1)
			fail_msg("status %d with %d MiB:\n%s", status, mib, proc_err(p));
	}
	assert_true(trained && refused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_learns, make, proc_teardown),
		cmocka_unit_test_setup_teardown(
			any_number_of_threads_gives_the_same_bits, make, proc_teardown),
		cmocka_unit_test_setup_teardown(
			killed_and_resumed_gives_the_same_bits, make, proc_teardown),
		cmocka_unit_test_setup_teardown(ctrl_c_saves_and_leaves, make, proc_teardown),
		cmocka_unit_test_setup_teardown(
			a_damaged_state_is_passed_over, make, proc_teardown),
		cmocka_unit_test_setup_teardown(
			generate_and_eval_work_on_the_state, make, proc_teardown),
		cmocka_unit_test_setup_teardown(other_architectures_train_too, make, proc_teardown),
		cmocka_unit_test_setup_teardown(mistakes_are_named, make, proc_teardown),
		cmocka_unit_test_setup_teardown(
			another_runs_folder_is_refused_with_the_difference, make, proc_teardown),
		cmocka_unit_test_setup_teardown(
			two_processes_in_one_folder_are_refused, make, proc_teardown),
		cmocka_unit_test_setup_teardown(
			it_trains_in_the_memory_that_it_may_take, make, proc_teardown),
		cmocka_unit_test_setup_teardown(
			a_limit_of_address_space_is_no_crash, make, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
