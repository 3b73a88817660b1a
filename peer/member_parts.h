/* What the files of the control loop (member*.c) share; nobody else includes it. */
#ifndef PEER_MEMBER_PARTS_H
#define PEER_MEMBER_PARTS_H
#include "net/backoff.h"
#include "net/link.h"
#include "net/link_event.h"
#include "peer/dataset.h"
#include "peer/fetch.h"
#include "peer/inbox.h"
#include "peer/member.h"
#include "peer/progress.h"
#include "peer/statusfile.h"
#include "peer/worker.h"

/* Kinds of objects on the data plane. */
#define MEMBER_CONTRIBUTION 1
#define MEMBER_RECORD 2

struct member {
	const struct member_config *config;
	struct mailbox *mail;
	struct fetch *fetch;
	struct worker *worker;
	struct link *link;
	struct spec *spec;
	struct dataset data;
	struct roster *roster, *next_roster; /* the worker borrows the first while it applies */
	struct inbox inbox;
	struct ledger_head head, target; /* where we stand; the newest signed one we know of */
	struct hash state;               /* of the replica at head */
	uint64_t target_since_ns;
	struct plan plan; /* the last one heard */
	bool plan_waits;  /* it starts from a head that we have not reached yet */
	uint32_t number;
	uint8_t curve[LINK_KEY];
	char address[LINK_ADDRESS];
	bool joined, have_data, started, linked, training, applying, fetching, at_head_told, ended;
	uint32_t pushed; /* contributions on their way */
	unsigned repairs;
	struct backoff backoff;
	uint64_t retry_at_ns; /* of what the fetch thread failed at */
	enum fetch_job retry;
	bool retry_set;
	struct statusfile status;
	uint64_t shown_ns;
	struct progress progress;
	enum err failed;
	struct why *why;
};

/* The sentence why nothing happens; empty while something does. */
void member_reason(struct member *m, const char *fmt, ...) PRINTF_LIKE(2, 3);
void member_state(struct member *m, shoal_state s, const char *name);
/* Ends the loop with this sentence. */
void member_fail(struct member *m, const struct why *why);
void member_fetch(struct member *m, enum fetch_job job);
/* Our own state is damaged or left behind: begin again from the newest snapshot. */
void member_repair(struct member *m, const struct why *why);
/* Takes a roster if it is newer. */
void member_roster(struct member *m, struct roster *r);
void member_hello(struct member *m, bool first);
/* A signed head; patience for its records counts from the time given. */
void member_target(struct member *m, const struct ledger_head *h, uint64_t patience_from);
/* What the ledger and the plan ask of us now. */
void member_advance(struct member *m, uint64_t now);

void member_link_event(struct member *m, struct link_event *e, uint64_t now); /* member_link.c */
void member_work_result(
	struct member *m, struct worker_result *r, uint64_t now); /* member_work.c */

#endif
