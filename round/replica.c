#include "round/replica.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

struct shard {
	struct shardstate state;
	struct hash hash;
	bool hashed; /* hash is that of state */
};

struct replica {
	struct rule_params rule;
	uint32_t n_shards;
	struct shard *shards;
	bool begun;             /* something was applied or loaded */
	struct shardstate next; /* the outcome that was proposed, or only its memory */
	struct hash next_hash;
	bool proposed;
};

enum err replica_new(const struct replica_shape *shape, struct replica **out)
{
	struct replica *r = alloc_must_zero(1, sizeof *r);
	r->rule = shape->rule;
	r->n_shards = shape->n_shards;
	r->shards = alloc_must_zero(shape->n_shards, sizeof *r->shards);
	for (uint32_t i = 0; i < shape->n_shards; i++) {
		enum err err =
			shardstate_init(&r->shards[i].state, i, shape->n[i], shape->rule.row);
		if (err) {
			replica_free(r);
			return err;
		}
	}
	*out = r;
	return ERR_OK;
}

void replica_free(struct replica *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->n_shards; i++)
		shardstate_release(&r->shards[i].state);
	shardstate_release(&r->next);
	free(r->shards);
	free(r);
}

enum err replica_set(struct replica *r, uint32_t shard, const float *params)
{
	struct shard *s = &r->shards[shard];
	if (r->begun)
		return ERR_state;
	memcpy(s->state.params, params, s->state.n * sizeof *params);
	s->hashed = false;
	r->proposed = false;
	return ERR_OK;
}

size_t replica_count(const struct replica *r, uint32_t shard)
{
	return r->shards[shard].state.n;
}

const float *replica_params(const struct replica *r, uint32_t shard)
{
	return r->shards[shard].state.params;
}

const float *replica_momentum(const struct replica *r, uint32_t shard)
{
	return r->shards[shard].state.momentum;
}

uint64_t replica_round(const struct replica *r, uint32_t shard)
{
	return r->shards[shard].state.round;
}

struct hash replica_hash(struct replica *r, uint32_t shard)
{
	struct shard *s = &r->shards[shard];
	if (!s->hashed)
		s->hash = shardstate_hash(&s->state);
	s->hashed = true;
	return s->hash;
}

struct hash replica_hash_all(struct replica *r)
{
	struct hash *states = alloc_must_zero(r->n_shards, sizeof *states);
	for (uint32_t i = 0; i < r->n_shards; i++)
		states[i] = replica_hash(r, i);
	struct hash all = shardstate_hash_all(states, r->n_shards);
	free(states);
	return all;
}

/* ---- the next state */

/* Memory for the outcome: that of the last one, where it fits. */
static enum err make_room(struct replica *r, uint32_t shard)
{
	size_t n = r->shards[shard].state.n;
	r->proposed = false;
	if (r->next.params && r->next.n == n)
		return ERR_OK;
	shardstate_release(&r->next);
	return shardstate_init(&r->next, shard, n, r->rule.row);
}

enum err replica_propose(struct replica *r, uint32_t shard, const struct update *u,
	struct hash *state, struct why *why)
{
	enum err err = make_room(r, shard);
	if (err)
		return err_why(why, err,
			"no memory for the next state of shard %" PRIu32 " beside the present one",
			shard);
	err = shardstate_next(&r->shards[shard].state, &r->rule, u, &r->next, why);
	if (err)
		return err;
	r->next_hash = shardstate_hash(&r->next);
	r->proposed = true;
	*state = r->next_hash;
	return ERR_OK;
}

static enum err drifted(const struct ledger_entry *e, const struct hash *have, struct why *why)
{
	char theirs[HASH_HEX], ours[HASH_HEX];
	hash_hex(&e->state, theirs);
	hash_hex(have, ours);
	return err_why(why, ERR_hash,
		"round %" PRIu64 " of shard %" PRIu32
		" leads to state %.12s here, the ledger lists %.12s: this replica has drifted, "
		"fetch a snapshot",
		e->round, e->shard, ours, theirs);
}

enum err replica_commit(struct replica *r, const struct ledger_entry *e, struct why *why)
{
	if (!r->proposed || r->next.shard != e->shard || r->next.round != e->round)
		return err_why(why, ERR_state,
			"round %" PRIu64 " of shard %" PRIu32 " was not computed before it was "
			"to be taken over",
			e->round, e->shard);
	if (!hash_equal(&r->next_hash, &e->state))
		return drifted(e, &r->next_hash, why);
	struct shard *s = &r->shards[e->shard];
	struct shardstate old = s->state;
	s->state = r->next;
	s->hash = r->next_hash;
	s->hashed = true;
	r->next = old;
	r->proposed = false;
	r->begun = true;
	return ERR_OK;
}

enum err replica_apply(
	struct replica *r, const struct ledger_entry *e, const struct update *u, struct why *why)
{
	if (e->shard >= r->n_shards)
		return err_why(why, ERR_shape,
			"ledger entry %" PRIu64 " is for shard %" PRIu32 " of %" PRIu32,
			e->sequence, e->shard, r->n_shards);
	if (e->round != replica_round(r, e->shard) + 1)
		return err_why(why, ERR_wrong_round,
			"ledger entry %" PRIu64 " closes round %" PRIu64 " of shard %" PRIu32
			", which stands at round %" PRIu64 " here",
			e->sequence, e->round, e->shard, replica_round(r, e->shard));
	enum err err = update_matches(u, e, why);
	if (err)
		return err;
	if (!u->count) { /* nothing moves, nothing is copied */
		struct shard *s = &r->shards[e->shard];
		struct hash have = replica_hash(r, e->shard);
		if (!hash_equal(&have, &e->state))
			return drifted(e, &have, why);
		s->state.round = e->round;
		r->begun = true;
		return ERR_OK;
	}
	struct hash state;
	err = replica_propose(r, e->shard, u, &state, why);
	return err ? err : replica_commit(r, e, why);
}

/* ---- snapshots */

static enum err save_sections(const struct replica *r, const struct replica_snapshot *about,
	struct statefile_out *to, struct why *why)
{
	enum err err = statefile_add(to, "spec", about->spec, strlen(about->spec), why);
	for (uint32_t i = 0; i < r->n_shards && !err; i++)
		err = shardstate_save(&r->shards[i].state, to, why);
	return err;
}

enum err replica_save(const struct replica *r, const struct replica_snapshot *about,
	const char *path, struct why *why)
{
	for (uint32_t i = 0; i < r->n_shards; i++)
		if (replica_round(r, i) != about->head.round)
			return err_why(why, ERR_state,
				"shard %" PRIu32 " stands at round %" PRIu64
				", a snapshot of round %" PRIu64 " cannot be made",
				i, replica_round(r, i), about->head.round);
	char hex[HASH_HEX];
	hash_hex(&about->head.hash, hex);
	json_t *meta = json_pack("{s:I, s:I, s:s}", "round", (json_int_t)about->head.round,
		"sequence", (json_int_t)about->head.sequence, "head", hex);
	if (!meta)
		return err_why(why, ERR_nomem, "no memory for the meta data of a snapshot");
	struct statefile_head head = {"snapshot", about->run, meta};
	struct statefile_out *to = NULL;
	enum err err = statefile_create(path, &head, &to, why);
	json_decref(meta);
	if (err)
		return err;
	err = save_sections(r, about, to, why);
	if (!err)
		return statefile_commit(to, why);
	statefile_discard(to);
	return err;
}

static enum err load_head(const struct statefile *from, struct ledger_head *head, struct why *why)
{
	struct buf mistakes;
	struct json_in in;
	buf_init(&mistakes, 4096);
	json_in_init(&in, statefile_meta(from), "", &mistakes);
	head->round = (uint64_t)json_get_int(&in, "round", 0, INT64_MAX, NULL);
	head->sequence = (uint64_t)json_get_int(&in, "sequence", 0, INT64_MAX, NULL);
	head->hash = json_get_hash(&in, "head", true);
	enum err err = json_verdict(&mistakes,
		"a saved state does not say at which round and ledger entry it stands", why);
	buf_release(&mistakes);
	return err;
}

enum err replica_load(
	struct replica *r, const struct statefile *from, struct ledger_head *head, struct why *why)
{
	r->begun = true;
	r->proposed = false;
	enum err err = load_head(from, head, why);
	for (uint32_t i = 0; i < r->n_shards && !err; i++) {
		r->shards[i].hashed = false;
		err = shardstate_load(&r->shards[i].state, head->round, from, why);
	}
	return err;
}
