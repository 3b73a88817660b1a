#include "tests/chaos/schedule.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"

#define GAP_LEAST_MS 300
#define GAP_MOST_MS 2000
/* Of a target between two events; who waits for room on its disk looks every other second. */
#define REST_MS 1000
#define REST_AFTER_FILL_MS 3000
#define DAY 86400
#define SECONDS_MOST 86400.0

enum whom { WHOM_peer, WHOM_coordinator, WHOM_all };

static const struct row {
	const char *verb;
	enum whom whom;
	uint64_t least_ms, most_ms;
} rows[] = {
#define X(verb, whom, least, most) {#verb, WHOM_##whom, least, most},
	SCHEDULE_LIST(X)
#undef X
};

/* Seconds: an hour, a time zone, a day and more; what a clock does that was set wrongly. */
static const int64_t jumps[] = {3600, -3600, 5 * 3600, -7 * 3600, DAY + 3600, -DAY - 3600, 90, -90};
#define N_JUMPS (sizeof jumps / sizeof *jumps)
#define SLOW_LEAST 2000 /* bytes a second */
#define SLOW_MOST 20000

struct drawing {
	const struct schedule_wish *wish;
	uint64_t draws, at_ms;
	uint64_t busy_ms[SCHEDULE_PEERS_MAX + 1]; /* by target: until when */
	enum schedule_kind bag[SCHEDULE_KINDS];
	size_t left;
};

static uint64_t draw(struct drawing *d, uint64_t least, uint64_t most)
{
	return least + rng_below(d->wish->seed, 1, d->draws++, most - least + 1);
}

static enum schedule_kind draw_kind(struct drawing *d)
{
	for (unsigned k = 0, empty = !d->left; empty && k < SCHEDULE_KINDS; k++)
		d->bag[d->left++] = k;
	size_t at = (size_t)draw(d, 0, d->left - 1);
	enum schedule_kind kind = d->bag[at];
	d->bag[at] = d->bag[--d->left];
	return kind;
}

/* A peer that suffers nothing, or the one that is mended first. */
static uint32_t draw_peer(struct drawing *d)
{
	uint32_t first = (uint32_t)draw(d, 0, d->wish->peers - 1), best = first + 1;
	for (uint32_t i = 0; i < d->wish->peers; i++) {
		uint32_t peer = (first + i) % d->wish->peers + 1;
		if (d->busy_ms[peer] <= d->at_ms)
			return peer;
		if (d->busy_ms[peer] < d->busy_ms[best])
			best = peer;
	}
	return best;
}

static uint64_t free_from(const struct drawing *d, uint32_t target)
{
	uint64_t at = target == SCHEDULE_ALL ? 0 : d->busy_ms[target];
	for (uint32_t i = 1; target == SCHEDULE_ALL && i <= d->wish->peers; i++)
		if (d->busy_ms[i] > at)
			at = d->busy_ms[i];
	return at;
}

static void keep_busy(struct drawing *d, uint32_t target, uint64_t until_ms)
{
	for (uint32_t i = 1; target == SCHEDULE_ALL && i <= d->wish->peers; i++)
		d->busy_ms[i] = until_ms;
	if (target != SCHEDULE_ALL)
		d->busy_ms[target] = until_ms;
}

static int64_t draw_amount(struct drawing *d, const char *verb)
{
	if (!strcmp(verb, "clock"))
		return jumps[draw(d, 0, N_JUMPS - 1)];
	return strcmp(verb, "slow") ? 0 : (int64_t)draw(d, SLOW_LEAST, SLOW_MOST);
}

static void draw_event(struct drawing *d, struct schedule_event *e)
{
	e->kind = draw_kind(d);
	const struct row *r = &rows[e->kind];
	d->at_ms += draw(d, GAP_LEAST_MS, GAP_MOST_MS);
	e->target = r->whom == WHOM_coordinator ? SCHEDULE_COORDINATOR
		    : r->whom == WHOM_all       ? SCHEDULE_ALL
						: draw_peer(d);
	uint64_t from = free_from(d, e->target);
	if (from > d->at_ms)
		d->at_ms = from;
	e->at_ms = d->at_ms;
	e->until_ms = e->at_ms + draw(d, r->least_ms, r->most_ms);
	e->amount = draw_amount(d, r->verb);
	bool filled = !strcmp(r->verb, "fill");
	keep_busy(d, e->target, e->until_ms + (filled ? REST_AFTER_FILL_MS : REST_MS));
}

size_t schedule_make(const struct schedule_wish *wish, struct schedule_event *out, size_t most)
{
	struct drawing d = {.wish = wish};
	size_t n = 0;
	for (; n < most; n++) {
		draw_event(&d, &out[n]);
		if (out[n].at_ms >= wish->length_ms)
			break;
	}
	return n;
}

/* ---- as text */

const char *schedule_verb(enum schedule_kind kind)
{
	return rows[kind].verb;
}

static void say_target(uint32_t target, char out[static 24])
{
	if (target == SCHEDULE_COORDINATOR)
		snprintf(out, 24, "coordinator");
	else if (target == SCHEDULE_ALL)
		snprintf(out, 24, "all");
	else
		snprintf(out, 24, "peer%" PRIu32, target);
}

void schedule_say(const struct schedule_event *e, char out[static SCHEDULE_LINE])
{
	char target[24], amount[24] = "";
	say_target(e->target, target);
	if (e->amount)
		snprintf(amount, sizeof amount, " %" PRId64, e->amount);
	snprintf(out, SCHEDULE_LINE, "%.3f %s %s %.3f%s", (double)e->at_ms / 1000,
		rows[e->kind].verb, target, (double)(e->until_ms - e->at_ms) / 1000, amount);
}

static bool read_ms(const char *word, uint64_t *ms)
{
	char *end;
	double s = strtod(word, &end);
	*ms = s >= 0 && s <= SECONDS_MOST ? (uint64_t)(s * 1000 + 0.5) : 0;
	return end != word && !*end && s >= 0 && s <= SECONDS_MOST;
}

static enum err read_target(const char *word, uint32_t peers, struct schedule_event *e,
	enum whom *whom, struct why *why)
{
	char *end = NULL;
	*whom = WHOM_peer;
	if (!strcmp(word, "coordinator")) {
		*whom = WHOM_coordinator;
		e->target = SCHEDULE_COORDINATOR;
		return ERR_OK;
	}
	if (!strcmp(word, "all")) {
		*whom = WHOM_all;
		e->target = SCHEDULE_ALL;
		return ERR_OK;
	}
	unsigned long n = strncmp(word, "peer", 4) ? 0 : strtoul(word + 4, &end, 10);
	if (!n || *end || n > peers)
		return err_why(why, ERR_syntax,
			"\"%.40s\" is no target: coordinator, all, or peer1 to peer%" PRIu32, word,
			peers);
	e->target = (uint32_t)n;
	return ERR_OK;
}

static enum err read_kind(
	const char *verb, enum whom whom, struct schedule_event *e, struct why *why)
{
	for (unsigned k = 0; k < SCHEDULE_KINDS; k++)
		if (!strcmp(rows[k].verb, verb) && rows[k].whom == whom) {
			e->kind = k;
			return ERR_OK;
		}
	static const char *const names[] = {"a peer", "the coordinator", "all peers"};
	return err_why(
		why, ERR_syntax, "\"%.40s\" is nothing that can happen to %s", verb, names[whom]);
}

static enum err read_event(
	char *words[5], uint32_t peers, struct schedule_event *e, struct why *why)
{
	uint64_t lasts = 0;
	enum whom whom;
	if (!words[3])
		return err_why(why, ERR_syntax,
			"an event is SECONDS VERB TARGET SECONDS [AMOUNT], as in 12.5 kill peer2 "
			"2");
	if (!read_ms(words[0], &e->at_ms) || !read_ms(words[3], &lasts))
		return err_why(why, ERR_syntax, "\"%.40s\" or \"%.40s\" is no number of seconds",
			words[0], words[3]);
	e->until_ms = e->at_ms + lasts;
	enum err err = read_target(words[2], peers, e, &whom, why);
	if (!err)
		err = read_kind(words[1], whom, e, why);
	char *end = NULL;
	e->amount = !err && words[4] ? strtoll(words[4], &end, 10) : 0;
	bool wants = !strcmp(words[1], "clock") || !strcmp(words[1], "slow");
	if (!err && (wants ? !end || *end || !e->amount : words[4] != NULL))
		err = err_why(why, ERR_syntax,
			wants ? "%.40s needs an amount: seconds for clock, bytes a second for slow"
			      : "%.40s takes no amount",
			words[1]);
	return err;
}

static int by_time(const void *a, const void *b)
{
	const struct schedule_event *x = a, *y = b;
	return (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
}

enum err schedule_parse(const char *text, uint32_t peers, struct schedule_event *out, size_t most,
	size_t *n, struct why *why)
{
	char *copy = strdup(text), *rest = copy, *line;
	enum err err = copy ? ERR_OK : err_why(why, ERR_nomem, "no memory for the script");
	*n = 0;
	for (unsigned at = 1; !err && (line = strsep(&rest, "\n")) != NULL; at++) {
		char *words[6] = {NULL};
		size_t count = 0;
		struct why said;
		line[strcspn(line, "#")] = 0;
		for (char *word; (word = strsep(&line, " \t\r")) != NULL;)
			if (*word && count < 6)
				words[count++] = word;
		if (!count)
			continue;
		if (*n == most)
			err = err_why(why, ERR_toobig, "line %u: more than %zu events", at, most);
		else if (count > 5)
			err = err_why(why, ERR_syntax, "line %u: more than five words", at);
		else if ((err = read_event(words, peers, &out[*n], &said)))
			err_why(why, err, "line %u: %s", at, said.text);
		else
			++*n;
	}
	free(copy);
	qsort(out, *n, sizeof *out, by_time);
	return err;
}
