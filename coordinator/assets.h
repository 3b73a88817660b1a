/* The page's files, embedded in the binary. */
#ifndef COORDINATOR_ASSETS_H
#define COORDINATOR_ASSETS_H
#include <stddef.h>
#include <stdint.h>

struct asset {
	const char *path;  /* as it is asked for: "/app.js" */
	const char *type;  /* of the content */
	const char *cache; /* Cache-Control */
	const uint8_t *bytes, *end;
};

const struct asset *assets_find(const char *path); /* NULL: there is none */

#endif
