/* shoal-coordinator replay: the ledger of a run, from the oldest snapshot that is kept to its head.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/log.h"
#include "base/option.h"
#include "base/program.h"
#include "coordinator/commands.h"
#include "coordinator/replay.h"
#include "coordinator/run.h"

static struct {
	bool verify;
} opt;

static const struct option_row rows[] = {
	{"verify", OPTION_flag, &opt.verify, NULL, 0, 0,
		"compute every state again and compare it with the ledger"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const char about[] =
	"shoal-coordinator replay DIR [--verify]\n\n"
	"Checks the chain of the ledger in a run's folder and the signature of its head.  "
	"With --verify\nit also begins from the oldest snapshot that is kept, verifies every "
	"contribution's signature,\nmerges again what was merged, applies every record and "
	"compares every state hash; the first\ndifference is named.  The run may be served "
	"meanwhile.\n\n"
	"elsewhere counts merged updates that an aggregator made: their contributions were never "
	"here,\nand a witness compared them in their round.\n";

static const char examples[] = "  shoal-coordinator replay run --verify\n";

/* Snapshots come newest first: the last one seen is the oldest. */
static void note_oldest(void *arg, const struct store_snapshot *s)
{
	*(struct store_snapshot *)arg = *s;
}

/* The state that the ledger lists for a shard after a round. */
static enum err listed_state(
	const struct run *r, uint64_t round, uint32_t shard, struct hash *out, struct why *why)
{
	struct store_entry e;
	if (round == 0) {
		*out = r->start[shard];
		return ERR_OK;
	}
	enum err err = store_entry_find(
		r->store, replay_sequence(r->files.n_shards, round, shard), &e, why);
	if (err == ERR_missing)
		return err_why(why, err, "the ledger has no entry for round %llu, shard %u",
			(unsigned long long)round, shard);
	*out = e.state;
	return err;
}

static enum err same_state(
	const struct run *r, const struct shardstate *s, const char *what, struct why *why)
{
	char have[HASH_HEX], want[HASH_HEX];
	struct hash listed, hash = shardstate_hash(s);
	enum err err = listed_state(r, s->round, s->shard, &listed, why);
	if (err || hash_equal(&hash, &listed))
		return err;
	hash_hex(&hash, have);
	hash_hex(&listed, want);
	return err_why(why, ERR_hash,
		"%s, round %llu, shard %u: the state is %s, the ledger lists %s", what,
		(unsigned long long)s->round, s->shard, have, want);
}

static enum err verify_shard(const struct run *r, const struct store_snapshot *from, uint32_t shard,
	uint64_t to, uint64_t *elsewhere, struct why *why)
{
	struct replay replay = run_replay(r);
	struct shardstate s = {0};
	replay.elsewhere = elsewhere;
	enum err err = shardstate_init(&s, shard, r->files.n[shard], r->exchange.rule.row);
	if (err)
		return err_why(why, err, "no memory for shard %u of %llu parameters", shard,
			(unsigned long long)r->files.n[shard]);
	err = replay_begin(&replay, from, &s, why);
	if (!err)
		err = same_state(r, &s, "the snapshot", why);
	if (!err)
		err = replay_shard(&replay, &s, to, why);
	if (!err)
		err = same_state(r, &s, "the end", why);
	shardstate_release(&s);
	return err;
}

static enum err verify(const struct run *r, uint64_t *from, uint64_t *elsewhere, struct why *why)
{
	struct store_snapshot oldest = {0};
	struct ledger_head head = run_head(r);
	enum err err = store_snapshot_list(r->store, note_oldest, &oldest, why);
	if (!err && !oldest.bytes)
		err = err_why(
			why, ERR_missing, "%s lists no snapshot to begin from", r->store_path);
	for (uint32_t i = 0; !err && i < r->files.n_shards; i++) {
		log_at(ledger, 1, "shard %u: rounds %llu to %llu", i,
			(unsigned long long)oldest.round + 1, (unsigned long long)head.round);
		err = verify_shard(r, &oldest, i, head.round, elsewhere, why);
	}
	*from = oldest.round;
	return err;
}

static void report(const struct run *r, uint64_t from, uint64_t elsewhere)
{
	char hex[HASH_HEX], state[HASH_HEX];
	struct ledger_head head = run_head(r);
	struct hash all = run_state(r);
	hash_hex(&head.hash, hex);
	hash_hex(&all, state);
	printf("replay: %s rounds=%llu entries=%llu tokens=%llu head=%s state=%s",
		opt.verify ? "ok" : "chain ok, states not compared (--verify)",
		(unsigned long long)head.round, (unsigned long long)head.sequence,
		(unsigned long long)ledger_tokens(r->ledger), hex, state);
	if (opt.verify)
		printf(" from_round=%llu elsewhere=%llu", (unsigned long long)from,
			(unsigned long long)elsewhere);
	printf("\n");
}

static enum err replay(const char *dir, struct why *why)
{
	const struct run_config c = {.dir = dir};
	struct run r;
	uint64_t from = 0, elsewhere = 0;
	enum err err = run_open(&c, &r, why);
	if (!err && opt.verify)
		err = verify(&r, &from, &elsewhere, why);
	if (!err)
		report(&r, from, elsewhere);
	run_release(&r);
	return err;
}

int command_replay(int argc, char **argv)
{
	const char *words[1];
	size_t n = 0;
	struct why why = {0};
	const struct program_options options = {.program = COMMAND_PROGRAM,
		.rows = rows,
		.n_rows = N_ROWS,
		.about = about,
		.examples = examples,
		.words = words,
		.max_words = 1};
	int status;
	if (!program_options(&options, argc, argv, &n, &status))
		return status;
	enum err err = n ? replay(words[0], &why)
			 : err_why(&why, ERR_usage,
				   "no folder is given: shoal-coordinator replay DIR --verify");
	return err ? program_fail(COMMAND_PROGRAM, argv[0], &why) : PROGRAM_ok;
}
