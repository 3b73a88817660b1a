#include "round/shardstate.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "round/section.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "states are hashed as they lie in memory: little-endian"
#endif

enum err shardstate_init(
	struct shardstate *s, uint32_t shard, size_t n, const struct rule_row *rule)
{
	*s = (struct shardstate){.shard = shard, .n = n};
	s->params = alloc_try(n, sizeof *s->params);
	if (rule->momentum)
		s->momentum = alloc_try(n, sizeof *s->momentum);
	if (s->params && (s->momentum || !rule->momentum))
		return ERR_OK;
	shardstate_release(s);
	return ERR_nomem;
}

void shardstate_release(struct shardstate *s)
{
	if (!s)
		return;
	free(s->params);
	free(s->momentum);
	*s = (struct shardstate){0};
}

struct hash shardstate_hash_all(const struct hash *states, uint32_t n)
{
	struct hash_state *h = hash_begin();
	hash_add_u32(h, n);
	for (uint32_t i = 0; i < n; i++)
		hash_add(h, states[i].b, sizeof states[i].b);
	return hash_end(h);
}

struct hash shardstate_hash(const struct shardstate *s)
{
	struct hash_state *h = hash_begin();
	hash_add_u32(h, s->shard);
	hash_add_u64(h, s->n);
	hash_add_u32(h, s->momentum != NULL);
	hash_add(h, s->params, s->n * sizeof *s->params);
	if (s->momentum)
		hash_add(h, s->momentum, s->n * sizeof *s->momentum);
	return hash_end(h);
}

enum err shardstate_next(const struct shardstate *now, const struct rule_params *rule,
	const struct update *u, struct shardstate *next, struct why *why)
{
	memcpy(next->params, now->params, now->n * sizeof *now->params);
	if (now->momentum)
		memcpy(next->momentum, now->momentum, now->n * sizeof *now->momentum);
	next->shard = now->shard;
	next->round = now->round + 1;
	struct rule_state state = {next->params, next->momentum, next->n};
	return update_apply(u, rule, &state, why);
}

/* ---- saving */

static struct section_vector section(const struct shardstate *s, const char *what)
{
	return (struct section_vector){what, s->shard, s->n};
}

enum err shardstate_save(const struct shardstate *s, struct statefile_out *to, struct why *why)
{
	struct section_vector params = section(s, "param"), momentum = section(s, "momentum");
	enum err err = section_put(to, &params, s->params, why);
	return err || !s->momentum ? err : section_put(to, &momentum, s->momentum, why);
}

enum err shardstate_load(
	struct shardstate *s, uint64_t round, const struct statefile *from, struct why *why)
{
	struct section_vector params = section(s, "param"), momentum = section(s, "momentum");
	s->round = round;
	enum err err = section_get(from, &params, s->params, why);
	return err || !s->momentum ? err : section_get(from, &momentum, s->momentum, why);
}
