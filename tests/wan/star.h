/*
 * The bed while it runs: one TUN device in every node's namespace, and this process between them.
 * A packet goes up the access link of its sender, over the link of the two sites, and down the
 * access link of its receiver; packets for other addresses end here.  One thread.
 */
#ifndef TESTS_WAN_STAR_H
#define TESTS_WAN_STAR_H
#include "tests/wan/bed.h"

/* Opens the devices, listens for commands at control (steer.h), and carries packets until SIGINT or
 * SIGTERM.  A command is a line as bed_change takes it, answered by "ok" or by the sentence of
 * the mistake; "stats" is answered by a line for every node: NAME up_bytes= down_bytes= lost=
 * dropped= (what it sent and got, and what of either was lost or found a full queue, on its own
 * access link; of a link of sites, SITE-SITE likewise; and how many packets routers did not let
 * in). */
enum err star_run(struct bed *t, const char *prefix, uint64_t seed, const char *control,
	struct why *why) MUST_CHECK;

#endif
