/* The Range header of a request (RFC 9110, 14.2), one range of bytes.  Pure. */
#ifndef NET_HTTPS_RANGE_H
#define NET_HTTPS_RANGE_H
#include <stdint.h>

enum https_range {
	HTTPS_RANGE_whole, /* none asked for, or one that may be ignored: several, another unit */
	HTTPS_RANGE_part,
	HTTPS_RANGE_outside, /* nothing of it exists: 416 */
};

/* text may be NULL; first and end (exclusive) are set in every case but the last. */
enum https_range https_range_parse(const char *text, uint64_t size, uint64_t *first, uint64_t *end);

#endif
