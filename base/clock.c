#include "base/clock.h"
#include <stdio.h>
#include <time.h>

uint64_t clock_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * CLOCK_SECOND + (uint64_t)t.tv_nsec;
}

uint64_t clock_wall_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec < 0 ? 0 : (uint64_t)t.tv_sec;
}

double clock_seconds(uint64_t ns)
{
	return (double)ns * 1e-9;
}

void clock_text(uint64_t ns, char out[static 24])
{
	unsigned long long ms = ns / CLOCK_MS, s = ms / 1000, m = s / 60, h = m / 60, d = h / 24;
	if (s < 1)
		snprintf(out, 24, "%llums", ms);
	else if (m < 1)
		snprintf(out, 24, "%llu.%llus", s, ms % 1000 / 100);
	else if (h < 1)
		snprintf(out, 24, "%llum %02llus", m, s % 60);
	else if (d < 2)
		snprintf(out, 24, "%lluh %02llum", h, m % 60);
	else
		snprintf(out, 24, "%llud %02lluh", d, h % 24);
}
