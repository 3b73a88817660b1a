#include "tests/help_peer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "model/prepare.h"
#include "round/gate.h"
#include "round/record.h"

#define TEXT_BYTES 12000u

static const char template[] =
	"{\"shoal\":1,\"name\":\"tiny\",\"seed\":3,"
	"\"model\":{\"builder\":\"gpt\",\"layers\":2,\"width\":16,\"heads\":2,\"context\":16,"
	"\"vocab\":256,\"tied\":false,\"shards\":[0,1]},"
	"\"train\":{\"batch\":4,\"micro_batch\":2,\"seq\":16,\"lr\":0.01,\"beta1\":0.9,\"beta2\":0."
	"95,"
	"\"eps\":1e-8,\"weight_decay\":0.1,\"clip\":1.0,\"warmup_tokens\":640,\"total_tokens\":"
	"12800,"
	"\"final_lr\":0.1},"
	"\"round\":{\"mode\":\"fixed\",\"steps\":3,\"peers_min\":1,\"quorum\":1.0,"
	"\"validate_every\":4,\"snapshot_every\":5},"
	"\"outer\":{\"rule\":\"sparseloco\",\"lr\":0.8},"
	"\"codec\":{\"select\":\"topk\",\"values\":\"two\",\"chunk\":1024,\"k\":64,\"decay\":0.95}}"
	"\n";

static char folder[64];
static char *paths[256];
static size_t n_paths;
static struct sign_key *keys[HELP_PEER_MEMBERS + 2];

/* ---- the scratch folder */

int help_peer_setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/shoal-peer.XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st, (void)kind, (void)where;
	return remove(path);
}

int help_peer_teardown(void **state)
{
	(void)state;
	alloc_fail_at(0);
	while (n_paths > 0)
		free(paths[--n_paths]);
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		sign_free(keys[i]);
		keys[i] = NULL;
	}
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *help_peer_path(const char *name)
{
	assert_true(n_paths < sizeof paths / sizeof *paths);
	paths[n_paths] = alloc_must_printf("%s/%s", folder, name);
	return paths[n_paths++];
}

void help_peer_told(const struct why *why, enum err code, const char *part)
{
	if (why->code != code || !strstr(why->text, part))
		fail_msg("%s: \"%s\" is not %s with \"%s\"", err_name(why->code), why->text,
			err_name(code), part);
}

void help_peer_fine(enum err e, const struct why *why)
{
	if (e)
		fail_msg("%s: %s", err_name(e), why->text);
}

const struct sign_key *help_peer_key(uint32_t member)
{
	assert_true(member >= 1 && member < sizeof keys / sizeof *keys);
	uint8_t secret[SIGN_SECRET];
	memset(secret, (int)member, sizeof secret);
	if (!keys[member])
		assert_int_equal(sign_load(secret, &keys[member]), ERR_OK);
	return keys[member];
}

/* ---- a run */

static void make_data(const char *dir)
{
	static const char *const words[] = {
		"light ", "and ", "the ", "deep ", "waters ", "night.\n"};
	const char *text = help_peer_path("text.txt");
	struct buf b;
	struct why why;
	buf_init(&b, 2u * TEXT_BYTES);
	for (uint64_t i = 0; b.len < TEXT_BYTES; i++)
		buf_printf(&b, "%s", words[rng_below(5, 1, i, 6)]);
	help_peer_fine(file_write(text, b.data, b.len, 0644, &why), &why);
	buf_release(&b);
	const struct prepare how = {.texts = &text,
		.n_texts = 1,
		.dir = dir,
		.vocab = 256,
		.validation = 0.1,
		.seq = 16,
		.shard_bytes = 4096};
	struct prepare_summary sum;
	help_peer_fine(prepare(&how, &sum, &why), &why);
}

static void make_spec(struct help_peer *p, const char *data, const char *const *changes)
{
	const char *sets[16];
	char manifest[32 + HASH_HEX] = "data.manifest=";
	const char *path = help_peer_path("spec.json");
	size_t n = 0;
	struct why why;
	help_peer_fine(file_write(path, template, strlen(template), 0644, &why), &why);
	for (; changes && changes[n]; n++)
		sets[n] = changes[n];
	help_peer_fine(spec_load(path, sets, n, &p->spec, NULL, &why), &why);
	help_peer_fine(dataset_open(data, p->spec, true, &p->data, &why), &why);
	hash_hex(&p->data.manifest->id, manifest + strlen(manifest));
	sets[n++] = manifest;
	spec_free(p->spec);
	help_peer_fine(spec_load(path, sets, n, &p->spec, NULL, &why), &why);
}

static void make_roster(struct help_peer *p)
{
	struct roster_member members[HELP_PEER_MEMBERS] = {0};
	struct why why;
	for (uint32_t i = 0; i < HELP_PEER_MEMBERS; i++) {
		members[i].number = i + 1;
		members[i].sign = sign_public_of(help_peer_key(i + 1));
		memset(members[i].curve, (int)i + 1, sizeof members[i].curve);
		snprintf(members[i].name, sizeof members[i].name, "m%u", i + 1);
	}
	help_peer_fine(
		roster_new(&p->spec->id, 1, members, HELP_PEER_MEMBERS, &p->roster, &why), &why);
}

/* The state of round 0: what the spec's seed gives. */
static void make_ledger(struct help_peer *p)
{
	struct trainer_config how = {.spec = p->spec, .backend = "cpu", .threads = 1};
	struct trainer *t = NULL;
	struct why why;
	size_t n[2];
	struct hash states[2];
	help_peer_fine(trainer_new(&how, &t, &why), &why);
	p->n_shards = trainer_shards(t);
	assert_int_equal(p->n_shards, 2);
	for (uint32_t i = 0; i < 2; i++)
		n[i] = trainer_count(t, i);
	struct replica_shape shape = {.rule = p->exchange.rule, .n_shards = 2, .n = n};
	assert_int_equal(replica_new(&shape, &p->replica), ERR_OK);
	for (uint32_t i = 0; i < 2; i++) {
		float *v = alloc_must_zero(n[i], sizeof *v);
		trainer_read(t, i, PARAMS_value, v);
		assert_int_equal(replica_set(p->replica, i, v), ERR_OK);
		states[i] = replica_hash(p->replica, i);
		free(v);
	}
	trainer_free(t);
	p->ledger = ledger_new(&p->spec->id, states, 2);
}

void help_peer_open(struct help_peer *p, const char *const *changes)
{
	const char *data = help_peer_path("data");
	struct why why;
	*p = (struct help_peer){0};
	make_data(data);
	make_spec(p, data, changes);
	make_roster(p);
	help_peer_fine(exchange_find(p->spec, &p->exchange, &why), &why);
	make_ledger(p);
}

static void forget_gifts(struct help_peer *p)
{
	for (uint32_t s = 0; s < 2; s++) {
		for (uint32_t i = 0; i < p->n_gifts[s]; i++)
			buf_release(&p->gifts[s][i].bytes);
		p->n_gifts[s] = 0;
	}
}

void help_peer_release(struct help_peer *p)
{
	forget_gifts(p);
	replica_free(p->replica);
	ledger_free(p->ledger);
	roster_free(p->roster);
	dataset_release(&p->data);
	spec_free(p->spec);
}

struct standing *help_peer_standing(const struct help_peer *p, uint32_t member, const char *name)
{
	struct why why;
	struct standing *s = NULL;
	const char *dir = help_peer_path(name);
	help_peer_fine(file_mkdirs(dir, 0755, &why), &why);
	struct standing_config how = {.spec = p->spec,
		.corpus = p->data.corpus,
		.key = help_peer_key(member),
		.member = member,
		.dir = dir,
		.backend = "cpu",
		.threads = 1};
	help_peer_fine(standing_new(&how, &s, &why), &why);
	return s;
}

const char *help_peer_snapshot(const struct help_peer *p, struct ledger_head *at)
{
	char name[64];
	struct why why;
	*at = ledger_at(p->ledger);
	snprintf(name, sizeof name, "snapshot-%02x%02x-%llu", p->spec->id.b[0], p->spec->id.b[1],
		(unsigned long long)at->sequence);
	const char *path = help_peer_path(name);
	struct replica_snapshot about = {p->spec->id, p->spec->text, *at};
	help_peer_fine(replica_save(p->replica, &about, path, &why), &why);
	return path;
}

/* ---- a round */

void help_peer_plans(struct help_peer *p, uint64_t steps, struct plan *plans, uint32_t n_plans)
{
	const struct ledger_head at = ledger_at(p->ledger);
	for (uint32_t i = 0; i < n_plans; i++) {
		plans[i] = (struct plan){.run = p->spec->id,
			.round = at.round + 1,
			.parent = at,
			.member = i + 1,
			.steps = steps,
			.n_spans = 1,
			.ledger_tokens = ledger_tokens(p->ledger),
			.planned_tokens = n_plans * steps * spec_step_tokens(p->spec)};
		plans[i].spans[0].first = p->cursor;
		p->cursor += steps * p->spec->train.batch;
		plans[i].spans[0].last = p->cursor;
	}
}

enum err help_peer_gate(struct help_peer *p, const struct plan *plan, uint32_t shard,
	const uint8_t *bytes, size_t len, struct why *why)
{
	const struct ledger_head at = ledger_at(p->ledger);
	const uint32_t fragment = turns_fragment(&p->spec->round, plan->round);
	struct span due[SPAN_MAX];
	struct gate_passed passed;
	struct gate_expect expect = {.run = p->spec->id,
		.parent = at.hash,
		.round = at.round + 1,
		.shard = shard,
		.n = replica_count(p->replica, shard),
		.codec = p->exchange.codec,
		.peer = plan->member,
		.assigned = due,
		.n_assigned = span_tail(plan->spans, plan->n_spans, plan->listed[fragment], due),
		.sequence_tokens = p->spec->train.seq};
	memcpy(expect.key, roster_by_number(p->roster, plan->member)->sign.b, SIGN_PUBLIC);
	enum err e = gate_check(&expect, bytes, len, &passed, why);
	if (e)
		return e;
	codec_release(&passed.vector);
	assert_true(p->n_gifts[shard] < HELP_PEER_MEMBERS);
	struct help_peer_gift *g = &p->gifts[shard][p->n_gifts[shard]++];
	g->peer = plan->member;
	buf_init(&g->bytes, SIZE_MAX / 2);
	buf_put(&g->bytes, bytes, len);
	return ERR_OK;
}

void help_peer_give(struct help_peer *p, const struct plan *plan, const struct standing *s)
{
	for (uint32_t shard = 0; shard < p->n_shards; shard++) {
		size_t len;
		struct why why;
		const uint8_t *sent = standing_sent(s, shard, &len);
		if (!turns_has(&p->spec->round, plan->round, shard)) {
			assert_null(sent);
			continue;
		}
		assert_non_null(sent);
		help_peer_fine(help_peer_gate(p, plan, shard, sent, len, &why), &why);
	}
}

static int by_peer(const void *a, const void *b)
{
	const struct help_peer_gift *x = a, *y = b;
	return (x->peer > y->peer) - (x->peer < y->peer);
}

static bool roster_key(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	const struct roster_member *m = roster_by_number(arg, peer);
	if (m)
		memcpy(out, m->sign.b, SIGN_PUBLIC);
	return m != NULL;
}

/* The bundle of one shard, and what it leads to. */
static void close_shard(
	struct help_peer *p, const struct update_head *about, struct help_peer_records *out)
{
	const uint32_t shard = about->shard;
	const struct ledger_head at = ledger_at(p->ledger);
	struct update_part parts[HELP_PEER_MEMBERS];
	struct ledger_entry entry = {.sequence = at.sequence + 1,
		.round = about->round,
		.shard = shard,
		.previous = at.hash};
	struct update update;
	struct buf bundle, record;
	struct why why;
	qsort(p->gifts[shard], p->n_gifts[shard], sizeof *p->gifts[shard], by_peer);
	for (uint32_t i = 0; i < p->n_gifts[shard]; i++)
		parts[i] = (struct update_part){
			p->gifts[shard][i].bytes.data, p->gifts[shard][i].bytes.len};
	buf_init(&bundle, SIZE_MAX / 2);
	buf_init(&record, SIZE_MAX / 2);
	help_peer_fine(update_encode(about, parts, p->n_gifts[shard], &bundle, &why), &why);
	help_peer_fine(update_open(bundle.data, bundle.len, &update, &why), &why);
	const struct update_expect expect = {.run = p->spec->id,
		.parent = about->parent,
		.codec = p->exchange.codec,
		.n = replica_count(p->replica, shard),
		.key = roster_key,
		.arg = p->roster};
	help_peer_fine(update_verify(&update, &expect, &why), &why);
	assert_int_equal(update_list(&update, &entry), ERR_OK);
	help_peer_fine(replica_propose(p->replica, shard, &update, &entry.state, &why), &why);
	help_peer_fine(replica_commit(p->replica, &entry, &why), &why);
	help_peer_fine(ledger_append(p->ledger, &entry, &why), &why);
	assert_int_equal(record_encode(&entry, bundle.data, bundle.len, &record), ERR_OK);
	update_release(&update);
	buf_release(&bundle);
	ledger_entry_release(&entry);
	assert_true(out->n < sizeof out->at / sizeof *out->at);
	out->at[out->n].bytes = buf_steal(&record, &out->at[out->n].len);
	out->n++;
}

void help_peer_close(struct help_peer *p, struct help_peer_records *out)
{
	const struct ledger_head parent = ledger_at(p->ledger);
	for (uint32_t shard = 0; shard < p->n_shards; shard++) {
		struct update_head about = {p->spec->id, parent.hash, parent.round + 1, shard, 0};
		close_shard(p, &about, out);
	}
	out->head = ledger_at(p->ledger);
	forget_gifts(p);
}

void help_peer_drop(struct help_peer_records *r)
{
	for (size_t i = 0; i < r->n; i++)
		free((void *)(uintptr_t)r->at[i].bytes);
	r->n = 0;
}

void help_peer_apply(
	const struct help_peer *p, struct standing *s, const struct help_peer_records *r)
{
	struct why why;
	help_peer_fine(standing_apply(s, r->at, r->n, &r->head, p->roster, &why), &why);
	struct ledger_head at = standing_head(s), want = ledger_at(p->ledger);
	struct hash state = standing_state(s), ours = replica_hash_all(p->replica);
	assert_int_equal(at.sequence, want.sequence);
	assert_true(hash_equal(&at.hash, &want.hash));
	assert_true(hash_equal(&state, &ours));
	assert_true(standing_confirmed(s));
	for (uint32_t i = 0; i < p->n_shards; i++) {
		float *w = help_peer_part(s, i, PARAMS_value);
		assert_memory_equal(
			w, replica_params(p->replica, i), replica_count(p->replica, i) * sizeof *w);
		free(w);
	}
}

/* ---- what most tests do */

struct standing *help_peer_begin(const struct help_peer *p, uint32_t member, const char *name)
{
	struct why why;
	struct standing *s = help_peer_standing(p, member, name);
	struct ledger_head at;
	const char *path = help_peer_snapshot(p, &at);
	help_peer_fine(standing_begin(s, path, &at, &why), &why);
	return s;
}

struct standing *help_peer_again(
	const struct help_peer *p, struct standing *old, uint32_t member, const char *name)
{
	struct why why;
	standing_free(old);
	struct standing *s = help_peer_standing(p, member, name);
	help_peer_fine(standing_resume(s, &why), &why);
	return s;
}

void help_peer_steps(struct standing *s, const struct plan *plan, uint64_t n)
{
	double loss;
	struct why why;
	help_peer_fine(standing_ready(s, plan, &why), &why);
	for (uint64_t i = 0; i < n; i++) {
		help_peer_fine(standing_step(s, plan, i, &loss, &why), &why);
		assert_true(loss > 0 && loss < 10);
	}
}

void help_peer_train(struct standing *s, const struct plan *plan)
{
	struct why why;
	help_peer_steps(s, plan, plan->steps);
	help_peer_fine(standing_cut(s, plan, plan->steps, &why), &why);
}

void help_peer_play(struct help_peer *p, struct standing **s, uint32_t n)
{
	struct plan plans[HELP_PEER_MEMBERS];
	struct help_peer_records r = {.n = 0};
	help_peer_plans(p, HELP_PEER_STEPS, plans, n);
	for (uint32_t i = 0; i < n; i++) {
		help_peer_train(s[i], &plans[i]);
		help_peer_give(p, &plans[i], s[i]);
	}
	help_peer_close(p, &r);
	for (uint32_t i = 0; i < n; i++)
		help_peer_apply(p, s[i], &r);
	help_peer_drop(&r);
}

/* ---- comparing */

float *help_peer_part(struct standing *s, uint32_t shard, enum params_part part)
{
	struct trainer *t = standing_trainer(s);
	float *v = alloc_must_zero(trainer_count(t, shard), sizeof *v);
	trainer_read(t, shard, part, v);
	return v;
}

static struct statefile *open_newest(const char *name)
{
	const struct statefile_series series = {
		.dir = help_peer_path(name), .prefix = "local", .kind = "local"};
	struct statefile *file = NULL;
	struct buf passed;
	uint64_t number;
	struct why why;
	buf_init(&passed, 4096);
	help_peer_fine(statefile_open_newest(&series, &file, &number, &passed, &why), &why);
	buf_release(&passed);
	return file;
}

static void equal_files(const char *name_a, const char *name_b)
{
	struct statefile *a = open_newest(name_a), *b = open_newest(name_b);
	assert_int_equal(statefile_count(a), statefile_count(b));
	assert_true(json_equal(statefile_meta(a), statefile_meta(b)));
	for (size_t i = 0; i < statefile_count(a); i++) {
		const struct statefile_section *x = statefile_at(a, i), *y = statefile_at(b, i);
		assert_string_equal(x->name, y->name);
		if (x->len != y->len || memcmp(x->bytes, y->bytes, x->len))
			fail_msg("section %s differs", x->name);
	}
	statefile_close(a);
	statefile_close(b);
}

static void equal_parts(struct standing *a, struct standing *b, uint32_t shard)
{
	static const enum params_part parts[] = {PARAMS_value, PARAMS_m, PARAMS_v};
	for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
		float *v = help_peer_part(a, shard, parts[k]),
		      *w = help_peer_part(b, shard, parts[k]);
		assert_memory_equal(v, w, trainer_count(standing_trainer(a), shard) * sizeof *v);
		free(v);
		free(w);
	}
}

void help_peer_equal(struct standing *a, const char *name_a, struct standing *b, const char *name_b)
{
	struct ledger_head x = standing_head(a), y = standing_head(b);
	struct hash g = standing_state(a), h = standing_state(b);
	struct why why;
	assert_int_equal(x.sequence, y.sequence);
	assert_true(hash_equal(&x.hash, &y.hash));
	assert_true(hash_equal(&g, &h));
	assert_int_equal(trainer_steps(standing_trainer(a)), trainer_steps(standing_trainer(b)));
	for (uint32_t i = 0; i < trainer_shards(standing_trainer(a)); i++)
		equal_parts(a, b, i);
	help_peer_fine(standing_save(a, &why), &why);
	help_peer_fine(standing_save(b, &why), &why);
	equal_files(name_a, name_b);
}
