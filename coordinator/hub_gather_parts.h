/* Between the files of hub_gather.h. */
#ifndef COORDINATOR_HUB_GATHER_PARTS_H
#define COORDINATOR_HUB_GATHER_PARTS_H
#include "coordinator/hub_gather.h"

struct gather_shard {
	enum gather_state state;
	uint32_t aggregator, witness;    /* MEMBERS_NONE */
	uint64_t deadline_ns;            /* UINT64_MAX: none */
	uint64_t turn;                   /* of questions: answers to older ones are passed over */
	struct store_contribution *rows; /* what counts, ascending by peer */
	uint32_t n;
	uint64_t *moving; /* refs that are on the way to the aggregator */
	uint32_t n_moving;
	struct desk_made made;
	struct hash merged; /* what the aggregator says that it comes to */
	bool disputed;      /* the witness says otherwise */
	bool lost;          /* in this round: the rows do not say any more who has the bytes */
};

struct hub_gather {
	uint32_t n_shards;
	bool closing; /* and not yet at the desk */
	bool replan;  /* members must hear that the coordinator has shards again */
	struct gather_shard *shards;
};

/* ---- hub_gather.c */
/* The one setter of a state; deadline_ns: UINT64_MAX for none. */
void hub_gather_enter(struct gather_shard *s, enum gather_state to, uint64_t deadline_ns);
void hub_gather_ask(struct hub *h, uint32_t shard, uint64_t now);   /* for the update */
void hub_gather_prove(struct hub *h, uint32_t shard, uint64_t now); /* for the bundle */
/* The coordinator has the shard again, with what is here of it and what its owners still bring. */
void hub_gather_lose(struct hub *h, uint32_t shard, const char *why, uint64_t now);
/* Counted for a member that did not do what it must, and told to it. */
void hub_gather_blame(
	struct hub *h, const char *what, uint32_t number, uint32_t shard, const struct why *why);
/* It lied: nothing of its word counts any more. */
void hub_gather_ban(struct hub *h, uint32_t number, uint64_t now);
void hub_gather_drop_blob(struct hub *h, const struct hash *blob);
/* After every event: tells the new plan, goes on when everything is here. */
void hub_gather_settle(struct hub *h);

/* ---- hub_gather_list.c */
enum err hub_gather_list_load(struct hub *h, struct why *why) MUST_CHECK; /* rows of all shards */
uint64_t hub_gather_list_bytes(const struct gather_shard *s);             /* of what counts */
uint32_t hub_gather_list_here(const struct gather_shard *s); /* how many have their bytes here */
/* Who has the others: the plan's aggregator, or after a restart the one that the rows name;
 * MEMBERS_NONE: nobody that can be asked, or several. */
uint32_t hub_gather_list_holder(const struct hub *h, uint32_t shard);
/* A contributor other than the aggregator, linked, that nobody has chosen; MEMBERS_NONE. */
uint32_t hub_gather_list_witness(const struct hub *h, uint32_t shard);
/* A desk job for an update of this shard, with what is expected of it. */
struct desk_job *hub_gather_list_job(struct hub *h, uint32_t shard, struct link_event *e);

/* ---- hub_gather_say.c: questions to members */
void hub_gather_say_list(struct hub *h, uint32_t shard, bool witness);
void hub_gather_say_want(struct hub *h, uint32_t shard); /* for the bundle */
/* What the coordinator has of it, to the aggregator. */
enum err hub_gather_say_rest(struct hub *h, uint32_t shard, struct why *why) MUST_CHECK;
void hub_gather_say_plans(struct hub *h); /* to all that have a part in the round */
/* When to give up waiting for so many bytes. */
uint64_t hub_gather_say_patience(const struct hub *h, uint64_t bytes, uint64_t now);

#endif
