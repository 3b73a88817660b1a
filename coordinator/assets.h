/* The page's files, embedded in the binary. */
#ifndef COORDINATOR_ASSETS_H
#define COORDINATOR_ASSETS_H
#include <stddef.h>
#include <stdint.h>

struct assets_file {
	const char *path; /* as it is asked for: "/app.js" */
	const char *type; /* of the content */
	const uint8_t *bytes, *end;
};

const struct assets_file *assets_find(const char *path); /* NULL: there is none */

#endif
