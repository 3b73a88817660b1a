/* A real coordinator and real peers on loopback, for end-to-end tests. */
#ifndef TESTS_HELP_SWARM_H
#define TESTS_HELP_SWARM_H
#include <stdint.h>
#include "base/json.h"
#include "tests/help_proc.h"

struct swarm {
	const char *scratch, *data, *spec, *dir,
		*link;    /* dir: the coordinator's; link: the file with the join link */
	const char *host; /* where it is reached, as in a URL */
	uint16_t port,
		link_port; /* fixed after the first start, so that a restart finds its peers */
	struct proc *coordinator;
};

/* Text, data, spec (changes as help_run_spec takes them) and a running coordinator that ends with
 * the run. */
void help_swarm_start(struct swarm *s, const char *const *changes);
/* The same at another address than 127.0.0.1, as in a URL; borrowed. */
void help_swarm_start_at(struct swarm *s, const char *host, const char *const *changes);
/* Starts the coordinator (again), on the same folder and ports. */
void help_swarm_coordinator(struct swarm *s);
/* A peer with one thread and a folder of its own under scratch, so that the same name comes back as
 * the same member. */
struct proc *help_swarm_peer(const struct swarm *s, const char *name);
/* GET of the coordinator's API as JSON, until proc_teardown's end; NULL while it does not answer.
 */
json_t *help_swarm_get(const struct swarm *s, const char *path);
uint64_t help_swarm_at(const struct swarm *s); /* the newest head's round */
/* Waits until the ledger stands at this round or beyond (the newest head's round). */
void help_swarm_round(const struct swarm *s, uint64_t round, unsigned seconds);
/* Stops the coordinator; returns its "serve: stopped" line. */
const char *help_swarm_stop(struct swarm *s);
/* Verified tokens of the member of this name, as the page shows them. */
uint64_t help_swarm_tokens(const struct swarm *s, const char *name);
/* Waits until more than these tokens of that member's are listed. */
void help_swarm_goes_on(const struct swarm *s, const char *name, uint64_t before, unsigned seconds);
/* Waits until `shoal-peer status` for the peer of this name says part; all that it says then. */
const char *help_swarm_says(
	const struct swarm *s, const char *name, const char *part, unsigned seconds);
/* Waits for the end of the run; returns the coordinator's "serve: finished" line. */
const char *help_swarm_finish(struct swarm *s, unsigned seconds);
/* The peer must end with status 0; what it wrote is shown if not. */
void help_swarm_ends(struct proc *peer, unsigned seconds);
/* replay --verify must agree with that line. */
void help_swarm_verify(const struct swarm *s, const char *finished);

#endif
