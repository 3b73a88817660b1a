/* Numbers for people. */
#ifndef COORDINATOR_HUMAN_H
#define COORDINATOR_HUMAN_H
#include <stdint.h>

#define HUMAN_TEXT 32

/* "1,234,567"; returns out, so that it can stand among the arguments of printf. */
const char *human_count(uint64_t n, char out[static HUMAN_TEXT]);
/* Three digits and a decimal prefix: "1.78 MB" for unit "B", "446 k" for "". */
const char *human_size(uint64_t n, const char *unit, char out[static HUMAN_TEXT]);

#endif
