#include "peer/statusfile.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#define FILE_MAX 65536
#define NUMBER_MAX INT64_MAX

enum field_kind { FIELD_text, FIELD_number, FIELD_real };

/* One row a field: name in the file, where it is, how long a text may be. */
#define TEXT(f) \
	{ \
#f, FIELD_text, offsetof(struct statusfile, f), \
			sizeof(((struct statusfile *)0)->f) \
	}
#define NUMBER(f) \
	{ \
#f, FIELD_number, offsetof(struct statusfile, f), \
			sizeof(((struct statusfile *)0)->f) \
	}
#define REAL(f) \
	{ \
#f, FIELD_real, offsetof(struct statusfile, f), sizeof(double) \
	}

static const struct {
	const char *name;
	enum field_kind kind;
	size_t at, size;
} fields[] = {
	NUMBER(pid),
	NUMBER(written_s),
	TEXT(run),
	TEXT(name),
	TEXT(state),
	TEXT(coordinator),
	TEXT(reason),
	TEXT(last_refusal),
	NUMBER(member),
	NUMBER(round),
	NUMBER(steps_done),
	NUMBER(steps),
	NUMBER(sequence),
	NUMBER(tokens),
	REAL(tokens_per_s),
	REAL(loss),
	NUMBER(bytes_up),
	NUMBER(bytes_down),
};
#define N_FIELDS (sizeof fields / sizeof *fields)

static json_t *get(const struct statusfile *s, size_t i)
{
	const char *at = (const char *)s + fields[i].at;
	uint32_t small;
	int64_t number;
	double real;
	switch (fields[i].kind) {
	case FIELD_text: return json_string(at);
	case FIELD_real: memcpy(&real, at, sizeof real); return json_real(real);
	case FIELD_number: break;
	}
	if (fields[i].size == sizeof small) {
		memcpy(&small, at, sizeof small);
		return json_integer(small);
	}
	memcpy(&number, at, sizeof number);
	return json_integer(number);
}

static void set(struct statusfile *s, size_t i, struct json_in *in)
{
	char *at = (char *)s + fields[i].at;
	if (fields[i].kind == FIELD_text) {
		const char *text = json_get_text(in, fields[i].name, fields[i].size - 1, NULL);
		snprintf(at, fields[i].size, "%s", text);
		text_clean(at);
	} else if (fields[i].kind == FIELD_real) {
		double real = json_get_real(in, fields[i].name, -1e300, 1e300, NULL);
		memcpy(at, &real, sizeof real);
	} else {
		int64_t number = json_get_int(
			in, fields[i].name, 0, fields[i].size == 4 ? UINT32_MAX : NUMBER_MAX, NULL);
		uint32_t small = (uint32_t)number;
		memcpy(at, fields[i].size == 4 ? (void *)&small : (void *)&number, fields[i].size);
	}
}

enum err statusfile_write(const char *dir, const struct statusfile *s, struct why *why)
{
	json_t *o = json_object();
	for (size_t i = 0; i < N_FIELDS; i++)
		json_object_set_new(o, fields[i].name, get(s, i));
	char *text = json_canonical(o), *path = alloc_must_printf("%s/status.json", dir);
	char *next = alloc_must_printf("%s/status.json.next", dir);
	json_decref(o);
	int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	size_t n = strlen(text);
	bool ok = fd >= 0 && write(fd, text, n) == (ssize_t)n;
	if (fd >= 0)
		ok = !close(fd) && ok;
	ok = ok && !rename(next, path);
	enum err e = ok ? ERR_OK
			: err_why(why, err_from_errno(errno), "%s cannot be written: %s", path,
				  strerror(errno));
	free(text);
	free(path);
	free(next);
	return e;
}

enum err statusfile_read(const char *dir, struct statusfile *out, struct why *why)
{
	char *path = alloc_must_printf("%s/status.json", dir);
	uint8_t *bytes = NULL;
	size_t n;
	json_t *doc = NULL;
	struct buf mistakes;
	*out = (struct statusfile){0};
	buf_init(&mistakes, FILE_MAX);
	enum err e = file_read(path, FILE_MAX, &bytes, &n, why);
	if (!e)
		e = json_parse(bytes, n, FILE_MAX, &doc, why);
	if (!e) {
		struct json_in in;
		json_in_init(&in, doc, "", &mistakes);
		for (size_t i = 0; i < N_FIELDS; i++)
			set(out, i, &in);
		if (mistakes.len)
			e = err_why(why, ERR_syntax,
				"%s was not written by this version of shoal-peer", path);
	}
	buf_release(&mistakes);
	json_decref(doc);
	free(bytes);
	free(path);
	return e;
}
