/*
 * The hub: the coordinator's control loop.  It owns the round machine and everything of the run,
 * hears from the data plane, the desk, HTTP and timers, and carries out what the machine decides.
 * One thread, the one that calls hub_run.
 */
#ifndef COORDINATOR_HUB_H
#define COORDINATOR_HUB_H
#include <stdbool.h>
#include <stdint.h>
#include "base/clock.h"
#include "base/err.h"
#include "coordinator/desk.h"
#include "coordinator/feed.h"
#include "coordinator/rounds.h"
#include "coordinator/run.h"
#include "coordinator/topology.h"
#include "model/manifest.h"
#include "net/address.h"
#include "net/link.h"

struct event;
struct event_base;
struct https_server;

#define HUB_PUSH_MOST ((size_t)64 << 20) /* larger records are fetched, not pushed */

/* What is known of a member beside what the machine and the roster know. */
struct hub_member {
	bool linked, changed; /* changed: pages have not heard of it */
	uint64_t instance;
	char version[STORE_NAME];
	char address[ADDRESS_MAX]; /* where it gives to other peers; empty: it does not */
	uint64_t sequence;         /* of the ledger entry that its replica stands at */
	shoal_heartbeat told;
	/* overlap: seconds from its last cut of each fragment until it joined the update; 0: none
	 */
	double delay_s[SPEC_FRAGMENTS_MAX];
	bool following; /* every record is sent to it: it is at the head or soon will be */
	uint64_t heard_ns, nudged_ns;
	uint64_t bytes_up, bytes_down, refusals; /* since this process began */
	double rate;           /* bytes/s of the last object to or from it; 0: not known */
	uint64_t *pushed;      /* refs of records that are on the way; n_shards, 0: none */
	struct hub_owed *owed; /* records on the way that it asked for */
	uint32_t n_owed;
	uint64_t wanted_ns;          /* when it last asked for records */
	struct hub_arrival *arrived; /* by shard, in the open round */
};

struct hub_owed {
	uint64_t ref, bytes;
};

struct hub_arrival {
	bool have;
	struct hash id;
	uint32_t via; /* the aggregator that has the bytes; MEMBERS_NONE: they are here */
};

/* When the last rounds were committed and what the ledger held then: the speed that pages show. */
#define HUB_PACE 16u
struct hub_pace {
	uint64_t at_ns, tokens;
};

struct hub_config {
	const char *dir, *data, *init; /* init: folder with the initial weights, or NULL */
	const char *address, *public_address;
	uint16_t port, link_port;
	const char *invite_file; /* NULL: DIR/join.link */
	uint64_t invite_expires_ns;
	uint32_t invite_uses;
	uint64_t memory; /* for objects that are being received */
	uint64_t heartbeat_ns, timeout_ns;
	uint32_t connections_most;
	uint64_t max_up; /* bits/s that are sent, links and HTTPS together; 0: no limit */
	bool exit_at_end;
	enum topology_mode plan;
};

struct hub {
	struct hub_config config;
	struct run run;
	struct manifest *manifest;
	char token[65];    /* the operator's */
	char *invite_path; /* the file with the join link */
	char *statement;   /* as hub_statement gives it */
	uint64_t statement_from_s;
	struct rounds *rounds;
	struct mailbox *mail;
	struct desk *desk;
	struct egress *egress; /* of link and https */
	struct link *link;
	struct event_base *base;
	struct event *on_mail, *on_timer, *on_signal, *on_beat;
	struct https_server *https;
	struct feed *feed;
	struct hub_member *members; /* by number */
	uint32_t n_members;
	struct hub_topology *topology;
	struct hub_gather *gather;

	uint64_t start_ns, opened_s; /* opened_s: of the open round, wall clock */
	uint64_t announced;          /* the open round, once it is on disk; 0: none */
	uint32_t dropped;            /* out of the open round */
	uint64_t withdrawn;          /* contributions that were lost with their aggregator, ever */
	uint64_t contributed;        /* bytes of contributions to the open round, wherever */
	uint64_t bytes_up;           /* of objects that came here in it */
	uint32_t validator; /* member asked for the loss of the state before the open round */
	uint64_t validates, validates_tokens; /* the round that state is of; trained until then */
	bool have_loss;
	struct store_loss first_loss, last_loss;
	struct store_round_sum sum; /* of all rounds */
	struct hub_pace pace[HUB_PACE];
	uint32_t n_pace;
	uint64_t refusals;    /* all, ever */
	uint64_t roster_ns;   /* it was made then */
	uint32_t givers_told; /* how often members were told who gives */
	uint64_t diverged;    /* reports of another state than ours */
	bool snapshot_due;    /* one is being written */
	bool ended;           /* the machine has finished */
	uint64_t ended_ns;
	bool told_outcome;             /* the last line is printed */
	bool gate_fails;               /* the last contribution could not be stored */
	bool changed;                  /* pages have not heard of the overview */
	bool stop;                     /* leave the loop */
	struct why failed;             /* why it was left; code ERR_OK: as asked */
	struct why alarm;              /* what people should know; code ERR_OK: nothing */
	uint64_t alarm_ns;             /* since when; it is shown for HUB_ALARM */
	struct store_refusal *pending; /* refusals not yet in the store */
	size_t n_pending;
};

/* Opens everything, binds, restores; the sentence says what is in the way.  hub_close in any case.
 * spec is borrowed for the call. */
enum err hub_open(const struct hub_config *config, const struct spec *spec, struct hub *h,
	struct why *why) MUST_CHECK;
/* Until asked to stop (signal, operator, end of the run): ERR_OK, or what went wrong. */
enum err hub_run(struct hub *h, struct why *why) MUST_CHECK;
/* Says goodbye to peers and pages. */
void hub_close(struct hub *h);

/* ---- what hub_run is made of, for tests that are the loop themselves */
void hub_begin(struct hub *h);                              /* first */
void hub_take(struct hub *h, struct mail *m, uint64_t now); /* takes one mail of h->mail */

/* ---- for the hub's own files and the API */

/* After an event that came by no mail: carry out what the machine decided, set the timer. */
void hub_settle(struct hub *h, uint64_t now);
/* The first failure that the coordinator cannot work around ends it. */
void hub_fail(struct hub *h, const struct why *why);
/* Room for what is known of a member. */
struct hub_member *hub_member(struct hub *h, uint32_t number);

/* Something that people should know of is not as it should be. */
#define HUB_ALARM (600 * CLOCK_SECOND)
void hub_alarm(struct hub *h, const struct why *why);

struct hub_refused {
	const char *what; /* contribution, join, hello, ... */
	uint32_t member;  /* MEMBERS_NONE: not known */
	uint64_t round;
	uint32_t shard;
};
/* Count it and show it. */
void hub_refuse(struct hub *h, const struct hub_refused *r, const struct why *why);
/* Refusals since the last call go to the store. */
void hub_store_refusals(struct hub *h);

/* The signed statement of this coordinator's keys, for clocks that are right now: ours may have
 * been set since the last one was made.  Valid until the next call. */
const char *hub_statement(struct hub *h);
/* A member was added and committed.  A large roster is made, signed and told once a second, or
 * before a plan is told, and not for each of many newcomers. */
void hub_joined(struct hub *h, uint32_t number, uint64_t now);
void hub_roster_settle(struct hub *h, uint64_t now);
/* The roster has changed on disk: renew it, admit, tell everybody. */
void hub_roster_changed(struct hub *h, uint64_t now);
void hub_pause(struct hub *h, bool paused, uint64_t now);
/* ERR_missing. */
enum err hub_kick(struct hub *h, uint32_t number, uint64_t now) MUST_CHECK;

#endif
