/* Time as an input.  Decisions take a time in nanoseconds; only loops read a clock, once per turn.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H
#include <stdint.h>

#define CLOCK_SECOND 1000000000ull
#define CLOCK_MS 1000000ull

uint64_t clock_now_ns(void);       /* monotonic, does not jump with the wall clock */
uint64_t clock_wall_s(void);       /* seconds since 1970, for validity dates and log lines only */
double clock_seconds(uint64_t ns); /* as a fraction, for display */
/* "850ms", "12.3s", "3m 05s", "2h 10m", "5d 04h" into out. */
void clock_text(uint64_t ns, char out[static 24]);

#endif
