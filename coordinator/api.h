/* The control plane's routes.  Handlers get the struct hub and run on its loop. */
#ifndef COORDINATOR_API_H
#define COORDINATOR_API_H
#include <stddef.h>
#include "net/https_server.h"

const struct https_route *api_routes(size_t *n);

#endif
