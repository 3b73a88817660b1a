#include "net/https_reply.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/log.h"
#include "net/https_answer.h"
#include "net/https_file.h"

void https_reply_json(struct https_request *r, json_t *doc)
{
	char *text = json_canonical(doc);
	json_decref(doc);
	struct https_reply_content content = {.type = "application/json"};
	struct why why;
	if (text) {
		https_reply_bytes(r, &content, text, strlen(text));
	} else {
		err_why(&why, ERR_nomem, "this reply cannot be put into JSON");
		https_reply_error(r, 500, &why);
	}
	free(text);
}

void https_reply_bytes(struct https_request *r, const struct https_reply_content *content,
	const void *bytes, size_t n)
{
	struct evbuffer *body = evbuffer_new();
	if (!body || evbuffer_add(body, bytes, n) != 0)
		abort(); // as alloc_must: the caller has the bytes already
	https_answer_headers(r, content);
	https_answer_send(r, 200, body);
	evbuffer_free(body);
}

static int status_of(enum err code)
{
	switch (code) {
	case ERR_missing: return 404;
	case ERR_permission:
	case ERR_invite:
	case ERR_signature:
	case ERR_unknown_peer:
	case ERR_refused: return 403;
	case ERR_toobig: return 413;
	case ERR_exists:
	case ERR_state:
	case ERR_duplicate:
	case ERR_version:
	case ERR_wrong_run:
	case ERR_wrong_round:
	case ERR_wrong_parent:
	case ERR_fork:
	case ERR_spec: return 409;
	case ERR_busy: return 503;
	case ERR_nomem:
	case ERR_io:
	case ERR_full: return 500;
	default: return 400;
	}
}

void https_reply_error(struct https_request *r, int status, const struct why *why)
{
	json_t *doc = json_pack("{s:i, s:s, s:s}", "code", (int)why->code, "name",
		err_name(why->code), "text", why->text);
	char *text = doc ? json_canonical(doc) : NULL;
	struct evbuffer *body = evbuffer_new();
	struct https_reply_content content = {.type = "application/json"};
	if (!body || !text || evbuffer_add(body, text, strlen(text)) != 0)
		abort();
	if (!status)
		status = status_of(why->code);
	log_at(http, 4, "%s: %s: %d: %s", https_request_address(r), r->path ? r->path : "", status,
		why->text);
	r->all->counters.errors++;
	https_answer_headers(r, &content);
	https_answer_send(r, status, body);
	evbuffer_free(body);
	free(text);
	json_decref(doc);
}

void https_reply_file(
	struct https_request *r, const struct https_reply_content *content, const char *path)
{
	struct stat st;
	struct why why;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int e = fd < 0 || fstat(fd, &st) != 0 ? errno : S_ISREG(st.st_mode) ? 0 : ENOENT;
	if (e == 0) {
		https_file_send(r, content, fd, (uint64_t)st.st_size);
		return;
	}
	if (fd >= 0)
		close(fd);
	// The path is nobody's business outside.
	log_at(http, 2, "%s: %s: %s", https_request_path(r), path, strerror(e));
	err_why(&why, err_from_errno(e), "%s: %s", https_request_path(r),
		err_text(err_from_errno(e)));
	https_reply_error(r, 0, &why);
}
