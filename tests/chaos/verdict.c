#include "tests/chaos/verdict.h"
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <curl/curl.h>
#include "base/clock.h"
#include "coordinator/store.h"
#include "tests/help_run.h"

#define RECOVERY 60 /* seconds: the longest back-off of a peer is half of it */
#define ROUNDS 5u   /* that the run must go on for */
#define GOES_ON 150 /* seconds for them, also on a machine that does much else */
#define SETTLED 60
#define SEQ 32 /* tokens of a sequence, as help_run_spec has it */
#define SHARDS 2u
#define SLICE_MS 50

static uint64_t number(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

static const char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : "";
}

/* Asks again and again until ask says NULL; what it says else is what is missing. */
static void wait_until(
	struct actors *a, const char *(*ask)(struct actors *, void *), void *arg, unsigned seconds)
{
	const uint64_t deadline = clock_now_ns() + seconds * CLOCK_SECOND;
	for (const char *missing; (missing = ask(a, arg)) != NULL;) {
		actors_watch(a);
		if (clock_now_ns() > deadline)
			fail_msg("after %u s: %s", seconds, missing);
		poll(NULL, 0, SLICE_MS); /* between two looks, under the deadline above */
	}
}

/* ---- recovered */

static uint64_t head_round(const struct actors *a)
{
	json_t *o = help_swarm_get(&a->swarm, "/api/v1/overview.json");
	uint64_t round = number(json_object_get(o, "head"), "round");
	json_decref(o);
	return round;
}

/* As whom it takes part now: the last who joined with this name. */
static const json_t *member_of(const json_t *peers, const struct actor *who)
{
	const json_t *last = NULL;
	for (size_t i = 0; i < json_array_size(peers); i++)
		if (!strcmp(text(json_array_get(peers, i), "name"), who->name))
			last = json_array_get(peers, i);
	return last;
}

static const char *lagging(const struct actors *a, const json_t *peers, uint64_t head)
{
	for (uint32_t i = 1; i <= a->peers; i++) {
		const json_t *p = member_of(peers, &a->at[i]);
		if (!p)
			return proc_text("%s is no member", a->at[i].name);
		if (!json_is_true(json_object_get(p, "linked")))
			return proc_text("%s has no link (%s: %s)", text(p, "name"),
				text(p, "state"), text(p, "reason"));
		/* what was committed while we looked is not missed */
		if (number(p, "sequence") + 2 < head || !strcmp(text(p, "state"), "syncing"))
			return proc_text("%s is %s at ledger entry %llu, the head is %llu (%s)",
				text(p, "name"), text(p, "state"),
				(unsigned long long)number(p, "sequence"), (unsigned long long)head,
				text(p, "reason"));
	}
	return NULL;
}

static const char *not_recovered(struct actors *a, void *arg)
{
	json_t *o = help_swarm_get(&a->swarm, "/api/v1/overview.json"),
	       *doc = help_swarm_get(&a->swarm, "/api/v1/peers.json");
	const json_t *peers = json_object_get(doc, "peers");
	const char *missing = NULL;
	(void)arg;
	if (!o || !peers)
		missing = "the coordinator does not answer";
	else
		missing = lagging(a, peers, number(json_object_get(o, "head"), "sequence"));
	json_decref(o);
	json_decref(doc);
	return missing;
}

void verdict_recovered(struct actors *a)
{
	const uint64_t from = clock_now_ns();
	wait_until(a, not_recovered, NULL, RECOVERY);
	actors_say(a, "all are linked and at the head again %.1f s after everything was mended",
		clock_seconds(clock_now_ns() - from));
	uint64_t round = head_round(a);
	help_swarm_round(&a->swarm, round + ROUNDS, GOES_ON);
	wait_until(a, not_recovered, NULL, RECOVERY);
	actors_say(a, "the run goes on, round %llu is closed", (unsigned long long)head_round(a));
}

/* ---- the same state everywhere */

static size_t ignore(char *bytes, size_t one, size_t n, void *arg)
{
	(void)bytes, (void)one, (void)arg;
	return n;
}

static void control(const struct actors *a, const char *what)
{
	const char *token = help_run_read(proc_text("%s/keys/operator.token", a->swarm.dir));
	const char *bearer = proc_text("Authorization: Bearer %.64s", token);
	struct curl_slist *headers = curl_slist_append(NULL, bearer);
	CURL *c = curl_easy_init();
	long status = 0;
	curl_easy_setopt(c, CURLOPT_URL,
		proc_text("https://127.0.0.1:%u/api/v1/control/%s", a->swarm.port, what));
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L); /* the test knows whom it started */
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
	curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, "");
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, ignore);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, 10L);
	CURLcode code = curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(c);
	curl_slist_free_all(headers);
	if (code || status != 200)
		fail_msg("control/%s: %s, status %ld", what, curl_easy_strerror(code), status);
}

struct place {
	uint64_t sequence;
	char state[65];
};

static const char *not_settled(struct actors *a, void *arg)
{
	struct place *at = arg;
	json_t *o = help_swarm_get(&a->swarm, "/api/v1/overview.json");
	bool paused = json_is_true(json_object_get(o, "paused"));
	const char *missing =
		!paused || strcmp(text(o, "state"), "waiting") != 0
			? proc_text("the run is %s, and not paused between two rounds",
				  o ? text(o, "state") : "without an answer")
			: NULL;
	at->sequence = number(json_object_get(o, "head"), "sequence");
	snprintf(at->state, sizeof at->state, "%s", text(o, "state_hash"));
	json_decref(o);
	return missing;
}

static const char *not_at_head(struct actors *a, void *arg)
{
	const struct place *at = arg;
	for (uint32_t i = 1; i <= a->peers; i++) {
		const struct actor *who = &a->at[i];
		json_t *s =
			json_loads(help_run_read(proc_text("%s/status.json", who->dir)), 0, NULL);
		uint64_t sequence = number(s, "sequence");
		const char *state = proc_text("%s", text(s, "state_hash"));
		json_decref(s);
		if (sequence != at->sequence)
			return proc_text("%s stands at ledger entry %llu, the head is %llu",
				who->name, (unsigned long long)sequence,
				(unsigned long long)at->sequence);
		if (strcmp(state, at->state) != 0)
			fail_msg("hashes_agree=0: %s is in state %s, the ledger lists %s at entry "
				 "%llu",
				who->name, state, at->state, (unsigned long long)at->sequence);
	}
	return NULL;
}

static void nobody_diverged(const struct actors *a)
{
	json_t *o = help_swarm_get(&a->swarm, "/api/v1/refusals.json");
	const json_t *list = json_object_get(o, "refusals");
	for (size_t i = 0; i < json_array_size(list); i++)
		if (!strcmp(text(json_array_get(list, i), "what"), "report"))
			fail_msg("hashes_agree=0: %s", text(json_array_get(list, i), "text"));
	json_decref(o);
}

void verdict_hashes_agree(struct actors *a)
{
	struct place at;
	control(a, "pause");
	wait_until(a, not_settled, &at, SETTLED);
	wait_until(a, not_at_head, &at, SETTLED);
	nobody_diverged(a);
	actors_say(a, "every replica is in state %.12s at ledger entry %llu", at.state,
		(unsigned long long)at.sequence);
}

/* ---- the coordinator's folder */

void verdict_replays(const struct actors *a, const char *stopped)
{
	help_swarm_verify(&a->swarm, stopped);
}

struct account {
	uint64_t cursor, listed, pool, streams, voided; /* sequences, summed over the shards */
};

static void add_stream(void *arg, const struct store_plan *p)
{
	struct account *acc = arg;
	for (uint32_t s = 0; s < SHARDS; s++) /* each in a fragment of its own, or all in one */
		acc->streams += span_count(p->spans, p->n_spans) - p->listed[s];
}

int64_t verdict_tokens_balance(const struct actors *a, const char *stopped)
{
	struct account acc = {
		.listed = SHARDS * strtoull(help_run_value(stopped, "tokens"), NULL, 10) / SEQ};
	struct why why;
	struct store *s = NULL;
	struct span *pool = NULL;
	size_t n = 0;
	enum err err = store_open(proc_text("%s/store.sqlite", a->swarm.dir), &s, &why);
	if (!err)
		err = store_get_number(s, "cursor", 0, &acc.cursor, &why);
	if (!err)
		err = store_get_number(s, "voided", 0, &acc.voided, &why);
	if (!err)
		err = store_pool_get(s, &pool, &n, &why);
	if (!err)
		err = store_plan_list(s, add_stream, &acc, &why);
	for (size_t i = 0; i < n; i++)
		acc.pool += SHARDS * (pool[i].last - pool[i].first);
	acc.cursor *= SHARDS;
	free(pool);
	store_close(s);
	if (err)
		fail_msg("%s", why.text);
	actors_say(a,
		"over both shards %llu sequences were handed out, %llu are listed, %llu came back, "
		"%llu are with members, %llu are void",
		(unsigned long long)acc.cursor, (unsigned long long)acc.listed,
		(unsigned long long)acc.pool, (unsigned long long)acc.streams,
		(unsigned long long)acc.voided);
	return ((int64_t)acc.cursor - (int64_t)(acc.listed + acc.pool + acc.streams + acc.voided)) *
	       SEQ / SHARDS;
}

static void add_entry(void *arg, const struct store_entry *e)
{
	struct why why;
	if (listed_add(arg, e->sequence, &e->record, &why))
		fail_msg("%s", why.text);
}

void verdict_listed_once(struct actors *a, const char *stopped)
{
	const struct store_range all = {.limit = UINT32_MAX};
	const uint64_t accounts =
		SHARDS * strtoull(help_run_value(stopped, "tokens"), NULL, 10) / SEQ;
	uint64_t count = 0;
	struct why why;
	struct store *s = NULL;
	listed_look(&a->listed, proc_text("%s/blobs", a->swarm.dir));
	enum err err = store_open(proc_text("%s/store.sqlite", a->swarm.dir), &s, &why);
	if (!err)
		err = store_entry_list(s, &all, add_entry, &a->listed, &why);
	store_close(s);
	if (!err)
		err = listed_once(&a->listed, &count, &why);
	if (err)
		fail_msg("%s", why.text);
	if (count != accounts)
		fail_msg("the contributions are of %llu sequences, the accounts have %llu",
			(unsigned long long)count, (unsigned long long)accounts);
	actors_say(a, "no sequence is listed twice, in %zu contributions' spans", a->listed.n_work);
}
