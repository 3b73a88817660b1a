/*
 * Runs on emulated links (tests/wan/wan.sh), for bench_swarm and bench_distance: beds, programs at
 * their nodes, a coordinator with its peers, and what their traces tell.  As root.  Whatever cannot
 * be done ends the bench with a sentence; beds and programs end with it.  One thread.
 */
#ifndef TESTS_HELP_BED_H
#define TESTS_HELP_BED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HELP_BED_FOLDER "build/bench/bed"
#define HELP_BED_PEERS 16

/* ---- beds and programs */

/* Whether this machine allows beds; why is its sentence if not. */
bool help_bed_allowed(char *why, size_t size);
/* Beds with different names stand beside each other. */
void help_bed_up(const char *name, const char *profile);
/* A profile with slower rates and longer ways, for who has less than a core: its path.  by below 1:
 * quicker ones. */
const char *help_bed_slow(const char *profile, double by);
/* From now on its lines are those of this file, in which all else must be the same. */
void help_bed_become(const char *name, const char *path);
/* What runs there is ended, too. */
void help_bed_down(const char *name);

struct help_bed_command {
	const char *bed, *node; /* bed NULL: on this machine itself */
	const char *log;        /* what it writes, to be read afterwards; appended to */
	const char *trace;      /* of our programs; or NULL */
	int nice;
};
/* argv[0] without a slash at its beginning is one of ours, below SHOAL_BIN. */
pid_t help_bed_start(const struct help_bed_command *c, const char *const *argv);
#define HELP_BED_START(c, ...) help_bed_start(c, (const char *const[]){__VA_ARGS__, NULL})
/* Kills it, if need be, and waits for it. */
void help_bed_kill(pid_t pid);
/* Waits for success; dies otherwise, with the end of its log. */
void help_bed_works(pid_t pid, const char *log, unsigned seconds);
/* Ends with an error if it has ended. */
void help_bed_must_live(pid_t pid, const char *log);

/* ---- bytes: what nodes and lines have carried */

char *help_bed_stats(const char *bed); /* caller frees */
/* Of a node its up_bytes or down_bytes, of a line "SITE-SITE" one way its bytes; 0: none yet. */
double help_bed_bytes(const char *stats, const char *name, const char *key);

/* ---- time: what is shown meanwhile, and how long the whole will take */

void help_bed_plan(double seconds); /* of all that follows, roughly */
/* Waits until ready(arg), or for so long if ready is NULL; dies after `limit`. */
void help_bed_wait(const char *what, double limit, bool (*ready)(const void *arg), const void *arg);

/* ---- one run */

/* A spec made from the bench's template with these changes, PATH=VALUE; returns its path. */
const char *help_bed_spec(const char *name, const char *const *changes);
const char *help_bed_data(void); /* that all specs of one context share */

struct help_bed_run {
	const char *bed, *name, *spec; /* name: its folder */
	double step_s[HELP_BED_PEERS]; /* that a step takes at least */
	unsigned n_peers, n_nodes;     /* they take the nodes p1 to p<n_nodes> in turn; 0: 4 */
	int nice;                      /* of the peers */
	unsigned windows;              /* of a validation; 0: all */
	const char *plan;              /* of serve --plan; NULL: its usual one */
	bool listens;                  /* each peer, at its node's address */
	bool ends;                     /* with its last token */
	double started;                /* of this process's clock: when the traces begin */
	pid_t coordinator, peer[HELP_BED_PEERS];
};
void help_bed_run_start(struct help_bed_run *r);
void help_bed_run_peer(struct help_bed_run *r, unsigned i); /* starts it, the first time or again */
void help_bed_run_end(struct help_bed_run *r);
const char *help_bed_path(const char *run, const char *file); /* kept for good */

/* The same trainers without a network: shoal-peer local at the same nodes. */
void help_bed_alone_start(struct help_bed_run *r);

/* ---- traces */

struct help_bed_round {
	double t;       /* of its commit, from the coordinator's start */
	double seconds; /* from opening to commit */
	uint64_t round, members, tokens;
};
/* Caller frees. */
size_t help_bed_rounds(const struct help_bed_run *r, struct help_bed_round **out);
/* When, by the machine's clock, the first event of this name was of that round or a later one;
 * infinite: not yet.  peer -1: the coordinator's. */
double help_bed_when(const struct help_bed_run *r, int peer, const char *event, uint64_t round);
/* What the ledger got between the commits of the round `after` and of the last one. */
struct help_bed_pace {
	double begin, end; /* seconds of this process's clock; equal: too few rounds yet */
	double tokens_per_s;
};
struct help_bed_pace help_bed_pace(const struct help_bed_run *r, uint64_t after);
/* Steps that a trainer had made at a time of this process's clock; between two steps the part of
 * the next one that had passed. */
double help_bed_steps(const struct help_bed_run *r, unsigned peer, double at);
/* The least validation loss that the coordinator was told, and the round after which it was;
 * infinite while there is none. */
double help_bed_validation(const struct help_bed_run *r, double target, uint64_t *round);

#endif
