/* The ways to answer a request; each ends it.  The server's thread. */
#ifndef NET_HTTPS_REPLY_H
#define NET_HTTPS_REPLY_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/json.h"
#include "net/https_server.h"

#define HTTPS_REPLY_NO_STORE "no-store"
/* For what is named by its own hash. */
#define HTTPS_REPLY_FOR_EVER "public, max-age=31536000, immutable"

void https_reply_json(struct https_request *r, json_t *doc); /* takes doc */

struct https_reply_content {
	const char *type;     /* "text/html; charset=utf-8" */
	const char *cache;    /* Cache-Control; NULL: no-store */
	const char *filename; /* offered for saving; NULL: shown in place */
};
/* bytes are copied */
void https_reply_bytes(struct https_request *r, const struct https_reply_content *content,
	const void *bytes, size_t n);
/* {"code": number, "name": "invite", "text": why's sentence}; the HTTP status follows from the
 * code (404 for missing, 403 for permission, 503 for busy, …), status 0, or is given. */
void https_reply_error(struct https_request *r, int status, const struct why *why);
/* A file in pieces, with Range (206, 416), never whole in memory.  It may be removed while it is
 * sent, but not shortened.  404 when it is missing. */
void https_reply_file(
	struct https_request *r, const struct https_reply_content *content, const char *path);

#endif
