/* What the files of the control loop (member*.c) share; nobody else includes it. */
#ifndef PEER_MEMBER_PARTS_H
#define PEER_MEMBER_PARTS_H
#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "net/backoff.h"
#include "net/link.h"
#include "net/link_event.h"
#include "peer/dataset.h"
#include "peer/fetch.h"
#include "peer/give.h"
#include "compress/rate.h"
#include "peer/inbox.h"
#include "peer/linkspeed.h"
#include "peer/member.h"
#include "peer/shelf.h"
#include "peer/statusfile.h"
#include "peer/worker.h"
#include "round/object.h"

/* A log line that does not run into an open line of progress. */
#define member_log(m, level, ...) \
	do { \
		if (log_wants(LOG_peer, (level))) { \
			progress_clear(&(m)->progress); \
			log_line(LOG_peer, (level), __VA_ARGS__); \
		} \
	} while (0)
#define member_warn(m, ...) member_log(m, 0, __VA_ARGS__)

#define MEMBER_NEXT_TRY "; next try in " /* after the cause, in a reason */
/* A coordinator that comes back is found within ten seconds, however long it was away. */
#define MEMBER_RETRY_MOST (8 * CLOCK_SECOND)

struct member {
	const struct member_config *config;
	struct mailbox *mail;
	struct why *why; /* how it ends */
	enum err failed;

	/* ---- who and where: set once it has registered */
	bool joined;
	uint32_t number;
	uint8_t curve[LINK_KEY]; /* the coordinator's */
	char address[LINK_ADDRESS];
	struct spec *spec;
	struct dataset data;
	struct roster *roster, *next_roster; /* the worker borrows the first while it applies */

	/* ---- fetching */
	struct fetch *fetch;
	unsigned fetching; /* jobs without a result yet */
	char fetched[64];  /* how far the blob under way is */
	bool retry_set;    /* a job failed and will be tried again: */
	enum fetch_job retry;
	uint64_t retry_at_ns;
	char retry_why[STATUSFILE_TEXT]; /* until one succeeds */
	struct backoff backoff;

	/* ---- the ledger */
	struct worker *worker;
	struct shelf *shelf; /* NULL: its folder cannot be had */
	struct give *give;   /* NULL: nothing is given to other peers */
	uint64_t taken;      /* bytes from other peers */
	bool fresh;          /* there was no own state: the first snapshot was asked for */
	bool started;        /* the worker stands somewhere */
	bool applying;       /* the worker has records */
	bool reported;       /* the coordinator knows that we are at head */
	bool ahead;          /* the coordinator says that it is further than target */
	struct ledger_head head, target; /* where we stand; the newest signed one we know of */
	struct hash state;               /* of the replica at head */
	uint64_t target_since_ns, heard_bytes; /* patience: since when, and what had come by then */
	uint64_t wanted; /* up to here records were asked for over the link; 0: none */
	struct inbox inbox;
	unsigned repairs;       /* in a row without a round between them */
	struct backoff mending; /* between them */

	/* ---- the link */
	struct link *link;
	bool linked;
	unsigned unknown;  /* attempts in a row that were refused for not being on the roster */
	unsigned attempts; /* in a row without a welcome */
	char unlinked_why[STATUSFILE_TEXT];
	bool parked;
	char parked_why[STATUSFILE_TEXT];

	/* ---- the round */
	struct plan plan;     /* the last one heard */
	bool plan_waits;      /* it was not given to the worker yet */
	bool training;        /* it was, and the worker is at it */
	uint64_t delay_round; /* overlap: the one that status.delay_s is of */
	bool starved;         /* overlap: and has trained on all its data */
	uint64_t *pushes;     /* refs of contributions on their way, by shard; 0: none */
	uint32_t delivered;   /* shards of this round that have arrived */
	uint32_t refused;     /* or were refused */
	uint64_t again_ns; /* when those that found no room there are handed over again; 0: none */
	struct backoff again;

	bool contributed; /* a whole contribution has arrived since this process began */
	bool ended;       /* the run has; what it led to is still to be applied */
	uint64_t ended_ns;

	/* ---- how large contributions get (member_rate.c) */
	struct rate_ask rate;      /* what is known of it */
	struct linkspeed up, down; /* as contributions and records went */
	uint64_t rtt_ns;           /* the shortest round trip; 0: not measured yet */
	uint64_t cut_bytes;        /* of the contributions to the round, as they travel */

	/* ---- what is shown of all this (member_show.c) */
	struct statusfile status;
	shoal_heartbeat heartbeat; /* as it was told last */
	uint64_t reason_since_ns, shown_ns;
	bool reason_logged, status_failed;
	struct progress progress;
};

/* ---- member.c: decisions */

/* Ends the loop with this sentence. */
void member_fail(struct member *m, const struct why *why);
/* What the worker or the ledger says cannot go on from here: begin again, from this peer's own last
 * state if that may help (own), else from the newest snapshot. */
void member_repair(struct member *m, const struct why *why, bool own);
/* Takes a roster if it is newer; one that came while the worker applied is taken up when it has. */
void member_roster(struct member *m, struct roster *r);
void member_hello(struct member *m, bool first);
/* A signed head; patience for its records counts from the time given. */
void member_target(struct member *m, const struct ledger_head *h, uint64_t patience_from);
/* What the ledger and the plan ask of us now. */
void member_advance(struct member *m, uint64_t now);
/* Takes the records that are here, or sees to it that they come (member_catchup.c). */
void member_catchup_go(struct member *m, uint64_t now);
/* Unless they are on their way: asks for the records up to this entry over the link, and fetches
 * them by HTTPS when they do not come. */
void member_catchup_want(struct member *m, uint64_t upto, uint64_t now);
/* Contributions on their way are not wanted any more. */
void member_unpush(struct member *m);

/* ---- the others: what a thread has to tell */
void member_fetch(struct member *m, enum fetch_job job); /* starts one; member_fetch.c */
/* Starts it after a wait, for which the reason is shown. */
void member_fetch_later(
	struct member *m, enum fetch_job job, uint64_t wait_ns, const struct why *why);
void member_fetch_result(struct member *m, struct fetch_result *r, uint64_t now);
void member_link_event(struct member *m, struct link_event *e, uint64_t now);
void member_work_result(struct member *m, struct worker_result *r);

/* What others may ask for (member_shelf.c). */
void member_shelf_open(struct member *m);
/* The event's payload is a verified head, or with NULL a roster. */
void member_shelf_document(
	struct member *m, const struct link_event *e, const struct ledger_head *head);
void member_shelf_record(struct member *m, const void *bytes, size_t n);
void member_shelf_reached(struct member *m); /* a signed head; m->head */
void member_shelf_chain(struct member *m, const struct link_event *e);
void member_shelf_want(struct member *m, const struct link_event *e);

/* A contribution was delivered, or a record came in. */
void member_rate_object(struct member *m, const struct link_event *e, uint64_t now);
/* All contributions to the round were cut. */
void member_rate_cut(struct member *m);
/* Before training: how much of a chunk the next cut keeps.  In rounds of fixed steps that never
 * varies: their outcome must not depend on links. */
void member_rate_pick(struct member *m);

/* State and reason as they follow from the above: to heartbeats, status file, log and progress. */
void member_show(struct member *m, uint64_t now);

#endif
