/* What the files of the control loop (member*.c) share; nobody else includes it. */
#ifndef PEER_MEMBER_PARTS_H
#define PEER_MEMBER_PARTS_H
#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "net/backoff.h"
#include "net/link.h"
#include "net/link_event.h"
#include "peer/aggregate.h"
#include "peer/dataset.h"
#include "peer/fetch.h"
#include "peer/give.h"
#include "compress/rate.h"
#include "peer/inbox.h"
#include "peer/linkspeed.h"
#include "peer/member.h"
#include "peer/portmap.h"
#include "peer/quota.h"
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

#define MEMBER_MESH (2 * PLAN_PEERS_MAX + 64u) /* links to other members that this one opens */
#define MEMBER_META 12u                        /* bytes: u64 round, u32 shard */

/* A link to another member, which it was told to open (member_mesh.c). */
struct member_mesh {
	bool used, open;
	bool probe;      /* only to measure the way, and then it is forgotten */
	uint32_t follow; /* updates come from there: GIVE_made, GIVE_all; 0: none */
	uint32_t number;
	uint8_t key[LINK_KEY];
	char address[ADDRESS_MAX];
	uint64_t named;    /* the newest round whose plan names it */
	uint64_t since_ns; /* it was opened */
	uint64_t asked_ns; /* a probe's last question */
	uint32_t asked, answered;
	uint64_t rtt_ns; /* the shortest; 0: not known yet */
	struct linkspeed up, down;
	uint64_t measured_ns, told_ns;
};

/* What was cut of a shard, until its round is listed or given up (member_send.c). */
struct member_sent {
	struct shared *bytes; /* NULL: nothing */
	enum { SENT_coordinator, SENT_aggregator, SENT_here } to;
	uint8_t key[LINK_KEY]; /* of that aggregator */
	uint64_t since_ns;
	uint32_t declined; /* by the aggregator, for a cause that passes */
	bool delivered;
};

/* What came from other peers of a shard (member_update.c). */
struct member_update {
	uint64_t round; /* that both are of; 0: nothing is here */
	struct shared *update, *entry;
	struct hash passed[2]; /* names of what was passed on last: update, entry */
	uint64_t made;         /* the newest round whose update this peer made */
};

/* A shard that this peer is to witness. */
struct member_witness {
	uint64_t round; /* 0: none */
	uint32_t aggregator;
	struct aggregate_item *items;
	size_t n;
};

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
	struct shelf *shelf;     /* NULL: its folder cannot be had */
	struct give *give;       /* NULL: nothing is given to other peers */
	struct portmap *portmap; /* NULL: the router is not asked for a port */
	bool reached_by_router;
	uint64_t taken; /* bytes from other peers */
	bool fresh;     /* there was no own state: the first snapshot was asked for */
	bool started;   /* the worker stands somewhere */
	bool applying;  /* the worker has records */
	bool reported;  /* the coordinator knows that we are at head */
	bool ahead;     /* the coordinator says that it is further than target */
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
	struct plan plan;         /* the last one heard */
	bool plan_waits;          /* it was not given to the worker yet */
	bool training;            /* it was, and the worker is at it */
	uint64_t delay_round;     /* overlap: the one that status.delay_s is of */
	bool starved;             /* overlap: and has trained on all its data */
	uint64_t *pushes;         /* refs of contributions on their way, by shard; 0: none */
	struct member_sent *sent; /* by shard */
	uint32_t delivered;       /* shards of this round that have arrived */
	uint32_t refused;         /* or were refused */
	uint64_t again_ns; /* when those that found no room there are handed over again; 0: none */
	struct backoff again;

	bool contributed; /* a whole contribution has arrived since this process began */
	bool spent;       /* the quota is; and the sentence */
	char spent_why[QUOTA_TEXT];
	bool ended; /* the run has; what it led to is still to be applied */
	uint64_t ended_ns;

	/* ---- other members, as aggregators, as sources of updates, and as their followers */
	struct aggregate *aggregate; /* NULL: no plan has named one yet */
	struct member_mesh mesh[MEMBER_MESH];
	uint64_t links_told_ns;
	uint64_t alone_ns; /* since when it listens and others could come; 0: not yet */
	bool alone_said;
	struct member_update *updates;  /* by shard */
	struct member_witness *witness; /* by shard */
	bool from_peers;                /* something in the inbox came from them */

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
/* Something of this peer's was refused: to its user, in log and status. */
void member_link_refusal(struct member *m, enum err code, const char *what, const char *text);
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

/* ---- contributions on their way (member_send.c) */

/* One that was cut; takes bytes. */
void member_send(struct member *m, uint32_t shard, uint8_t *bytes, size_t len);
/* A round's answer is asked for, maybe again: nothing of it counts as delivered. */
void member_send_begin(struct member *m);
/* They are not wanted any more. */
void member_send_end(struct member *m);
/* The plan names others: what went elsewhere is sent to them. */
void member_send_again(struct member *m, uint64_t now);
/* Sent to the coordinator: what the aggregator does not take for so long. */
void member_send_turn(struct member *m, uint64_t now);
/* The answer of key; of an own one with NULL and its shard in ref. */
void member_send_answered(struct member *m, const struct link_event *e, uint64_t now);
void member_send_here(struct member *m, uint32_t shard, const struct why *why, uint64_t now);

/* ---- links to other members (member_mesh.c) */

/* Opens those that the plan names, and ends those that none names any more. */
void member_mesh_plan(struct member *m, uint64_t now);
struct member_mesh *member_mesh_find(struct member *m, const uint8_t *key); /* NULL: none */
struct member_mesh *member_mesh_number(struct member *m, uint32_t number);
/* What one of them has to tell. */
void member_mesh_event(struct member *m, struct member_mesh *p, struct link_event *e, uint64_t now);
void member_mesh_probe(struct member *m, const struct link_event *e, uint64_t now);
void member_mesh_turn(struct member *m, uint64_t now); /* a few times a second */
void member_mesh_end(struct member *m);                /* all of them */

/* ---- aggregating, and being a witness (member_aggregate.c) */

size_t member_aggregate_most(const struct member *m); /* bytes of one, of any shard */
void member_aggregate_plan(struct member *m);
void member_aggregate_roster(struct member *m);
void member_aggregate_contribution(
	void *member, const uint8_t *key, uint64_t ref, uint8_t *bytes, size_t len);
void member_aggregate_bundle(void *member, const uint8_t *key, uint64_t round, uint32_t shard);
void member_aggregate_gather(struct member *m, const struct link_event *e);
void member_aggregate_witness(struct member *m, const struct link_event *e);
/* A bundle came that was asked of this one. */
void member_aggregate_check(struct member *m, const struct member_mesh *from, struct link_event *e);
/* The aggregator has no bundle for this witness. */
void member_aggregate_refused(struct member *m, uint32_t aggregator, const shoal_refusal *r);
void member_aggregate_result(struct member *m, struct aggregate_result *r, uint64_t now);
void member_aggregate_end(struct member *m);

/* ---- updates and entries that come from other members (member_update.c) */

/* An update or an entry: passed on to who follows, and kept until both are here. */
void member_update_take(
	struct member *m, struct shared *bytes, uint32_t kind, uint64_t round, uint32_t shard);
void member_update_made(struct member *m, struct shared *bytes, uint64_t round, uint32_t shard);
void member_update_object(struct member *m, struct link_event *e);
void member_update_record(struct member *m, struct aggregate_result *r);
/* Whether what is in the inbox up to the target leads there; if not it is dropped. */
bool member_update_leads(struct member *m);
void member_update_end(struct member *m);
/* meta of an object: u64 round, u32 shard; false: it is none, or of no shard of the model. */
bool member_update_meta(
	const struct member *m, const struct link_event *e, uint64_t *round, uint32_t *shard);
void member_update_put_meta(uint64_t round, uint32_t shard, uint8_t out[static MEMBER_META]);

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
/* What the router says about the port that others come in by. */
void member_shelf_reach(struct member *m, const struct portmap_result *r);
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

/* ---- what the line may carry (member_quota.c) */

void member_quota_count(struct member *m);
/* Parked while the quota is used up; ERR_interrupted: asked to stop meanwhile. */
enum err member_quota_wait(const struct member_config *config, struct why *why) MUST_CHECK;

/* State and reason as they follow from the above: to heartbeats, status file, log and progress. */
void member_show(struct member *m, uint64_t now);

#endif
