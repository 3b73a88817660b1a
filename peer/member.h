/*
 * The control loop of a peer in a run: owns its state, hears from the link, the compute worker and
 * the fetch thread by one mailbox, and decides what is next.  Every wait has a reason, which stands
 * in heartbeats, status.json and the progress line.
 */
#ifndef PEER_MEMBER_H
#define PEER_MEMBER_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "net/identity.h"
#include "net/joinlink.h"
#include "net/proxy.h"

struct member_config {
	const struct joinlink *link;
	const struct identity_peer *identity;
	const char *dir, *name, *backend;
	unsigned threads;
	double share;              /* of the time that it may compute, as throttle.h has it */
	uint64_t step_ns;          /* that a step takes at least */
	uint64_t memory;           /* as trainer.h has it */
	uint64_t windows;          /* validation windows to look at when asked; 0: all */
	uint64_t max_up;           /* bits/s that are sent on average; 0: no limit */
	uint64_t send_delay_ns;    /* as net/link.h has it */
	const struct proxy *proxy; /* what it connects by; NULL: directly */
	const char *listen;        /* where others reach this peer to take from it; NULL: nowhere */
	bool upnp;                 /* the router is asked to pass that port on */
	uint64_t give;             /* bytes/s to them at most */
	struct traffic *traffic;   /* where all that it sends and receives is counted; or NULL */
	struct quota *quota;       /* what of that it may have; or NULL */
};

/* Takes part until the run ends (ERR_OK), a signal asks to stop (ERR_interrupted, after saying
 * goodbye), or something is wrong for good (the code, with a sentence). */
enum err member_run(const struct member_config *config, struct why *why) MUST_CHECK;

#endif
