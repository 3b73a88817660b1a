#include "tests/help_coordinator.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "model/prepare.h"
#include "round/contribution.h"
#include "round/object.h"

#define DEADLINE (30 * CLOCK_SECOND)

static char folder[256];
static void *given[256];
static size_t n_given;

int help_coordinator_setup(void **state)
{
	(void)state;
	const char *tmp = getenv("TMPDIR");
	snprintf(folder, sizeof folder, "%s/shoal-coordinator.XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(folder) ? 0 : -1;
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

int help_coordinator_teardown(void **state)
{
	(void)state;
	while (n_given > 0)
		free(given[--n_given]);
	return nftw(folder, drop, 16, FTW_DEPTH | FTW_PHYS);
}

const char *help_coordinator_path(const char *name)
{
	assert_true(n_given < sizeof given / sizeof given[0]);
	return given[n_given++] = alloc_must_printf("%s/%s", folder, name);
}

void help_coordinator_told(const struct why *why, enum err code, const char *part)
{
	assert_int_equal(why->code, code);
	if (!strstr(why->text, part))
		fail_msg("\"%s\" does not say \"%s\"", why->text, part);
}

/* ---- the run */

static void make_data(const char *dir)
{
	const char *text = help_coordinator_path("text.txt");
	struct buf b;
	struct why why;
	struct prepare_summary sum;
	buf_init(&b, 1 << 20);
	for (int i = 0; i < 2000; i++)
		buf_printf(&b, "the light was called day %d\n", i * 7919 % 1000);
	if (file_write(text, b.data, b.len, 0644, &why))
		fail_msg("%s", why.text);
	buf_release(&b);
	const struct prepare p = {.texts = &text,
		.n_texts = 1,
		.dir = dir,
		.vocab = 256,
		.validation = 0.05,
		.seq = 8,
		.shard_bytes = PREPARE_SHARD_BYTES};
	if (prepare(&p, &sum, &why))
		fail_msg("%s", why.text);
}

struct spec *help_coordinator_spec(void)
{
	return help_coordinator_spec_of("\"mode\":\"fixed\",\"steps\":2");
}

struct spec *help_coordinator_spec_of(const char *rounds)
{
	return help_coordinator_spec_with(rounds, "");
}

struct spec *help_coordinator_spec_with(const char *rounds, const char *outer)
{
	char text[2048];
	static const char form[] =
		"{\"shoal\":1,\"name\":\"tiny\",\"seed\":3,\"model\":{\"builder\":\"gpt\","
		"\"layers\":2,\"width\":8,\"heads\":2,\"context\":8,\"vocab\":256,"
		"\"shards\":[0,1]},\"train\":{\"batch\":2,\"seq\":8,\"lr\":0.001,"
		"\"total_tokens\":960},\"round\":{%s,"
		"\"peers_min\":3,\"validate_every\":4,\"snapshot_every\":3},"
		"\"outer\":{%s\"rule\":\"diloco\",\"lr\":0.5,\"momentum\":0.5},"
		"\"codec\":{\"select\":\"topk\",\"values\":\"two\",\"chunk\":64,\"k\":8}}";
	const char *data = help_coordinator_path("data"),
		   *path = help_coordinator_path("spec.json");
	struct manifest *m = NULL;
	struct spec *s = NULL;
	struct why why;
	char set[16 + HASH_HEX] = "data.manifest=";
	if (!file_exists(help_coordinator_path("data/manifest.json")))
		make_data(data);
	if (manifest_load(help_coordinator_path("data/manifest.json"), &m, &why))
		fail_msg("%s", why.text);
	hash_hex(&m->id, set + strlen(set));
	manifest_free(m);
	const char *sets[] = {set};
	snprintf(text, sizeof text, form, rounds, outer);
	if (file_write(path, text, strlen(text), 0644, &why) ||
		spec_load(path, sets, 1, &s, NULL, &why))
		fail_msg("%s", why.text);
	return s;
}

/* ---- members */

static struct sign_key *keys[HELP_COORDINATOR_MEMBERS];
static uint8_t links[HELP_COORDINATOR_MEMBERS][LINK_KEY];

static void drop_keys(void)
{
	for (uint32_t i = 0; i < HELP_COORDINATOR_MEMBERS; i++)
		sign_free(keys[i]);
}

const struct sign_key *help_coordinator_key(uint32_t i)
{
	uint8_t secret[SIGN_SECRET];
	if (!keys[0])
		atexit(drop_keys);
	for (size_t k = 0; !keys[i] && k < sizeof secret; k++)
		secret[k] = (uint8_t)rng_u32(17, i, k);
	if (!keys[i])
		assert_int_equal(sign_load(secret, &keys[i]), ERR_OK);
	return keys[i];
}

const uint8_t *help_coordinator_link(uint32_t i)
{
	for (size_t k = 0; k < LINK_KEY; k++)
		links[i][k] = (uint8_t)rng_u32(18, i, k);
	return links[i];
}

static void take_in(struct hub *h)
{
	struct why why;
	store_begin(h->run.store);
	for (uint32_t i = 0; i < HELP_COORDINATOR_MEMBERS; i++) {
		char name[16];
		snprintf(name, sizeof name, "member%u", i);
		struct members_new n = {.name = name, .version = "test", .now_s = 1};
		struct sign_public key = sign_public_of(help_coordinator_key(i));
		memcpy(n.sign, key.b, sizeof n.sign);
		memcpy(n.curve, help_coordinator_link(i), sizeof n.curve);
		assert_int_equal(members_add(h->run.members, &n), i + MEMBERS_FIRST);
		if (store_commit(h->run.store, &why))
			fail_msg("%s", why.text);
		hub_roster_changed(h, clock_now_ns());
		store_begin(h->run.store);
	}
	store_rollback(h->run.store);
}

void help_coordinator_open(struct hub *h, const struct spec *spec)
{
	struct why why;
	const struct hub_config c = {.dir = help_coordinator_path("run"),
		.data = help_coordinator_path("data"),
		.address = "127.0.0.1",
		.memory = 64u << 20,
		.heartbeat_ns = CLOCK_SECOND,
		.timeout_ns = 60 * CLOCK_SECOND,
		.connections_most = 16};
	if (hub_open(&c, spec, h, &why))
		fail_msg("%s", why.text);
	hub_begin(h);
	if (!members_count(h->run.members))
		take_in(h);
}

void help_coordinator_until(struct hub *h, bool (*done)(const struct hub *h))
{
	uint64_t end = clock_now_ns() + DEADLINE;
	while (!h->failed.code && !done(h)) {
		uint64_t now = clock_now_ns();
		struct mail *m = now < end ? mailbox_wait(h->mail, end - now) : NULL;
		if (!m)
			fail_msg("the hub waits for something that does not come");
		hub_take(h, m, clock_now_ns());
	}
}

/* ---- events */

static void say(struct hub *h, struct link_event *e)
{
	hub_take(h, &e->mail, clock_now_ns());
}

void help_coordinator_message(struct hub *h, uint32_t i, const shoal_header *header)
{
	struct link_event *e = link_event_new(LINK_message, help_coordinator_link(i));
	e->header = *header;
	say(h, e);
}

void help_coordinator_hello_at(struct hub *h, uint32_t i, const char *address)
{
	struct link_event *e = link_event_new(LINK_connected, help_coordinator_link(i));
	struct ledger_head head = run_head(&h->run);
	shoal_hello *hello = &e->header.body.hello;
	e->header.which_body = MSG_hello;
	hello->number = i + MEMBERS_FIRST;
	hello->instance = 1;
	memcpy(hello->run, h->run.spec->id.b, sizeof hello->run);
	hello->sequence = head.sequence;
	memcpy(hello->head, head.hash.b, sizeof hello->head);
	snprintf(hello->address, sizeof hello->address, "%s", address);
	say(h, e);
}

void help_coordinator_hello(struct hub *h, uint32_t i)
{
	help_coordinator_hello_at(h, i, "");
}

void help_coordinator_lost(struct hub *h, uint32_t i)
{
	struct link_event *e = link_event_new(LINK_lost, help_coordinator_link(i));
	err_why(&e->why, ERR_timeout, "nothing heard");
	say(h, e);
}

void help_coordinator_report(struct hub *h, uint32_t i)
{
	shoal_header header = {.which_body = MSG_report};
	struct ledger_head head = run_head(&h->run);
	struct hash state = run_state(&h->run);
	header.body.report.round = head.round;
	header.body.report.sequence = head.sequence;
	memcpy(header.body.report.state, state.b, sizeof header.body.report.state);
	help_coordinator_message(h, i, &header);
}

void help_coordinator_object(struct hub *h, uint32_t i, const void *bytes, size_t n)
{
	struct link_event *e = link_event_new(LINK_object, help_coordinator_link(i));
	e->object_kind = OBJECT_contribution;
	e->payload = alloc_must(n + 1);
	memcpy(e->payload, bytes, n);
	e->payload_len = n;
	e->name = hash_of(bytes, n);
	say(h, e);
}

void help_coordinator_seal(struct hub *h, uint32_t i, uint32_t shard, struct buf *out)
{
	const struct rounds_member *m = rounds_ask_member(h->rounds, i + MEMBERS_FIRST);
	size_t n = h->run.files.n[shard];
	struct contribution c = {.run = h->run.spec->id,
		.parent = run_head(&h->run).hash,
		.round = rounds_ask_round(h->rounds),
		.shard = shard,
		.peer = i + MEMBERS_FIRST};
	struct planes planes;
	struct why why;
	float *v = alloc_must_zero(n, sizeof *v);
	/* fixed: all that it was given; timed: two steps more than any shard has */
	const uint64_t from = m->listed[turns_fragment(&h->run.spec->round, c.round)],
		       all = span_count(m->spans, m->n_spans), far = turns_most(m->listed) + 4,
		       to = h->run.spec->round.mode == SPEC_timed && far < all ? far : all;
	c.n_spans = span_tail(m->spans, m->n_spans, from, c.spans);
	c.n_spans = span_head(c.spans, c.n_spans, to - from, c.spans);
	c.tokens = (to - from) * h->run.spec->train.seq;
	for (size_t k = 0; k < n; k++)
		v[k] = (float)rng_unit(c.round * 100 + i, shard, k) - 0.5f;
	planes_init(&planes, codec_bound(&h->run.exchange.codec, n));
	if (codec_encode(&h->run.exchange.codec, v, n, NULL, &planes, &why))
		fail_msg("%s", why.text);
	assert_int_equal(contribution_seal(
				 &c, &h->run.exchange.codec, &planes, help_coordinator_key(i), out),
		ERR_OK);
	planes_release(&planes);
	free(v);
}

void help_coordinator_contribute(struct hub *h, uint32_t i, uint32_t shard)
{
	struct buf b;
	buf_init(&b, contribution_bound(&h->run.exchange.codec, h->run.files.n[shard]));
	help_coordinator_seal(h, i, shard, &b);
	help_coordinator_object(h, i, b.data, b.len);
	buf_release(&b);
}

void help_coordinator_balances(const struct hub *h)
{
	size_t n;
	const struct spec_round *r = &h->run.spec->round;
	const uint32_t shards = h->run.files.n_shards;
	const struct span *pool = rounds_ask_pool(h->rounds, &n);
	uint64_t sum = shards * ledger_tokens(h->run.ledger) / h->run.spec->train.seq +
		       rounds_ask_voided(h->rounds);
	for (size_t i = 0; i < n; i++)
		sum += shards * (pool[i].last - pool[i].first);
	for (uint32_t i = 0; i < rounds_ask_members(h->rounds); i++) {
		const struct rounds_member *m = rounds_ask_member(h->rounds, i);
		for (uint32_t s = 0; m && s < shards; s++)
			sum += span_count(m->spans, m->n_spans) - m->listed[s % turns_fragments(r)];
	}
	assert_int_equal(sum, shards * rounds_ask_cursor(h->rounds));
}

/* ---- playing */

static void answer_plan(struct hub *h, uint32_t i)
{
	uint32_t number = i + MEMBERS_FIRST;
	if (h->validator == number) {
		shoal_header v = {.which_body = MSG_validation};
		v.body.validation.round = h->validates;
		v.body.validation.nats_per_token = v.body.validation.nats_per_byte =
			5.0 / (1.0 + (double)h->validates);
		v.body.validation.tokens = 100;
		help_coordinator_message(h, i, &v);
	}
	for (uint32_t s = 0; s < h->run.files.n_shards; s++)
		if (rounds_ask_state(h->rounds) == ROUNDS_open &&
			!h->members[number].arrived[s].have &&
			turns_has(&h->run.spec->round, rounds_ask_round(h->rounds), s))
			help_coordinator_contribute(h, i, s);
}

static uint64_t played; /* the round that is waited for */

/* Where rounds overlap the next one is open at once. */
static bool is_closed(const struct hub *h)
{
	return run_head(&h->run).round >= played && rounds_ask_state(h->rounds) != ROUNDS_closing;
}

void help_coordinator_play(struct hub *h, uint64_t round)
{
	for (uint32_t i = 0; i < HELP_COORDINATOR_MEMBERS; i++)
		if (!h->members[i + MEMBERS_FIRST].linked)
			help_coordinator_hello(h, i);
	while (run_head(&h->run).round < round) {
		assert_int_not_equal(rounds_ask_state(h->rounds), ROUNDS_waiting);
		for (uint32_t i = 0; i < HELP_COORDINATOR_MEMBERS; i++)
			answer_plan(h, i);
		played = rounds_ask_round(h->rounds);
		help_coordinator_until(h, is_closed);
		assert_int_equal(h->failed.code, ERR_OK);
		for (uint32_t i = 0; i < HELP_COORDINATOR_MEMBERS; i++)
			help_coordinator_report(h, i);
	}
}
