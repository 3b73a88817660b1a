#include "sim/world.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/rng.h"
#include "coordinator/rounds.h"
#include "net/sign.h"
#include "sim/archive.h"
#include "sim/coordinator.h"
#include "sim/peers.h"

#define STREAM_KEY 0x6b6579            /* of keys: they need not be secret, only the same again */
#define STALLED (86400 * CLOCK_SECOND) /* virtual time without a round that closes */

/* ---- scratch files */

static enum err make_dir(struct world *w, struct why *why)
{
	const char *where = getenv("TMPDIR");
	if (!where || !*where)
		where = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
	w->dir = alloc_must_printf("%s/shoal-sim.XXXXXX", where);
	if (mkdtemp(w->dir))
		return ERR_OK;
	free(w->dir);
	w->dir = NULL;
	return err_why(why, ERR_io,
		"cannot make a folder in %s: name one that can be written to by TMPDIR", where);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st, (void)kind, (void)where;
	return remove(path);
}

/* ---- who there is */

static enum err make_keys(struct world *w, struct why *why)
{
	const uint32_t n = w->scenario->peers;
	struct roster_member *members = alloc_must_zero(n, sizeof *members);
	enum err err = ERR_OK;
	w->keys = alloc_must_zero(n + 1u, sizeof *w->keys);
	for (uint32_t i = 1; !err && i <= n; i++) {
		struct roster_member *m = &members[i - 1];
		uint8_t secret[SIGN_SECRET];
		for (uint32_t k = 0; k < sizeof secret; k++)
			secret[k] = (uint8_t)rng_u32(
				w->scenario->seed, STREAM_KEY, (uint64_t)i * sizeof secret + k);
		if ((err = sign_load(secret, &w->keys[i])))
			break;
		m->number = i;
		m->sign = sign_public_of(w->keys[i]);
		const struct hash curve = hash_of(secret, sizeof secret);
		memcpy(m->curve, curve.b, sizeof m->curve);
		snprintf(m->name, sizeof m->name, "member-%u", i);
	}
	err = err ? err_why(why, err, "no key could be made")
		  : roster_new(&w->spec->id, 1, members, n, &w->roster, why);
	free(members);
	return err;
}

static void make_network(struct world *w)
{
	const struct scenario *s = w->scenario;
	network_init(&w->network, s->peers + 1);
	w->network.ends[WORLD_COORDINATOR] = (struct network_end){.up = s->up, .down = s->down};
	for (uint32_t i = 1; i <= s->peers; i++) {
		const struct scenario_group *g = scenario_member(s, i);
		w->network.ends[i] = (struct network_end){.up = g->up,
			.down = g->down,
			.away_ns = (uint64_t)(g->rtt_s / 2 * (double)CLOCK_SECOND)};
	}
}

static enum err check_spec(const struct world *w, struct why *why)
{
	if (!hash_is_zero(&w->spec->init))
		return err_why(why, ERR_unsupported,
			"%s begins from given weights (init); a simulation begins from the seed: "
			"take the member away with init=null",
			w->scenario->spec);
	if (w->spec->round.peers_min > w->scenario->peers)
		return err_why(why, ERR_spec,
			"%s wants %u members for a round (round.peers_min), the scenario has %u",
			w->scenario->spec, w->spec->round.peers_min, w->scenario->peers);
	return ERR_OK;
}

enum err world_open(struct world *w, const struct scenario *s, const char *const *changes,
	size_t n_changes, struct why *why)
{
	*w = (struct world){.scenario = s, .now = 1};
	enum err err = spec_load(s->spec, changes, n_changes, &w->spec, NULL, why);
	if (!err)
		err = check_spec(w, why);
	if (!err)
		err = dataset_open(s->data, w->spec, true, &w->data, why);
	if (!err)
		err = exchange_find(w->spec, &w->exchange, why);
	if (!err)
		err = graph_build(&w->spec->model, 1, w->spec->train.seq, &w->graph, why);
	if (!err)
		err = make_dir(w, why);
	if (!err)
		err = make_keys(w, why);
	if (err)
		return err;
	make_network(w);
	err = coordinator_new(w, &w->coordinator, why);
	if (err)
		return err;
	w->peers = peers_new(w);
	for (uint32_t i = 1; i <= s->peers; i++)
		world_at(w, w->now + (uint64_t)(scenario_member(s, i)->joins_s * 1e9), EVENT_start,
			i);
	return ERR_OK;
}

void world_close(struct world *w)
{
	peers_free(w->peers);
	coordinator_free(w->coordinator);
	events_release(&w->events);
	network_release(&w->network);
	roster_free(w->roster);
	for (uint32_t i = 0; w->keys && i <= w->scenario->peers; i++)
		sign_free(w->keys[i]);
	free(w->keys);
	if (w->dir)
		nftw(w->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(w->dir);
	graph_free(w->graph);
	dataset_release(&w->data);
	spec_free(w->spec);
	tally_release(&w->tally);
	*w = (struct world){0};
}

/* ---- events */

void world_at(struct world *w, uint64_t at_ns, enum event_kind kind, uint32_t member)
{
	events_put(&w->events, (struct event){.at_ns = at_ns,
				       .kind = kind,
				       .member = member,
				       .instance = member ? peers_instance(w->peers, member) : 0});
}

void world_post(struct world *w, uint32_t member, uint64_t instance, struct letter *l)
{
	const bool up = letter_goes_up(l);
	const uint32_t from = up ? member : WORLD_COORDINATOR, to = up ? WORLD_COORDINATOR : member;
	const struct network_way way = network_send(&w->network, from, to, l->size, w->now);
	l->last_ns = way.last_ns;
	events_put(&w->events, (struct event){.at_ns = way.first_ns,
				       .kind = EVENT_reach,
				       .member = member,
				       .instance = instance,
				       .letter = l});
}

static void reach(struct world *w, struct event *e)
{
	const uint32_t to = letter_goes_up(e->letter) ? WORLD_COORDINATOR : e->member;
	e->at_ns = network_receive(&w->network, to, e->letter->size, e->letter->last_ns, w->now);
	e->kind = EVENT_letter;
	events_put(&w->events, *e);
	e->letter = NULL; /* is in the queue again */
}

/* Letters wait while a member computes; those of one that died are never read. */
static bool waits(struct world *w, struct event *e)
{
	uint64_t until;
	if (letter_goes_up(e->letter) || !peers_busy(w->peers, e->member, &until) ||
		until <= w->now)
		return false;
	e->at_ns = until;
	events_put(&w->events, *e);
	e->letter = NULL;
	return true;
}

/* What a member that has died was sent, or had not sent whole, is lost. */
static enum err carry_out(struct world *w, struct event *e, struct why *why)
{
	const bool same = e->member && e->instance == peers_instance(w->peers, e->member);
	switch (e->kind) {
	case EVENT_start: return same ? peers_start(w->peers, e->member, why) : ERR_OK;
	case EVENT_die:
		if (same)
			peers_die(w->peers, e->member);
		return ERR_OK;
	case EVENT_trained: return same ? peers_trained(w->peers, e->member, why) : ERR_OK;
	case EVENT_lost: return coordinator_lost(w->coordinator, e->member, e->instance, why);
	case EVENT_tick: return coordinator_tick(w->coordinator, why);
	case EVENT_reach:
		if (same)
			reach(w, e);
		return ERR_OK;
	case EVENT_letter: break;
	}
	if (!same || waits(w, e))
		return ERR_OK;
	return letter_goes_up(e->letter)
		       ? coordinator_letter(w->coordinator, e->member, e->letter, why)
		       : peers_letter(w->peers, e->member, e->letter, why);
}

static double share_done(const struct world *w)
{
	const double rounds = (double)w->scenario->rounds,
		     total = (double)w->spec->train.total_tokens;
	const double by_tokens = (double)w->tally.tokens / total;
	const double by_rounds = rounds > 0 ? (double)w->tally.n_rounds / rounds : 0;
	const double share = by_rounds > by_tokens ? by_rounds : by_tokens;
	return share < 1 ? share : 1;
}

static void show(const struct world *w, struct progress *p)
{
	char length[24];
	clock_text(w->now, length);
	progress_show(p, share_done(w), false, "round %zu at %s, %llu tokens", w->tally.n_rounds,
		length, (unsigned long long)w->tally.tokens);
}

static void sum_up(struct world *w, uint64_t began_ns)
{
	const struct network_end *end = &w->network.ends[WORLD_COORDINATOR];
	peers_stop(w->peers);
	w->tally.virtual_s = clock_seconds(w->now);
	w->tally.real_s = clock_seconds(clock_now_ns() - began_ns);
	w->tally.up = end->received;
	w->tally.down = end->sent;
	w->tally.head = coordinator_head(w->coordinator).hash;
}

/* A member that is asked at the end may die before it has an answer, and a scenario's rounds end
 * without asking anybody: then the loss is looked at here, off the clock. */
static enum err last_loss(struct world *w, struct why *why)
{
	struct tally *t = &w->tally;
	const uint64_t round = coordinator_head(w->coordinator).round;
	struct trainer_validation v;
	if (t->n_losses && t->losses[t->n_losses - 1].round == round)
		return ERR_OK;
	enum err err =
		archive_validate(coordinator_archive(w->coordinator), w->data.corpus, &v, why);
	if (!err && v.tokens)
		tally_loss(t, &(struct tally_loss){round, t->tokens, v.per_token, v.per_byte});
	return err;
}

enum err world_run(struct world *w, bool (*stop)(void), struct why *why)
{
	const uint64_t began_ns = clock_now_ns();
	uint64_t closed_ns = w->now;
	size_t rounds = 0;
	struct progress progress = {0};
	struct event e;
	enum err err = ERR_OK;
	progress_init(&progress, 0);
	while (!err && !w->ended) {
		if (!events_next(&w->events, &e) || e.at_ns > closed_ns + STALLED) {
			err = coordinator_waits(w->coordinator, why);
			break;
		}
		w->now = e.at_ns;
		err = carry_out(w, &e, why);
		letter_free(e.letter);
		if (w->tally.n_rounds != rounds) {
			rounds = w->tally.n_rounds;
			closed_ns = w->now;
		}
		show(w, &progress);
		if (!err && stop && stop())
			err = err_why(why, ERR_interrupted, "stopped after %zu rounds", rounds);
	}
	progress_end(&progress);
	if (!err)
		err = last_loss(w, why);
	if (!err)
		sum_up(w, began_ns);
	return err;
}
