/* POST /api/v1/join: who holds an invite becomes a member; who is one is told its number again. */
#ifndef COORDINATOR_API_JOIN_H
#define COORDINATOR_API_JOIN_H
#include "net/https_server.h"

void api_join(void *hub, struct https_request *r);

#endif
