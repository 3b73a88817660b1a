#include "net/joinlink.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "base/file.h"
#include "net/address.h"
#include "net/base64.h"

#define SCHEME "shoal://"
#define FILE_MOST 4096
#define KEY_TEXT (BASE64_TEXT(SIGN_PUBLIC) - 1)

static enum err check_scheme(const char *text, struct why *why)
{
	if (strncmp(text, SCHEME, strlen(SCHEME)) == 0)
		return ERR_OK;
	if (strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0)
		return err_why(why, ERR_syntax,
			"this is a web address (%.40s), not a join link; a join link begins with "
			"" SCHEME " and `shoal-coordinator invite create` prints it",
			text);
	if (strstr(text, "://"))
		return err_why(why, ERR_syntax,
			"a join link begins with " SCHEME ", this one with \"%.20s\"", text);
	return err_why(why, ERR_syntax,
		"a join link begins with " SCHEME ": its beginning is missing, copy it whole");
}

static enum err check_characters(const char *text, struct why *why)
{
	for (size_t i = 0; text[i]; i++) {
		unsigned char c = (unsigned char)text[i];
		if (isspace(c))
			return err_why(why, ERR_syntax,
				"the join link has a blank or a line break after %zu characters: "
				"it was broken up on its way; join the pieces",
				i);
		if (c <= ' ' || c >= 0x7f)
			return err_why(why, ERR_syntax,
				"the join link has a strange character after %zu characters: it "
				"was changed on its way; copy it again as plain text",
				i);
	}
	return ERR_OK;
}

static bool host_ok(const char *host, bool bracket)
{
	struct in6_addr address;
	if (bracket)
		return inet_pton(AF_INET6, host, &address) == 1;
	size_t n = strlen(host);
	return n > 0 &&
	       strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") ==
		       n;
}

static enum err parse_port(const char *text, uint16_t *port, struct why *why)
{
	size_t n = strlen(text);
	unsigned long v =
		n > 0 && n <= 5 && strspn(text, "0123456789") == n ? strtoul(text, NULL, 10) : 0;
	if (v == 0 || v > 65535)
		return err_why(why, ERR_syntax,
			"the port in the join link must be a number from 1 to 65535, not \"%.20s\"",
			text);
	*port = (uint16_t)v;
	return ERR_OK;
}

/* "host:port"; authority is cut into its parts. */
static enum err parse_authority(char *authority, struct joinlink *out, struct why *why)
{
	bool bracket = authority[0] == '[';
	char *end = bracket ? strchr(authority, ']') : strchr(authority, ':');
	const char *host = authority + bracket, *port = NULL;
	if (bracket && !end)
		return err_why(why, ERR_syntax,
			"the join link's IPv6 address has no closing bracket: %.60s", authority);
	if (bracket && end[1] == ':')
		port = end + 2;
	else if (!bracket && end)
		port = end + 1;
	if (!port || !*port)
		return err_why(why, ERR_syntax,
			"the join link names no port after %.60s; it must be host:port", authority);
	*end = 0;
	if (!bracket && strchr(port, ':'))
		return err_why(why, ERR_syntax,
			"the join link's address has several colons; an IPv6 address stands in "
			"brackets, as [2001:db8::1]:4242");
	if (!host_ok(host, bracket) || strlen(host) >= sizeof out->host)
		return err_why(why, ERR_syntax,
			"\"%.60s\" in the join link is no host name and no address", host);
	memcpy(out->host, host, strlen(host) + 1);
	return parse_port(port, &out->port, why);
}

static enum err parse_run(const char *run, struct joinlink *out, struct why *why)
{
	size_t n = strlen(run);
	if (n != HASH_HEX - 1)
		return err_why(why, ERR_syntax,
			"the run in the join link has %zu characters instead of %d; copy the link "
			"again",
			n, HASH_HEX - 1);
	if (hash_parse(run, &out->run) != ERR_OK)
		return err_why(why, ERR_syntax,
			"the run in the join link is not in hex digits (0-9, a-f); copy the link "
			"again");
	return ERR_OK;
}

static enum err parse_secrets(
	const char *key, const char *invite, struct joinlink *out, struct why *why)
{
	size_t n = strlen(key);
	if (n != KEY_TEXT)
		return err_why(why, ERR_syntax,
			"the key in the join link has %zu characters instead of %d: it was cut "
			"off or doubled; copy the whole link",
			n, (int)KEY_TEXT);
	if (base64_decode(key, n, out->key.b, sizeof out->key.b) != ERR_OK)
		return err_why(why, ERR_syntax,
			"the key in the join link was altered; copy the link again");
	enum err e = invite_form(invite, why);
	if (!e)
		memcpy(out->invite, invite, strlen(invite) + 1);
	return e;
}

/* text, without its scheme, is cut into its parts. */
static enum err parse_parts(char *text, struct joinlink *out, struct why *why)
{
	char *hash = strchr(text, '#');
	char *slash = strchr(text, '/');
	char *dot = hash ? strchr(hash, '.') : NULL;
	if (!hash)
		return err_why(why, ERR_syntax,
			"the join link has no '#' with key and invite after it: it was cut off; "
			"copy the whole link, and put it in quotes on a command line");
	if (!slash || slash > hash)
		return err_why(why, ERR_syntax,
			"the join link names no run: it must be " SCHEME
			"host:port/RUN#KEY.INVITE");
	if (!dot)
		return err_why(why, ERR_syntax,
			"the join link has no '.' between key and invite: it was cut off; copy the "
			"whole link");
	*slash = *hash = *dot = 0;
	enum err e = parse_authority(text, out, why);
	if (!e)
		e = parse_run(slash + 1, out, why);
	return e ? e : parse_secrets(hash + 1, dot + 1, out, why);
}

enum err joinlink_parse(const char *text, struct joinlink *out, struct why *why)
{
	char copy[JOINLINK_MAX];
	*out = (struct joinlink){0};
	while (isspace((unsigned char)*text))
		text++;
	size_t n = strlen(text);
	while (n > 0 && isspace((unsigned char)text[n - 1]))
		n--;
	if (n == 0)
		return err_why(why, ERR_syntax, "the join link is empty");
	if (n >= sizeof copy)
		return err_why(why, ERR_syntax,
			"the join link has %zu characters, which is more than one can have; copy "
			"it again",
			n);
	memcpy(copy, text, n);
	copy[n] = 0;
	enum err e = check_scheme(copy, why);
	if (!e)
		e = check_characters(copy, why);
	if (!e)
		e = parse_parts(copy + strlen(SCHEME), out, why);
	explicit_bzero(copy, sizeof copy);
	if (e)
		*out = (struct joinlink){0};
	return e;
}

void joinlink_authority(const struct joinlink *l, char out[static JOINLINK_HOST + 8])
{
	address_join(l->host, l->port, out, JOINLINK_HOST + 8);
}

void joinlink_format(const struct joinlink *l, char out[static JOINLINK_MAX])
{
	char authority[JOINLINK_HOST + 8], run[HASH_HEX], key[KEY_TEXT + 1];
	joinlink_authority(l, authority);
	hash_hex(&l->run, run);
	base64_encode(l->key.b, sizeof l->key.b, key);
	snprintf(out, JOINLINK_MAX, SCHEME "%s/%s#%s.%s", authority, run, key, l->invite);
}

static enum err from_bytes(uint8_t *bytes, size_t n, struct joinlink *out, struct why *why)
{
	if (memchr(bytes, 0, n))
		return err_why(why, ERR_syntax, "this is a binary file, not a join link");
	return joinlink_parse((const char *)bytes, out, why);
}

static enum err from_stdin(struct joinlink *out, struct why *why)
{
	uint8_t bytes[FILE_MOST];
	size_t n = 0;
	bool terminal = isatty(STDIN_FILENO);
	while (n < sizeof bytes - 1) {
		ssize_t got = read(STDIN_FILENO, bytes + n, sizeof bytes - 1 - n);
		if (got <= 0)
			break;
		n += (size_t)got;
		if (terminal && memchr(bytes, '\n', n))
			break;
	}
	bytes[n] = 0;
	enum err e = from_bytes(bytes, n, out, why);
	explicit_bzero(bytes, sizeof bytes);
	return e;
}

enum err joinlink_read(char *argument, struct joinlink *out, struct why *why)
{
	uint8_t *bytes;
	size_t n;
	*out = (struct joinlink){0};
	if (strcmp(argument, "-") == 0)
		return from_stdin(out, why);
	// What holds a '#' and is no file is a link without its beginning: it is wiped as well.
	if (strstr(argument, "://") || (strchr(argument, '#') && !file_exists(argument))) {
		enum err e = joinlink_parse(argument, out, why);
		explicit_bzero(argument, strlen(argument));
		return e;
	}
	enum err e = file_read(argument, FILE_MOST, &bytes, &n, why);
	if (e == ERR_missing)
		return err_why(why, e,
			"%.100s is neither a join link (" SCHEME "...) nor a file that holds one; "
			"copy the whole link, in quotes",
			argument);
	if (e)
		return e;
	e = from_bytes(bytes, n, out, why);
	explicit_bzero(bytes, n);
	free(bytes);
	return e;
}
