/* configs/peer.conf names every option of join, with its default, and can be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "peer/command.h"
#include "tests/help_peer.h"

#define CONF "configs/peer.conf"

/* What join prints for these arguments. */
static char *printed(int argc, char **argv)
{
	const char *path = help_peer_path("out");
	uint8_t *text;
	size_t n;
	struct why why;
	fflush(stdout);
	int kept = dup(STDOUT_FILENO), to = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(kept >= 0 && to >= 0);
	dup2(to, STDOUT_FILENO);
	int status = join_command(argc, argv);
	fflush(stdout);
	dup2(kept, STDOUT_FILENO);
	close(kept);
	close(to);
	assert_int_equal(status, 0);
	assert_int_equal(file_read(path, 1 << 20, &text, &n, &why), ERR_OK);
	return (char *)text;
}

/* The line that sets name, or that shows how it is set. */
static const char *find(const char *conf, const char *name, size_t len)
{
	for (const char *at = conf; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		const char *word = strncmp(at, "# ", 2) ? at : at + 2;
		if (!strncmp(word, name, len) && !strncmp(word + len, " = ", 3))
			return at;
	}
	return NULL;
}

static void every_option_has_its_paragraph(void **state)
{
	(void)state;
	char *bare[] = {"join", "--print-config", NULL};
	char *told = printed(2, bare);
	uint8_t *conf;
	size_t n, options = 0;
	struct why why;
	assert_int_equal(file_read(CONF, 1 << 20, &conf, &n, &why), ERR_OK);
	for (char *save = NULL, *line = strtok_r(told, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save)) {
		const char *name = line + strspn(line, "# ;");
		size_t len = strcspn(name, " :=");
		if (!strncmp(name, "help", len) || !strncmp(name, "print-config", len))
			continue;
		options++;
		const char *there = find((const char *)conf, name, len);
		if (!there)
			fail_msg("%s does not tell of %.*s", CONF, (int)len, name);
		if (there - 2 < (const char *)conf || strncmp(there - 2, ".\n", 2))
			fail_msg("no paragraph stands above %.*s in %s", (int)len, name, CONF);
	}
	assert_true(options >= 5);
	free(told);
	free(conf);
}

static void it_says_what_the_defaults_are(void **state)
{
	(void)state;
	char *bare[] = {"join", "--print-config", NULL},
	     *with[] = {"join", "--config", CONF, "--print-config", NULL};
	char *without = printed(2, bare), *from_file = printed(4, with);
	assert_string_equal(without, from_file);
	free(without);
	free(from_file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, help_peer_setup, help_peer_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_option_has_its_paragraph),
		TEST(it_says_what_the_defaults_are),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
