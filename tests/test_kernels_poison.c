/*
 * Device memory is not host memory: the reference backend keeps its own without access between
 * calls, so that mixing the two up ends the process where it happens.  Each mistake is made in a
 * child.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kernels/ref/ref.h"
#include "tests/help_graph.h"
#include "tests/help_kernels.h"

#define SURVIVED 77
#define BY_SANITIZER 1000 /* which saw the mistake before the system did */

/* The signal that ended a child which does this; 0: it survived. */
static int ends_by(void (*mistake)(void *arg), void *arg)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		/* As the system does it, without a sanitizer's report and without a core file. */
		const struct sigaction plain = {.sa_handler = SIG_DFL};
		sigaction(SIGSEGV, &plain, NULL);
		sigaction(SIGBUS, &plain, NULL);
		sigaction(SIGABRT, &plain, NULL);
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		close(STDERR_FILENO);
		mistake(arg);
		_exit(SURVIVED);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status))
		return WTERMSIG(status);
	return WEXITSTATUS(status) == SURVIVED ? 0 : BY_SANITIZER;
}

static void read_host(void *p)
{
	(void)*(volatile const unsigned char *)p;
}

static void write_host(void *p)
{
	*(volatile unsigned char *)p = 1;
}

/* Nobody but a call may touch it, at its first and at its last byte. */
static void is_poisoned(const struct mem *m)
{
	unsigned char *first = m->base;
	assert_int_equal(ends_by(read_host, first), SIGSEGV);
	assert_int_equal(ends_by(write_host, first), SIGSEGV);
	assert_int_equal(ends_by(read_host, first + m->bytes - 1), SIGSEGV);
	assert_int_equal(ends_by(write_host, first + m->bytes - 1), SIGSEGV);
}

static void the_child_tells_the_truth(void **state)
{
	(void)state;
	unsigned char byte = 0;
	assert_int_equal(ends_by(read_host, &byte), 0);
	assert_int_equal(ends_by(write_host, &byte), 0);
}

static void memory_is_poisoned_after_every_call(void **state)
{
	(void)state;
	static const char *const names[] = {"ref", "ref64"};
	for (size_t i = 0; i < 2; i++) {
		struct help_kernels k = help_kernels_open(names[i]);
		struct view v[4];
		double x[4] = {1, 2, 3, 4};
		for (int j = 0; j < 4; j++)
			v[j] = help_kernels_alloc(&k, 4);
		is_poisoned(v[0].mem);
		help_kernels_write(&k, v[0], 4, x);
		is_poisoned(v[0].mem);
		help_kernels_read(&k, v[0], 4, x);
		is_poisoned(v[0].mem);
		assert_true(x[3] == 4 && k.backend->norm2(k.device, v[0], 4) == 30);
		is_poisoned(v[0].mem);
		const struct adamw_call call = {
			.param = v[0], .grad = v[1], .m = v[2], .v = v[3], .n = 4, .step = 1};
		k.backend->adamw(k.device, &call);
		for (int j = 0; j < 4; j++)
			is_poisoned(v[j].mem);
		k.backend->zero(k.device, v[0].mem, 0, 4 * k.backend->real_size);
		is_poisoned(v[0].mem);
		for (int j = 0; j < 4; j++)
			k.backend->free(k.device, v[j].mem);
		help_kernels_close(&k);
	}
}

/* A training step works, and leaves all memory of the model poisoned. */
static void a_training_step_works_under_it(void **state)
{
	(void)state;
	struct help_kernels k = help_kernels_open("ref");
	struct model_config m = help_graph_config(2, true);
	struct graph *g = help_graph_build(&m, 2, 6);
	struct params *p = help_kernels_params(&k, g, NULL, 0, 1);
	struct exec *x = help_kernels_exec(g, p, EXEC_train);
	int32_t *tokens = help_kernels_tokens(g, 1);
	const struct exec_batch batch = {.tokens = tokens, .targets = tokens};
	struct params_step how = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
	double first = 0, last = 0;
	for (how.step = 1; how.step <= 5; how.step++) {
		assert_int_equal(exec_whole(x, &batch, how.step == 1 ? &first : &last, NULL), 0);
		assert_int_equal(params_adamw(p, &how, NULL, NULL), ERR_OK);
	}
	assert_true(last < first);
	assert_int_equal(exec_whole(x, &batch, NULL, NULL), ERR_OK);
	for (uint32_t s = 0; s < 2; s++)
		for (int part = PARAMS_value; part <= PARAMS_v; part++)
			is_poisoned(params_view(p, s, (enum params_part)part, 0).mem);
	free(tokens);
	exec_free(x);
	params_free(p);
	graph_free(g);
	help_kernels_close(&k);
}

/* The other way round: host memory given as device memory. */
static void read_as_device(void *arg)
{
	static _Alignas(16) unsigned char host[64];
	struct help_kernels *k = arg;
	float x;
	k->backend->read(k->device, (struct mem *)(void *)host, 0, &x, sizeof x);
}

static void sum_as_device(void *arg)
{
	static double host[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct help_kernels *k = arg;
	(void)k->backend->norm2(k->device, (struct view){(struct mem *)(void *)host, 0}, 8);
}

static void host_memory_is_no_device_memory(void **state)
{
	(void)state;
	struct help_kernels k = help_kernels_open("ref");
	assert_int_not_equal(ends_by(read_as_device, &k), 0);
	assert_int_not_equal(ends_by(sum_as_device, &k), 0);
	help_kernels_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_child_tells_the_truth),
		cmocka_unit_test(memory_is_poisoned_after_every_call),
		cmocka_unit_test(a_training_step_works_under_it),
		cmocka_unit_test(host_memory_is_no_device_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
