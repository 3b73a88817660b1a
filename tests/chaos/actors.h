/*
 * The processes of a chaos run, and what can be done to them: one coordinator and peers on this
 * machine, each peer behind a relay of its own (tests/help_relay.h), each process with a wall clock
 * that can be set and a disk that can be full (tests/help_faults.h; where mounts are allowed its
 * folder is on a small disk of its own instead, which is filled).  Failures end the test (cmocka);
 * actors_release in any case.
 */
#ifndef TESTS_CHAOS_ACTORS_H
#define TESTS_CHAOS_ACTORS_H
#include <stdbool.h>
#include <stdint.h>
#include "tests/chaos/listed.h"
#include "tests/chaos/schedule.h"
#include "tests/help_faults.h"
#include "tests/help_relay.h"
#include "tests/help_swarm.h"

struct actor {
	char name[16];
	const char *dir;
	struct proc *proc;
	struct proc **past; /* all that ran, in order; the last is proc */
	size_t n_past;
	struct faults *faults;
	bool down; /* ended, as it was asked to */
	/* ---- of a peer */
	struct relay *relay;
	const char *link;
};

struct actors {
	struct swarm swarm;
	struct actor at[SCHEDULE_PEERS_MAX + 1]; /* [0] is the coordinator */
	uint32_t peers;
	bool disks; /* of their own */
	uint64_t start_ns;
	struct listed listed; /* what the coordinator keeps, and kept */
	uint64_t looked_ns;
};

/* Starts all.  set: more PATH=VALUE words of the spec, with blanks between them; may be empty. */
void actors_start(struct actors *a, uint32_t peers, const char *set);
/* One event begins, or is mended again. */
void actors_break(struct actors *a, const struct schedule_event *e);
void actors_mend(struct actors *a, const struct schedule_event *e);
/* Due all the time.  Fails when somebody has ended without being asked to; looks, now and then,
 * into the coordinator's blobs. */
void actors_watch(struct actors *a);
/* Asks all peers to stop and waits for each; then the coordinator, whose last line is returned. */
const char *actors_stop(struct actors *a);
void actors_memory(const struct actors *a); /* a line for each process */
/* Writes what each process said to folder/NAME-N.log, ends them, and removes all else but what
 * `keep` says is to be looked at: the coordinator's folder goes there too. */
void actors_release(struct actors *a, const char *folder, bool keep);
/* A line with the time since the start. */
void actors_say(const struct actors *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
