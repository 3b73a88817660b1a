/* Join links: round trip, where they are read from, and a sentence of its own for every mistake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "net/joinlink.h"

static struct joinlink genuine;
static char text[JOINLINK_MAX];

static void test_round_trip(void **state)
{
	static const char *const hosts[] = {"train.example.org", "192.0.2.7", "2001:db8::1", "a"};
	struct joinlink l = genuine, out;
	struct why why;
	char link[JOINLINK_MAX], authority[JOINLINK_HOST + 8];
	(void)state;
	for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
		snprintf(l.host, sizeof l.host, "%s", hosts[i]);
		l.port = (uint16_t)(i == 0 ? 65535 : i);
		joinlink_format(&l, link);
		if (joinlink_parse(link, &out, &why))
			fail_msg("%s: %s", link, why.text);
		assert_string_equal(out.host, l.host);
		assert_int_equal(out.port, l.port);
		assert_true(hash_equal(&out.run, &l.run));
		assert_memory_equal(out.key.b, l.key.b, sizeof l.key.b);
		assert_string_equal(out.invite, l.invite);
	}
	snprintf(l.host, sizeof l.host, "::1");
	l.port = 80;
	joinlink_authority(&l, authority);
	assert_string_equal(authority, "[::1]:80");
	snprintf(link, sizeof link, "\n  %.700s \r\n", text); // as files and terminals have it
	assert_int_equal(joinlink_parse(link, &out, &why), ERR_OK);
	memset(l.host, 'x', sizeof l.host - 1);
	joinlink_format(&l, link); // the longest there is
	assert_int_equal(joinlink_parse(link, &out, &why), ERR_OK);
}

static void refuse(const char *link, const char *says)
{
	struct joinlink out;
	struct why why = {0};
	assert_int_equal(joinlink_parse(link, &out, &why), ERR_syntax);
	if (!strstr(why.text, says))
		fail_msg("\"%s\" is not in: %s", says, why.text);
	assert_int_equal(out.port, 0);
}

/* The link with a part of it replaced. */
static void refuse_with(const char *part, const char *by, const char *says)
{
	char link[2 * JOINLINK_MAX];
	const char *at = strstr(text, part);
	assert_non_null(at);
	snprintf(link, sizeof link, "%.*s%s%s", (int)(at - text), text, by, at + strlen(part));
	refuse(link, says);
}

static void test_every_mistake_has_its_sentence(void **state)
{
	char key[44] = "", cut[JOINLINK_MAX], run[HASH_HEX];
	const char *hash = strchr(text, '#');
	(void)state;
	memcpy(key, hash + 1, 43);
	hash_hex(&genuine.run, run);
	refuse("", "empty");
	refuse(" \n", "empty");
	refuse("http://host:8080/", "web address");
	refuse("HTTPS://host:8080/", "web address");
	refuse("ftp://host:8080/", "this one with \"ftp://host");
	refuse("host:4242/abc", "its beginning is missing");
	refuse_with("host", "ho st", "blank or a line break after 10 characters");
	refuse_with("#", "\n#", "line break");
	refuse_with("#", "\xe2\x80\x8b#", "strange character");
	refuse_with(":4242", "", "names no port");
	refuse_with(":4242", ":", "names no port");
	refuse_with(":4242", ":0", "from 1 to 65535");
	refuse_with(":4242", ":65536", "from 1 to 65535");
	refuse_with(":4242", ":42x", "\"42x\"");
	refuse_with(":4242", ":-1", "from 1 to 65535");
	refuse_with("host", "", "no host name");
	refuse_with("host", "h@st", "\"h@st\"");
	refuse_with("host", "2001:db8::1", "in brackets");
	refuse_with("host", "[2001:db8::1", "closing bracket");
	refuse_with("host", "[2001:db8::zz]", "\"2001:db8::zz\"");
	refuse_with("host:4242", "[::1]", "names no port");
	refuse_with("4242/", "4242", "names no run");
	refuse_with(run, "12ab", "4 characters instead of 64");
	run[3] = 'X';
	refuse_with(strndupa(strchr(text + 8, '/') + 1, 64), run, "hex digits");
	refuse_with(key, "abc", "the key in the join link has 3 characters instead of 43");
	key[5] = '+';
	refuse_with(strndupa(hash + 1, 43), key, "altered");
	snprintf(cut, sizeof cut, "%.*s", (int)(hash - text), text);
	refuse(cut, "no '#'");
	snprintf(cut, sizeof cut, "%.*s", (int)(hash - text) + 30, text);
	refuse(cut, "no '.'");
	snprintf(cut, sizeof cut, "%.*s", (int)strlen(text) - 9, text);
	refuse(cut, "110 characters instead of 119");
	memset(cut, 'a', sizeof cut - 1);
	memcpy(cut, "shoal://", 8);
	cut[sizeof cut - 1] = 0;
	refuse(cut, "no '#'");
	char longer[JOINLINK_MAX + 2];
	snprintf(longer, sizeof longer, "%sa", cut);
	refuse(longer, "more than one can have");
}

static void test_read_from_argument(void **state)
{
	char argument[JOINLINK_MAX];
	struct joinlink out;
	struct why why;
	(void)state;
	memcpy(argument, text, sizeof text);
	assert_int_equal(joinlink_read(argument, &out, &why), ERR_OK);
	assert_int_equal(out.port, 4242);
	for (size_t i = 0; i < strlen(text); i++)
		assert_int_equal(argument[i], 0); // nothing for a list of processes
	snprintf(argument, sizeof argument, "http://x#secret");
	assert_int_equal(joinlink_read(argument, &out, &why), ERR_syntax);
	assert_int_equal(argument[10], 0);
	memmove(argument, text + 8, sizeof text - 8); // its beginning was not copied
	assert_int_equal(joinlink_read(argument, &out, &why), ERR_syntax);
	assert_non_null(strstr(why.text, "its beginning is missing"));
	assert_null(strstr(why.text, genuine.invite));
	assert_int_equal(argument[100], 0);
	snprintf(argument, sizeof argument, "no/such/file");
	assert_int_equal(joinlink_read(argument, &out, &why), ERR_missing);
	assert_non_null(strstr(why.text, "neither a join link"));
}

static void test_read_from_file_and_stdin(void **state)
{
	char path[] = "/tmp/shoal-link.XXXXXX", content[JOINLINK_MAX + 2], dash[] = "-";
	struct joinlink out;
	struct why why;
	(void)state;
	int fd = mkstemp(path), keep = dup(STDIN_FILENO);
	int n = snprintf(content, sizeof content, "%s\n", text);
	assert_int_equal(write(fd, content, (size_t)n), n);
	assert_int_equal(joinlink_read(path, &out, &why), ERR_OK);
	assert_string_equal(out.invite, genuine.invite);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	assert_int_equal(joinlink_read(dash, &out, &why), ERR_OK);
	assert_string_equal(out.host, "host");
	assert_int_equal(joinlink_read(dash, &out, &why), ERR_syntax); // at its end
	assert_int_equal(dup2(keep, STDIN_FILENO), STDIN_FILENO);
	assert_int_equal(pwrite(fd, "\0", 1, 3), 1);
	assert_int_equal(joinlink_read(path, &out, &why), ERR_syntax);
	assert_non_null(strstr(why.text, "binary"));
	close(keep);
	close(fd);
	unlink(path);
}

static int setup(void **state)
{
	struct sign_key *key = sign_make();
	struct invite i;
	(void)state;
	genuine = (struct joinlink){
		.host = "host", .port = 4242, .run = hash_of("a", 1), .key = sign_public_of(key)};
	invite_make(0, 1, &i);
	invite_text(&i, &genuine.run, key, genuine.invite);
	sign_free(key);
	joinlink_format(&genuine, text);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_every_mistake_has_its_sentence),
		cmocka_unit_test(test_read_from_argument),
		cmocka_unit_test(test_read_from_file_and_stdin),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
