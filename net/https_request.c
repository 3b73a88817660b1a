#include "net/https_request.h"
#include <errno.h>
#include <event2/buffer.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/hash.h"
#include "net/https_conn.h"

const char *https_request_path(const struct https_request *r)
{
	return r->path;
}

const char *https_request_rest(const struct https_request *r)
{
	const char *star = strchr(r->route->path, '*');
	return star ? r->path + (star - r->route->path) : "";
}

const char *https_request_query(const struct https_request *r, const char *name)
{
	return evhttp_find_header(&r->query, name);
}

bool https_request_number(
	const struct https_request *r, const char *name, uint64_t most, uint64_t *value)
{
	const char *text = https_request_query(r, name);
	if (!text)
		return true;
	size_t n = strlen(text);
	if (n == 0 || n > 20 || strspn(text, "0123456789") != n)
		return false;
	errno = 0;
	unsigned long long v = strtoull(text, NULL, 10);
	if (errno || v > most)
		return false;
	*value = v;
	return true;
}

const char *https_request_header(const struct https_request *r, const char *name)
{
	return evhttp_find_header(evhttp_request_get_input_headers(r->http), name);
}

const char *https_request_address(const struct https_request *r)
{
	return r->conn->address;
}

const void *https_request_body(struct https_request *r, size_t *n)
{
	struct evbuffer *body = evhttp_request_get_input_buffer(r->http);
	*n = evbuffer_get_length(body);
	return *n > 0 ? evbuffer_pullup(body, -1) : (const void *)"";
}

bool https_request_bearer(const struct https_request *r, const char *token)
{
	const char *given = https_request_header(r, "Authorization");
	if (!given || strncasecmp(given, "Bearer ", 7) != 0)
		return false;
	// Of equal lengths whatever was given, so that the time tells nothing about the token.
	struct hash a = hash_of(given + 7, strlen(given + 7)), b = hash_of(token, strlen(token));
	return CRYPTO_memcmp(a.b, b.b, sizeof a.b) == 0;
}
