#include "peer/statusfile.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#define REAL_MAX 1e300

enum field_kind { FIELD_text, FIELD_pid, FIELD_u32, FIELD_u64, FIELD_real };

/* One row a field: kind and name, in the file and in the struct. */
#define FIELD_LIST(X) \
	X(pid, pid) \
	X(u64, written_s) \
	X(text, run) \
	X(text, name) \
	X(text, state) \
	X(text, coordinator) \
	X(text, reason) \
	X(text, last_refusal) \
	X(text, rate) \
	X(u32, member) \
	X(u64, round) \
	X(u64, steps_done) \
	X(u64, steps) \
	X(u64, sequence) \
	X(u64, state_round) \
	X(text, state_hash) \
	X(u64, tokens) \
	X(real, tokens_per_s) \
	X(real, delay_s) \
	X(real, loss) \
	X(u64, bytes_up) \
	X(u64, bytes_down) \
	X(u64, given) \
	X(u64, taken) \
	X(text, quota)

struct field {
	const char *name;
	enum field_kind kind;
	size_t at, size;
};

static const struct field fields[] = {
#define X(kind, name) \
	{#name, FIELD_##kind, offsetof(struct statusfile, name), \
		sizeof(((struct statusfile *)0)->name)},
	FIELD_LIST(X)
#undef X
};
#define N_FIELDS (sizeof fields / sizeof *fields)

static json_t *get(const struct statusfile *s, const struct field *f)
{
	const char *at = (const char *)s + f->at;
	char text[STATUSFILE_TEXT];
	uint32_t small;
	uint64_t number;
	double real;
	switch (f->kind) {
	case FIELD_text:
		snprintf(text, sizeof text, "%s", at);
		text_clean(text); /* a cut may have parted a character */
		return json_string(text);
	case FIELD_real:
		memcpy(&real, at, sizeof real);
		return json_real(isfinite(real) && fabs(real) < REAL_MAX ? real : 0);
	case FIELD_u32: memcpy(&small, at, sizeof small); return json_integer(small);
	case FIELD_u64:
	case FIELD_pid: break;
	}
	memcpy(&number, at, sizeof number);
	return json_integer((json_int_t)(number < INT64_MAX ? number : INT64_MAX));
}

static void set(struct statusfile *s, const struct field *f, struct json_in *in)
{
	char *at = (char *)s + f->at;
	if (f->kind == FIELD_text) {
		snprintf(at, f->size, "%s", json_get_text(in, f->name, f->size - 1, NULL));
		text_clean(at);
	} else if (f->kind == FIELD_real) {
		double real = json_get_real(in, f->name, -REAL_MAX, REAL_MAX, NULL);
		memcpy(at, &real, sizeof real);
	} else if (f->kind == FIELD_u32) {
		uint32_t small = (uint32_t)json_get_int(in, f->name, 0, UINT32_MAX, NULL);
		memcpy(at, &small, sizeof small);
	} else {
		bool pid = f->kind == FIELD_pid; /* 0 and below are not one process for kill() */
		int64_t number = json_get_int(in, f->name, pid, pid ? INT32_MAX : INT64_MAX, NULL);
		memcpy(at, &number, sizeof number);
	}
}

/* Written whole or not at all, but for a power cut. */
static enum err replace(const char *path, const char *text, struct why *why)
{
	char *next = alloc_must_printf("%s.next", path);
	size_t n = strlen(text);
	ssize_t written = -1;
	int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd >= 0)
		written = write(fd, text, n);
	int failed = written < 0 ? errno : (size_t)written < n ? ENOSPC : 0;
	if (fd >= 0 && close(fd) && !failed)
		failed = errno;
	if (!failed && rename(next, path))
		failed = errno;
	free(next);
	return failed ? file_why(why, "write", path, failed) : ERR_OK;
}

enum err statusfile_write(const char *dir, const struct statusfile *s, struct why *why)
{
	json_t *o = json_object();
	for (size_t i = 0; i < N_FIELDS; i++)
		json_object_set_new(o, fields[i].name, get(s, &fields[i]));
	char *text = json_canonical(o), *path = alloc_must_printf("%s/status.json", dir);
	enum err e =
		text ? replace(path, text, why) : err_why(why, ERR_nomem, "no memory for %s", path);
	json_decref(o);
	free(text);
	free(path);
	return e;
}

enum err statusfile_parse(
	const void *bytes, size_t n, const char *path, struct statusfile *out, struct why *why)
{
	struct json_in in;
	struct buf mistakes;
	json_t *doc = NULL;
	struct why inner;
	*out = (struct statusfile){0};
	if (json_parse(bytes, n, STATUSFILE_MAX, &doc, &inner))
		return err_why(why, ERR_syntax, "%s: %s", path, inner.text);
	buf_init(&mistakes, STATUSFILE_MAX);
	json_in_init(&in, doc, "", &mistakes);
	for (size_t i = 0; i < N_FIELDS; i++)
		set(out, &fields[i], &in);
	bool good = !mistakes.len && buf_ok(&mistakes);
	buf_release(&mistakes);
	json_decref(doc);
	if (good)
		return ERR_OK;
	*out = (struct statusfile){0};
	return err_why(why, ERR_syntax, "%s was not written by this version of shoal-peer", path);
}

enum err statusfile_read(const char *dir, struct statusfile *out, struct why *why)
{
	char *path = alloc_must_printf("%s/status.json", dir);
	uint8_t *bytes = NULL;
	size_t n;
	*out = (struct statusfile){0};
	enum err e = file_read(path, STATUSFILE_MAX, &bytes, &n, why);
	if (!e)
		e = statusfile_parse(bytes, n, path, out, why);
	free(bytes);
	free(path);
	return e;
}
