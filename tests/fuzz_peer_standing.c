/*
 * A peer's saved state with a contribution in flight, changed at any places and with its hash made
 * right again: the peer stands nowhere and says why, or stands somewhere that it can save and come
 * back to.  An input is a list of changes: where (3 bytes, little-endian), how many bytes, those
 * bytes; none at all (0) cuts the file there.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "model/statefile.h"
#include "peer/standing.h"
#include "round/exchange.h"
#include "round/replica.h"

#define FILE_MOST ((size_t)8 << 20)
#define SHARDS 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
	"{\"shoal\":1,\"name\":\"tiny\",\"seed\":3,"
	"\"model\":{\"builder\":\"gpt\",\"layers\":2,\"width\":4,\"heads\":1,\"context\":4,"
	"\"vocab\":256,\"tied\":false,\"shards\":[0,1]},"
	"\"train\":{\"batch\":1,\"micro_batch\":1,\"seq\":4,\"lr\":0.01,\"beta1\":0.9,"
	"\"beta2\":0.95,\"eps\":1e-8,\"weight_decay\":0.1,\"clip\":1.0,\"warmup_tokens\":4,"
	"\"total_tokens\":400,\"final_lr\":0.1},"
	"\"round\":{\"mode\":\"fixed\",\"steps\":1,\"peers_min\":1,\"quorum\":1.0},"
	"\"outer\":{\"rule\":\"diloco\",\"lr\":0.5,\"momentum\":0.8},"
	"\"codec\":{\"select\":\"topk\",\"values\":\"two\",\"chunk\":64,\"k\":8,\"decay\":0.95}}";
static const uint8_t secret[SIGN_SECRET] = "a key that is no secret at all";

static char folder[] = "/tmp/shoal-fuzz.XXXXXX";
static struct standing *standing;
static const struct statefile_series series = {.dir = folder, .prefix = "local"};
static uint8_t *whole;
static size_t whole_len;

static void must(enum err e, const struct why *why)
{
	if (!e)
		return;
	fprintf(stderr, "%s\n", why->text);
	abort();
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(name);
}

static void clean_up(void)
{
	(void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A snapshot of weights that are all zero. */
static char *make_snapshot(const struct spec *spec, struct ledger_head *at)
{
	struct exchange exchange;
	struct replica *r;
	struct hash states[SHARDS];
	size_t n[SHARDS];
	struct why why = {0};
	must(exchange_find(spec, &exchange, &why), &why);
	for (uint32_t i = 0; i < SHARDS; i++)
		n[i] = trainer_count(standing_trainer(standing), i);
	const struct replica_shape shape = {.rule = exchange.rule, .n_shards = SHARDS, .n = n};
	must(replica_new(&shape, &r), &why);
	for (uint32_t i = 0; i < SHARDS; i++)
		states[i] = replica_hash(r, i);
	struct ledger *l = ledger_new(&spec->id, states, SHARDS);
	*at = ledger_at(l);
	const struct replica_snapshot about = {spec->id, spec->text, *at};
	char *name = alloc_must_printf("%s/snapshot", folder);
	must(replica_save(r, &about, name, &why), &why);
	ledger_free(l);
	replica_free(r);
	return name;
}

/* As a peer saves it that has cut: nothing was trained, which nobody can see. */
static void begin(void)
{
	struct spec *spec;
	struct sign_key *key;
	struct ledger_head at;
	struct why why = {0};
	if (!mkdtemp(folder) || atexit(clean_up) || sign_load(secret, &key))
		abort();
	must(spec_parse(text, strlen(text), &spec, NULL, &why), &why);
	const struct standing_config how = {.spec = spec,
		.key = key,
		.member = 1,
		.dir = folder,
		.backend = "cpu",
		.threads = 1};
	must(standing_new(&how, &standing, &why), &why);
	char *snapshot = make_snapshot(spec, &at);
	must(standing_begin(standing, snapshot, &at, &why), &why);
	free(snapshot);
	const struct plan plan = {.run = spec->id,
		.round = 1,
		.parent = at,
		.member = 1,
		.steps = 1,
		.n_spans = 1,
		.spans = {{0, 1}}};
	must(standing_ready(standing, &plan, &why), &why);
	must(standing_cut(standing, &plan, 1, &why), &why);
	must(standing_save(standing, &why), &why);
	char *path = statefile_path(&series, 0);
	must(file_read(path, FILE_MOST, &whole, &whole_len, &why), &why);
	free(path);
}

static size_t change(uint8_t *file, const uint8_t *data, size_t size)
{
	size_t len = whole_len - sizeof(struct hash);
	while (size >= 4) {
		const size_t at = (data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % len;
		size_t n = data[3];
		data += 4;
		size -= 4;
		if (!n) {
			len = at ? at : 1;
			continue;
		}
		n = n < size ? n : size;
		if (n)
			memcpy(file + at, data, n < len - at ? n : len - at);
		data += n;
		size -= n;
	}
	const struct hash h = hash_of(file, len);
	memcpy(file + len, h.b, sizeof h.b);
	return len + sizeof h;
}

static void write_state(const uint8_t *bytes, size_t n)
{
	char *path = statefile_path(&series, 0);
	statefile_prune(&series, 0); /* those of the input before */
	FILE *f = fopen(path, "w");
	if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
		abort();
	free(path);
}

/* Where it stands it can come back to. */
static void check(void)
{
	const struct ledger_head head = standing_head(standing);
	const struct hash state = standing_state(standing);
	struct why why = {0};
	must(standing_save(standing, &why), &why);
	must(standing_resume(standing, &why), &why);
	const struct ledger_head again = standing_head(standing);
	const struct hash same = standing_state(standing);
	if (!hash_equal(&head.hash, &again.hash) || !hash_equal(&state, &same))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct why why = {0};
	if (!standing)
		begin();
	uint8_t *file = alloc_must(whole_len);
	memcpy(file, whole, whole_len);
	write_state(file, change(file, data, size));
	free(file);
	enum err e = standing_resume(standing, &why);
	if (e && (why.code != e || !why.text[0] || standing_head(standing).sequence))
		abort();
	if (!e)
		check();
	return 0;
}
