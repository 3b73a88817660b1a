/* What the operator's token allows: pause, resume, kick, stop, invites. */
#ifndef COORDINATOR_API_CONTROL_H
#define COORDINATOR_API_CONTROL_H
#include "net/https_server.h"

void api_control_check(void *hub, struct https_request *r); /* is the token good? */
void api_control_pause(void *hub, struct https_request *r);
void api_control_resume(void *hub, struct https_request *r);
void api_control_kick(void *hub, struct https_request *r);
void api_control_stop(void *hub, struct https_request *r);
void api_control_invite(void *hub, struct https_request *r);
void api_control_revoke(void *hub, struct https_request *r);
void api_control_invites(void *hub, struct https_request *r);

#endif
