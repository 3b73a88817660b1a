#include "peer/progress.h"
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include "base/clock.h"

#define EVERY_TTY (100 * CLOCK_MS)
#define EVERY_FILE (5 * CLOCK_SECOND)

void progress_init(struct progress *p, double share_done)
{
	*p = (struct progress){.start_ns = clock_now_ns(),
		.start_share = share_done,
		.tty = isatty(STDERR_FILENO) == 1};
}

void progress_show(struct progress *p, double share, bool force, const char *fmt, ...)
{
	uint64_t now = clock_now_ns();
	if (!force && now - p->shown_ns < (p->tty ? EVERY_TTY : EVERY_FILE))
		return;
	p->shown_ns = now;
	char text[256], left[24] = "?";
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	double gained = share - p->start_share;
	if (gained > 0 && share <= 1)
		clock_text((uint64_t)((double)(now - p->start_ns) * (1 - share) / gained), left);
	fprintf(stderr, "%s%3.0f%%  %s  %s left%s", p->tty ? "\r\033[K" : "", 100 * share, text,
		left, p->tty ? "" : "\n");
	fflush(stderr);
	p->open = p->tty;
}

void progress_end(struct progress *p)
{
	if (p->open)
		fputc('\n', stderr);
	p->open = false;
}
