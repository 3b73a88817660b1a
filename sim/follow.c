#include "base/clock.h"
#include "sim/pacing.h"
#include "sim/peers_parts.h"
#include "sim/world.h"

/* After the letters that have waited until this moment. */
static void look(struct peers *p, uint32_t member)
{
	p->at[member].follow.go = true;
	world_at(p->w, p->w->now, EVENT_trained, member);
}

static enum err begin(struct peers *p, uint32_t member, struct why *why)
{
	struct peer *e = &p->at[member];
	struct follow *f = &e->follow;
	const bool same = f->on && e->plan.round == f->next.round,
		   measured = same && e->plan.validate; /* the plan is said again */
	enum err err = standing_follow(e->standing, &f->next, &f->cut, why);
	if (err)
		return err;
	if (!same)
		f->due_ns = pacing_due(f->due_ns, f->next.seconds, p->w->now);
	e->plan = f->next;
	f->on = true;
	f->steps = 0;
	peers_pick_rate(e);
	if (f->cut && (err = peers_hand_over(p, member, why)))
		return err;
	e->validating = e->plan.validate && !measured;
	if (e->validating)
		peers_compute(p, member, peers_validation_ns(p, member));
	else
		look(p, member);
	return ERR_OK;
}

enum err follow_plan(struct peers *p, uint32_t member, struct why *why)
{
	struct peer *e = &p->at[member];
	const struct ledger_head at = standing_head(e->standing);
	if (!e->follow.waits || !hash_equal(&at.hash, &e->follow.next.parent.hash))
		return ERR_OK;
	e->follow.waits = false;
	return begin(p, member, why);
}

/* The cut if its time has come, then the next step, if there is data for one. */
static enum err go_on(struct peers *p, uint32_t member, struct why *why)
{
	struct peer *e = &p->at[member];
	struct follow *f = &e->follow;
	const bool more = standing_follow_left(e->standing);
	enum err err = ERR_OK;
	if (!f->cut && standing_follow_uncut(e->standing) && (!more || p->w->now >= f->due_ns)) {
		f->cut = true;
		e->steps = f->steps;
		err = standing_follow_cut(e->standing, why);
		if (!err)
			err = peers_cut(p, member, why);
	}
	if (!err && more)
		peers_compute(p, member,
			pacing_ns((double)spec_step_tokens(p->w->spec), e->group->speed));
	return err;
}

enum err follow_go(struct peers *p, uint32_t member, struct why *why)
{
	struct peer *e = &p->at[member];
	struct follow *f = &e->follow;
	double loss;
	enum err err = ERR_OK;
	if (f->go && !e->training) {
		f->go = false;
		return go_on(p, member, why);
	}
	if (!e->training || e->done_ns != p->w->now)
		return ERR_OK;
	e->training = false;
	if (e->validating)
		err = peers_validate(p, member, why);
	else
		err = standing_follow_step(e->standing, f->steps++, &loss, why);
	e->validating = false;
	if (!err)
		look(p, member);
	return err;
}
