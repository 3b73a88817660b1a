/*
 * Log lines to standard error, per subsystem: text, or JSON lines with log_json(true).
 * LOG=net:3,round:1 selects; a level says how often you will be told: 0 errors and warnings,
 * 1 per process (default), 2 per peer, 3 per round, 4 per message, 5 per chunk.
 * Thread-safe.  Never log a secret.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H
#include <stdbool.h>
#include "base/err.h"

#define LOG_LIST(X) \
	X(base) \
	X(model) \
	X(data) X(kernel) X(net) X(http) X(round) X(ledger) X(store) X(peer) X(coord) X(page)

enum log_sub {
#define X(name) LOG_##name,
	LOG_LIST(X)
#undef X
		LOG_COUNT
};

/* "net:3,round:1" or "2" for all; ERR_syntax with a sentence that lists the names. */
enum err log_select(const char *text, struct why *why) MUST_CHECK;
void log_json(bool on);
bool log_wants(enum log_sub sub, int level);
void log_line(enum log_sub sub, int level, const char *fmt, ...) PRINTF_LIKE(3, 4);

#define log_at(sub, level, ...) \
	do { \
		if (log_wants(LOG_##sub, (level))) \
			log_line(LOG_##sub, (level), __VA_ARGS__); \
	} while (0)
#define log_warn(sub, ...) log_line(LOG_##sub, 0, __VA_ARGS__)

#endif
