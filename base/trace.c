#include "base/trace.h"
#include "base/clock.h"
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_bool on;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fd = -1;
static uint64_t start_ns;

enum err trace_open(const char *path, struct why *why)
{
	trace_close();
	int f = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	if (f < 0)
		return file_why(why, "write the trace", path, errno);
	pthread_mutex_lock(&lock);
	fd = f;
	start_ns = clock_now_ns();
	pthread_mutex_unlock(&lock);
	atomic_store(&on, true);
	trace_event("begin", "{s:f}", "clock", clock_seconds(start_ns));
	return ERR_OK;
}

bool trace_on(void)
{
	return atomic_load_explicit(&on, memory_order_relaxed);
}

static void write_line(json_t *line)
{
	pthread_mutex_lock(&lock);
	json_object_set_new(line, "t", json_real(clock_seconds(clock_now_ns() - start_ns)));
	char *text = fd >= 0 ? json_dumps(line, JSON_COMPACT) : NULL;
	if (text) {
		// The final NUL gives its place to the newline: one write is one whole line.
		size_t n = strlen(text);
		text[n] = '\n';
		ssize_t written = write(fd, text, n + 1);
		(void)written;
		free(text);
	}
	pthread_mutex_unlock(&lock);
}

void trace_event(const char *event, const char *fmt, ...)
{
	if (!trace_on())
		return;
	va_list args;
	json_error_t e;
	va_start(args, fmt);
	json_t *members = json_vpack_ex(&e, 0, fmt, args);
	va_end(args);
	json_t *line = json_pack("{s:f,s:s}", "t", 0.0, "event", event);
	// A text that is not UTF-8 cannot be packed: the event then says so in its place.
	if (members)
		json_object_update_missing(line, members);
	else
		json_object_set_new(line, "not_packed", json_string(e.text));
	write_line(line);
	json_decref(members);
	json_decref(line);
}

void trace_close(void)
{
	pthread_mutex_lock(&lock);
	atomic_store(&on, false);
	if (fd >= 0)
		close(fd);
	fd = -1;
	pthread_mutex_unlock(&lock);
}
