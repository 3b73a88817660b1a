/* Room on disk for what may not fit in memory: a mapping of a file without a name, which is gone
 * when it is released or the process ends. */
#ifndef BASE_SCRATCH_H
#define BASE_SCRATCH_H
#include <stddef.h>
#include "base/err.h"

/* bytes (at least 1) of zeros in the file system of the folder dir, with the disk space taken. */
enum err scratch_take(const char *dir, size_t bytes, void **out, struct why *why) MUST_CHECK;
void scratch_release(void *at, size_t bytes); /* NULL-safe */

#endif
