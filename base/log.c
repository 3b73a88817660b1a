#include "base/log.h"
#include "base/text.h"
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEVEL_MOST 5
// A line doubled by escapes stays below PIPE_BUF, so that one write is one whole line.
#define TEXT_MAX 1800

static const char *const names[LOG_COUNT] = {
#define X(name) #name,
	LOG_LIST(X)
#undef X
};

// Stored as the difference to the default of 1, so that zero-initialised is right.
static atomic_int offset[LOG_COUNT];
static atomic_bool as_json;

/* The subsystem of that name of n bytes, or LOG_COUNT. */
static size_t find(const char *name, size_t n)
{
	size_t i = 0;
	while (i < LOG_COUNT && !(strlen(names[i]) == n && memcmp(names[i], name, n) == 0))
		i++;
	return i;
}

static enum err refuse(struct why *why, const char *item, size_t n)
{
	char list[200] = "";
	for (size_t i = 0; i < LOG_COUNT; i++) {
		size_t at = strlen(list);
		snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", names[i]);
	}
	return err_why(why, ERR_syntax,
		"LOG: \"%.*s\" is not LEVEL or NAME:LEVEL; levels are 0 to %d, names are %s",
		(int)(n < 60 ? n : 60), item, LEVEL_MOST, list);
}

enum err log_select(const char *text, struct why *why)
{
	int level[LOG_COUNT];
	for (size_t i = 0; i < LOG_COUNT; i++)
		level[i] = atomic_load(&offset[i]) + 1;
	while (*text) {
		size_t n = strcspn(text, ",");
		const char *digit = n ? text + n - 1 : text;
		bool all = n == 1;
		size_t sub = n > 2 && digit[-1] == ':' ? find(text, n - 2) : LOG_COUNT;
		if (n == 0 || *digit < '0' || *digit > '0' + LEVEL_MOST ||
			(!all && sub == LOG_COUNT))
			return refuse(why, text, n);
		for (size_t i = 0; i < LOG_COUNT; i++)
			if (all || i == sub)
				level[i] = *digit - '0';
		text += n;
		text += *text == ',';
	}
	for (size_t i = 0; i < LOG_COUNT; i++)
		atomic_store(&offset[i], level[i] - 1);
	return ERR_OK;
}

void log_json(bool on)
{
	atomic_store(&as_json, on);
}

bool log_wants(enum log_sub sub, int level)
{
	return level <= atomic_load_explicit(&offset[sub], memory_order_relaxed) + 1;
}

static size_t text_head(char *out, size_t room, const struct timespec *now, enum log_sub sub)
{
	struct tm tm;
	localtime_r(&now->tv_sec, &tm);
	return (size_t)snprintf(
		out, room, "%02d:%02d:%02d %s: ", tm.tm_hour, tm.tm_min, tm.tm_sec, names[sub]);
}

static size_t json_head(
	char *out, size_t room, const struct timespec *now, enum log_sub sub, int level)
{
	struct tm tm;
	gmtime_r(&now->tv_sec, &tm);
	size_t n = strftime(out, room, "{\"time\":\"%Y-%m-%dT%H:%M:%S", &tm);
	n += (size_t)snprintf(out + n, room - n,
		".%03ldZ\",\"subsystem\":\"%s\",\"level\":%d,\"text\":\"", now->tv_nsec / 1000000,
		names[sub], level);
	return n;
}

void log_line(enum log_sub sub, int level, const char *fmt, ...)
{
	int kept_errno = errno;
	char text[TEXT_MAX], line[2 * TEXT_MAX + 200];
	va_list args;
	va_start(args, fmt);
	if (vsnprintf(text, sizeof text, fmt, args) < 0)
		text[0] = '\0';
	va_end(args);
	text_clean(text);

	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	bool json = atomic_load_explicit(&as_json, memory_order_relaxed);
	size_t n = json ? json_head(line, sizeof line, &now, sub, level)
			: text_head(line, sizeof line, &now, sub);
	for (const char *c = text; *c; c++) {
		// After text_clean these two are all that JSON wants escaped.
		if (json && (*c == '"' || *c == '\\'))
			line[n++] = '\\';
		line[n++] = *c;
	}
	if (json) {
		line[n++] = '"';
		line[n++] = '}';
	}
	line[n++] = '\n';
	// Nobody can be told that the log itself cannot be written.
	ssize_t written = write(STDERR_FILENO, line, n);
	(void)written;
	errno = kept_errno;
}
