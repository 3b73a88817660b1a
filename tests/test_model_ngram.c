/* The yardsticks: by hand on tiny texts, as distributions, and the known figures of a real text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "model/ngram.h"

static struct ngram *counted(const char *text)
{
	struct ngram *g = ngram_new();
	assert_non_null(g);
	ngram_add(g, text, strlen(text));
	return g;
}

static void assert_near(double is, double must, double bound)
{
	if (!(fabs(is - must) <= bound))
		fail_msg("%.9g is not %.9g", is, must);
}

static void tiny_texts_are_known(void **state)
{
	(void)state;
	struct ngram *g = counted("abababab");
	assert_near(ngram_entropy(g, 1), log(2), 1e-12);
	assert_near(ngram_entropy(g, 2), 0, 0);
	assert_near(ngram_entropy(g, 3), 0, 0);
	ngram_free(g);
	/* a is followed by a once and by b once, b by nothing: two followers, ln 2 each. */
	g = counted("aab");
	assert_near(ngram_entropy(g, 1), (2 * log(1.5) + log(3)) / 3, 1e-12);
	assert_near(ngram_entropy(g, 2), log(2), 1e-12);
	assert_near(ngram_entropy(g, 3), 0, 0);
	ngram_free(g);
	g = counted("");
	for (unsigned order = 0; order < 5; order++)
		assert_near(ngram_entropy(g, order), 0, 0);
	assert_near(ngram_cost(g, 3, "xyz", 3), 3 * log(256), 1e-12);
	ngram_free(g);
	ngram_free(NULL);
}

static void parts_add_up(void **state)
{
	(void)state;
	const char *text = "in the beginning was the word";
	struct ngram *whole = counted(text), *parts = ngram_new();
	for (size_t i = 0; i < strlen(text); i++)
		ngram_add(parts, text + i, 1);
	for (unsigned order = 1; order <= 3; order++)
		assert_near(ngram_entropy(parts, order), ngram_entropy(whole, order), 0);
	ngram_free(whole);
	ngram_free(parts);
}

/* What may follow a context has probabilities that sum to 1, seen before or not. */
static void costs_are_distributions(void **state)
{
	(void)state;
	struct ngram *g = counted("the cat sat on the mat, the end");
	static const char *const contexts[] = {"", "t", "th", "nd", "zz", "d", "qt"};
	for (size_t c = 0; c < sizeof contexts / sizeof contexts[0]; c++)
		for (unsigned order = 1; order <= 3; order++) {
			size_t n = strlen(contexts[c]);
			char text[8];
			memcpy(text, contexts[c], n);
			double before = ngram_cost(g, order, text, n), sum = 0;
			for (int b = 0; b < 256; b++) {
				text[n] = (char)b;
				sum += exp(before - ngram_cost(g, order, text, n + 1));
			}
			assert_near(sum, 1, 1e-9);
		}
	ngram_free(g);
}

/* The New Testament of the King James Bible, if the program that prints it is installed. */
static void a_real_text_has_its_figures(void **state)
{
	(void)state;
	FILE *p = popen(
		"bible -f 'matt1:1-rev22:21' </dev/null 2>/dev/null | sed 's/^[^ ]* //'", "r");
	assert_non_null(p);
	size_t room = 2u << 20, n;
	char *text = alloc_must(room);
	n = fread(text, 1, room, p);
	pclose(p);
	if (n == 0) {
		free(text);
		skip();
	}
	assert_int_equal(n, 949481);
	struct ngram *g = ngram_new();
	ngram_add(g, text, n);
	assert_near(ngram_entropy(g, 1), 3.01, 0.005);
	assert_near(ngram_entropy(g, 2), 2.26, 0.005);
	assert_near(ngram_entropy(g, 3), 1.73, 0.005);
	/* Unseen text costs more than the text itself, but not much; and more context helps. */
	struct ngram *most = ngram_new();
	ngram_add(most, text, 900000);
	double cost[4];
	for (unsigned order = 1; order <= 3; order++)
		cost[order] =
			ngram_cost(most, order, text + 900000, n - 900000) / (double)(n - 900000);
	assert_true(cost[1] > cost[2] && cost[2] > cost[3]);
	assert_near(cost[3], 1.76, 0.02);
	ngram_free(most);
	ngram_free(g);
	free(text);
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	for (long n = 1; n <= 2; n++) {
		alloc_fail_at(n);
		assert_null(ngram_new());
	}
	alloc_fail_at(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiny_texts_are_known),
		cmocka_unit_test(parts_add_up),
		cmocka_unit_test(costs_are_distributions),
		cmocka_unit_test(a_real_text_has_its_figures),
		cmocka_unit_test(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
