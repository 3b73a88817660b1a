#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "peer/saved.h"
#include "peer/standing_parts.h"
#include "round/section.h"

#define STATES_KEPT 2

/* sections, with the shard's number */
static const char contribution[] = "contribution", working[] = "working";

/* ---- writing */

static enum err write_shard(
	struct standing *s, struct statefile_out *out, uint32_t shard, struct why *why)
{
	const struct standing_flight *f = &s->flights[shard];
	const float *momentum = replica_momentum(s->replica, shard);
	struct section_vector params = {"param", shard, trainer_count(s->trainer, shard)};
	struct section_vector moment = {"momentum", shard, params.n};
	char name[SECTION_NAME];
	enum err e = section_put(out, &params, replica_params(s->replica, shard), why);
	if (!e && momentum)
		e = section_put(out, &moment, momentum, why);
	if (!e)
		e = feedback_save(f->feedback, out, why);
	if (!e && s->following && !feedback_in_flight(f->feedback)) {
		const struct section_vector w = {working, shard, params.n};
		trainer_read(s->trainer, shard, PARAMS_value, s->w);
		e = section_put(out, &w, s->w, why);
	}
	section_name(contribution, shard, name);
	if (!e && f->sent.len)
		e = statefile_add(out, name, f->sent.data, f->sent.len, why);
	return e;
}

enum err standing_file_write(struct standing *s, struct why *why)
{
	struct ledger_head at = ledger_at(s->ledger);
	char hex[HASH_HEX];
	hash_hex(&at.hash, hex);
	json_t *meta = json_pack("{s:I, s:I, s:s, s:I, s:I}", "round", (json_int_t)at.round,
		"sequence", (json_int_t)at.sequence, "head", hex, "steps",
		(json_int_t)trainer_steps(s->trainer), "joiner", (json_int_t)s->joiner);
	struct statefile_head head = {.kind = "local", .run = s->spec->id, .meta = meta};
	struct statefile_out *out = NULL;
	char *path = statefile_path(&s->series, at.round);
	enum err e = statefile_create(path, &head, &out, why);
	if (!e)
		e = trainer_save(s->trainer, out, false, why);
	for (uint32_t i = 0; !e && i < s->n_shards; i++)
		e = write_shard(s, out, i, why);
	if (!e)
		e = statefile_commit(out, why);
	else
		statefile_discard(out);
	free(path);
	json_decref(meta);
	if (!e)
		statefile_prune(&s->series, STATES_KEPT);
	return e;
}

/* ---- reading */

static const struct statefile_section *find_section(
	const struct statefile *file, const char *what, uint32_t shard)
{
	char name[SECTION_NAME];
	section_name(what, shard, name);
	for (size_t i = 0; i < statefile_count(file); i++)
		if (!strcmp(statefile_at(file, i)->name, name))
			return statefile_at(file, i);
	return NULL;
}

/* It was not this shard's turn; training had gone on. */
static enum err read_working(
	struct standing *s, const struct statefile *file, uint32_t shard, struct why *why)
{
	struct section_vector w = {working, shard, trainer_count(s->trainer, shard)};
	if (!find_section(file, working, shard))
		return ERR_OK;
	enum err e = section_get(file, &w, s->w, why);
	if (!e)
		trainer_write(s->trainer, shard, PARAMS_value, s->w);
	return e;
}

/* The contribution that was cut and not listed when the state was saved; W was where it was cut. */
static enum err read_flight(
	struct standing *s, const struct statefile *file, uint32_t shard, struct why *why)
{
	struct standing_flight *f = &s->flights[shard];
	const struct ledger_head at = ledger_at(s->ledger);
	const struct statefile_section *section = find_section(file, contribution, shard);
	struct section_vector cut = {"cut", shard, trainer_count(s->trainer, shard)};
	char name[SECTION_NAME];
	struct contribution_view v;
	section_name(contribution, shard, name);
	if (!section)
		return err_why(
			why, ERR_missing, "the state has a cut of shard %u and no %s", shard, name);
	enum err e = contribution_parse(section->bytes, section->len, &v, why);
	if (e)
		return e;
	if (v.says.shard != shard || v.says.peer != s->member || v.says.round != at.round + 1 ||
		!hash_equal(&v.says.parent, &at.hash))
		return err_why(
			why, ERR_syntax, "the state's %s is not of the round that it is in", name);
	buf_put(&f->sent, section->bytes, section->len);
	if (!buf_ok(&f->sent))
		return err_why(why, ERR_toobig, "the state's %s has %zu bytes, which is too many",
			name, section->len);
	f->says = v.says;
	e = section_get(file, &cut, s->w, why);
	if (!e)
		trainer_write(s->trainer, shard, PARAMS_value, s->w);
	return e;
}

enum err standing_file_read(struct standing *s, const struct statefile *file, struct why *why)
{
	uint64_t steps = 0, joiner = 0;
	enum err e = saved_number(file, "steps", &steps, why);
	if (!e)
		e = saved_number(file, "joiner", &joiner, why);
	if (!e)
		e = trainer_load(s->trainer, file, true, steps, why);
	for (uint32_t i = 0; !e && i < s->n_shards; i++) {
		e = feedback_load(s->flights[i].feedback, file, why);
		if (!e && feedback_in_flight(s->flights[i].feedback))
			e = read_flight(s, file, i, why);
		else if (!e)
			e = read_working(s, file, i, why);
	}
	s->joiner = joiner != 0;
	return e;
}
