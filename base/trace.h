/* TRACE=FILE writes one JSON line per event: {"t": seconds, "event": name, …}; the first one,
 * begin, says where t begins on the machine's clock, so that traces can be laid side by side.
 * Thread-safe. */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H
#include <stdbool.h>
#include "base/err.h"

enum err trace_open(const char *path, struct why *why) MUST_CHECK;
bool trace_on(void);
/* fmt and arguments as json_pack takes them, describing one object: trace_event("cut", "{s:i}",
 * "round", 3). */
void trace_event(const char *event, const char *fmt, ...);
void trace_close(void);

#endif
