/* The join link of a coordinator that serves, in a file.  The control loop's thread. */
#ifndef COORDINATOR_HUB_INVITE_H
#define COORDINATOR_HUB_INVITE_H
#include "coordinator/hub.h"
#include "coordinator/invites.h"

/* Host and port as links name them: --public-address, else the address that is listened on, else
 * the first of this machine that is not its own loopback or a container's bridge. */
void hub_invite_where(
	const struct hub *h, struct invites_wish *out, char host[static JOINLINK_HOST]);
/* The file (mode 0600).  One that is there is kept as long as its link is good for this address and
 * its invite holds.  Sets h->invite_path. */
enum err hub_invite_file(struct hub *h, struct why *why) MUST_CHECK;

#endif
