#include "base/progress.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/text.h"

#define EVERY_TTY (100 * CLOCK_MS)
#define EVERY_FILE (5 * CLOCK_SECOND)
#define WIDTH_USUAL 80u /* of a terminal that does not say */
#define ERASE "\r\033[K"

void progress_init(struct progress *p, double share_done)
{
	*p = (struct progress){.start_ns = clock_now_ns(),
		.start_share = share_done,
		.tty = isatty(STDERR_FILENO) == 1,
		.open = p->open};
}

/* A line that wraps could not be taken back. */
static void cut(char *line)
{
	struct winsize w;
	size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) || !w.ws_col ? WIDTH_USUAL : w.ws_col;
	if (strlen(line) < width)
		return;
	line[width - 1] = 0;
	text_clean(line);
}

void progress_show(struct progress *p, double share, bool force, const char *fmt, ...)
{
	uint64_t now = clock_now_ns();
	if (!force && now - p->shown_ns < (p->tty ? EVERY_TTY : EVERY_FILE))
		return;
	p->shown_ns = now;
	char text[300], line[400], left[24];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	double gained = share - p->start_share;
	bool known = gained > 0 && share <= 1;
	if (known)
		clock_text((uint64_t)((double)(now - p->start_ns) * (1 - share) / gained), left);
	snprintf(line, sizeof line, "%3.0f%%  %s%s%s", 100 * share, text, known ? "  " : "",
		known ? left : "");
	if (known)
		snprintf(line + strlen(line), sizeof line - strlen(line), " left");
	if (p->tty)
		cut(line);
	fprintf(stderr, "%s%s%s", p->tty ? ERASE : "", line, p->tty ? "" : "\n");
	fflush(stderr);
	p->open = p->tty;
}

void progress_clear(struct progress *p)
{
	if (p->open)
		fputs(ERASE, stderr);
	p->open = false;
}

void progress_end(struct progress *p)
{
	if (p->open)
		fputc('\n', stderr);
	p->open = false;
}
