#include "net/https_file.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/alloc.h"
#include "net/https_answer.h"
#include "net/https_range.h"
#include "net/https_stream.h"

struct https_file {
	struct https_stream stream; // first: a stream's callbacks get back to the file by it
	int fd;
	uint64_t at, end;
};

static void forget(struct https_stream *s)
{
	struct https_file *f = (struct https_file *)s;
	close(f->fd);
	free(f);
}

static void next(struct https_stream *s)
{
	struct https_file *f = (struct https_file *)s;
	uint64_t left = f->end - f->at;
	size_t most = egress_piece(s->conn->all->config.egress, HTTPS_CONN_PIECE);
	size_t n = left < most ? (size_t)left : most;
	if (n == 0) {
		https_stream_end(s);
		forget(s);
		return;
	}
	struct evbuffer *piece = evbuffer_new();
	struct evbuffer_iovec room;
	ssize_t got = -1;
	if (piece && evbuffer_reserve_space(piece, (ev_ssize_t)n, &room, 1) == 1)
		got = pread(f->fd, room.iov_base, n, (off_t)f->at);
	if (got > 0) {
		room.iov_len = (size_t)got;
		evbuffer_commit_space(piece, &room, 1);
		f->at += (uint64_t)got;
		https_stream_send(s, piece);
	} else {
		// The length was promised, so all that is left is to hang up.
		https_conn_cut(s->conn);
	}
	if (piece)
		evbuffer_free(piece);
}

static void send_range(struct https_request *r, struct https_file *f, uint64_t size, bool part)
{
	char text[96];
	if (part) {
		snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, f->at,
			f->end - 1, size);
		https_answer_header(r, "Content-Range", text);
	}
	snprintf(text, sizeof text, "%" PRIu64, f->end - f->at);
	https_answer_header(r, "Content-Length", text);
	https_stream_start(&f->stream, r, part ? 206 : 200);
	if (https_answer_head(r))
		f->at = f->end;
	next(&f->stream);
}

static void refuse_range(struct https_request *r, uint64_t size)
{
	struct why why;
	char text[64];
	snprintf(text, sizeof text, "bytes */%" PRIu64, size);
	https_answer_header(r, "Content-Range", text);
	err_why(&why, ERR_range, "the range lies outside of the %" PRIu64 " bytes there are", size);
	https_reply_error(r, 416, &why);
}

void https_file_send(
	struct https_request *r, const struct https_reply_content *content, int fd, uint64_t size)
{
	uint64_t first = 0, end = size;
	const char *range = https_request_header(r, "Range");
	// There is no validator here that a condition could be compared with.
	if (https_request_header(r, "If-Range"))
		range = NULL;
	enum https_range kind = https_range_parse(range, size, &first, &end);
	if (kind == HTTPS_RANGE_outside) {
		close(fd);
		refuse_range(r, size);
		return;
	}
	struct https_file *f = alloc_must_zero(1, sizeof *f);
	*f = (struct https_file){{.drained = next, .gone = forget}, fd, first, end};
	https_answer_headers(r, content);
	https_answer_header(r, "Accept-Ranges", "bytes");
	send_range(r, f, size, kind == HTTPS_RANGE_part);
}
