/* What was asked.  Texts are borrowed and live until the reply.  The server's thread. */
#ifndef NET_HTTPS_REQUEST_H
#define NET_HTTPS_REQUEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct https_request;

const char *https_request_path(const struct https_request *r); /* decoded, without the query */
const char *https_request_rest(const struct https_request *r); /* what stood for the route's '*' */
/* A value of the query string, decoded; NULL when absent. */
const char *https_request_query(const struct https_request *r, const char *name);
/* The same as a whole number up to most; *value stays as it is when absent; false when it is none.
 */
bool https_request_number(
	const struct https_request *r, const char *name, uint64_t most, uint64_t *value);
const char *https_request_header(const struct https_request *r, const char *name); /* or NULL */
const char *https_request_address(const struct https_request *r); /* of the other side, numeric */
/* The body, at most the route's body_most bytes; valid until the reply. */
const void *https_request_body(struct https_request *r, size_t *n);
/* "Authorization: Bearer TOKEN" with this token, compared in constant time. */
bool https_request_bearer(const struct https_request *r, const char *token);

#endif
