#include "round/ledger.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

#define MAGIC_GENESIS "shoal genesis 1"

struct standing {
	uint64_t round;
	struct hash state;
};

struct account {
	uint32_t peer;
	uint64_t tokens, entries; /* tokens: of all entries, not yet divided by the shards */
};

struct ledger {
	struct ledger_head head;
	struct hash parent;  /* the head when all shards stood at one round last */
	uint64_t first;      /* sequence number of hashes[0] */
	struct hash *hashes; /* head.sequence - first + 1 of them */
	size_t room;
	uint32_t n_shards, n_closed; /* n_closed: shards that stand at the head's round */
	struct standing *shards;
	struct account *accounts; /* ascending by peer */
	size_t n_accounts, room_accounts;
	uint64_t tokens;
};

struct hash ledger_update_hash(const struct ledger_entry *e)
{
	struct hash_state *h = hash_begin();
	hash_add_u32(h, e->count);
	for (uint32_t i = 0; i < e->count; i++) {
		hash_add_u32(h, e->accepted[i].peer);
		hash_add_u64(h, e->accepted[i].tokens);
		hash_add(h, e->accepted[i].planes.b, sizeof e->accepted[i].planes.b);
	}
	if (e->kind == UPDATE_merged)
		hash_add(h, e->merged.b, sizeof e->merged.b);
	return hash_end(h);
}

/* ---- making */

struct hash ledger_genesis(const struct hash *run, const struct hash *states, uint32_t n_shards)
{
	struct hash_state *h = hash_begin();
	hash_add(h, MAGIC_GENESIS, sizeof MAGIC_GENESIS);
	hash_add(h, run->b, sizeof run->b);
	hash_add_u32(h, n_shards);
	for (uint32_t i = 0; i < n_shards; i++)
		hash_add(h, states[i].b, sizeof states[i].b);
	return hash_end(h);
}

struct ledger *ledger_new_at(
	const struct ledger_head *head, const struct hash *states, uint32_t n_shards)
{
	struct ledger *l = alloc_must_zero(1, sizeof *l);
	l->head = *head;
	l->parent = head->hash;
	l->first = head->sequence;
	l->room = 64;
	l->hashes = alloc_must_zero(l->room, sizeof *l->hashes);
	l->hashes[0] = head->hash;
	l->n_shards = l->n_closed = n_shards;
	l->shards = alloc_must_zero(n_shards, sizeof *l->shards);
	for (uint32_t i = 0; i < n_shards; i++)
		l->shards[i] = (struct standing){head->round, states[i]};
	return l;
}

struct ledger *ledger_new(const struct hash *run, const struct hash *states, uint32_t n_shards)
{
	struct ledger_head genesis = {.hash = ledger_genesis(run, states, n_shards)};
	return ledger_new_at(&genesis, states, n_shards);
}

void ledger_free(struct ledger *l)
{
	if (!l)
		return;
	free(l->hashes);
	free(l->shards);
	free(l->accounts);
	free(l);
}

/* ---- appending */

static enum err check_place(const struct ledger *l, const struct ledger_entry *e, struct why *why)
{
	if (e->sequence != l->head.sequence + 1 || !hash_equal(&e->previous, &l->head.hash))
		return err_why(why, ERR_fork,
			"ledger entry %" PRIu64 " does not follow from entry %" PRIu64
			" as it is known here",
			e->sequence, l->head.sequence);
	if (e->shard >= l->n_shards)
		return err_why(why, ERR_shape,
			"ledger entry %" PRIu64 " is for shard %" PRIu32 " of %" PRIu32,
			e->sequence, e->shard, l->n_shards);
	if (e->part != 0)
		return err_why(why, ERR_unsupported,
			"ledger entry %" PRIu64 " is for part %" PRIu32
			" of a shard: install a newer version",
			e->sequence, e->part);
	uint64_t next = l->shards[e->shard].round + 1;
	uint64_t open = l->n_closed == l->n_shards ? l->head.round + 1 : l->head.round;
	if (e->round != next || e->round != open)
		return err_why(why, ERR_wrong_round,
			"ledger entry %" PRIu64 " closes round %" PRIu64 " of shard %" PRIu32
			", which stands at round %" PRIu64 " while round %" PRIu64 " is open",
			e->sequence, e->round, e->shard, next - 1, open);
	return ERR_OK;
}

static enum err check_list(const struct ledger *l, const struct ledger_entry *e, struct why *why)
{
	uint64_t tokens = 0;
	if (e->count > LEDGER_ACCEPTED_MAX)
		return err_why(why, ERR_syntax, "ledger entry %" PRIu64 " lists %" PRIu32 " peers",
			e->sequence, e->count);
	if (e->count == 0 && e->kind == UPDATE_merged)
		return err_why(why, ERR_syntax,
			"ledger entry %" PRIu64 " has merged the contributions of nobody",
			e->sequence);
	for (uint32_t i = 0; i < e->count; i++) {
		const struct ledger_accepted *a = &e->accepted[i];
		if (i > 0 && a->peer <= e->accepted[i - 1].peer)
			return err_why(why, ERR_syntax,
				"ledger entry %" PRIu64 " lists its peers out of order",
				e->sequence);
		if (a->tokens < 1 || a->tokens > LEDGER_TOKENS_MAX - tokens)
			return err_why(why, ERR_tokens,
				"ledger entry %" PRIu64 " lists peer %" PRIu32 " with %" PRIu64
				" tokens",
				e->sequence, a->peer, a->tokens);
		tokens += a->tokens;
	}
	if (tokens > UINT64_MAX - l->tokens)
		return err_why(why, ERR_tokens, "the tokens of the ledger are beyond counting");
	struct hash update = ledger_update_hash(e);
	if (!hash_equal(&update, &e->update))
		return err_why(why, ERR_hash,
			"the update of ledger entry %" PRIu64 " is not the list it carries",
			e->sequence);
	return ERR_OK;
}

/* The first account whose peer is not below. */
static size_t account_from(const struct ledger *l, uint32_t peer)
{
	size_t low = 0, high = l->n_accounts;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (l->accounts[middle].peer < peer)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Room for one more entry, so that nothing can fail once taking it has begun. */
static enum err make_room(struct ledger *l, uint32_t peers)
{
	size_t hashes = (size_t)(l->head.sequence - l->first) + 2;
	if (hashes > l->room) {
		struct hash *more = alloc_try_resize(l->hashes, 2 * l->room, sizeof *more);
		if (!more)
			return ERR_nomem;
		l->hashes = more;
		l->room *= 2;
	}
	if (l->n_accounts + peers > l->room_accounts) {
		size_t room = 2 * (l->n_accounts + peers);
		struct account *more = alloc_try_resize(l->accounts, room, sizeof *more);
		if (!more)
			return ERR_nomem;
		l->accounts = more;
		l->room_accounts = room;
	}
	return ERR_OK;
}

static void credit(struct ledger *l, uint32_t peer, uint64_t tokens)
{
	size_t i = account_from(l, peer);
	if (i == l->n_accounts || l->accounts[i].peer != peer) {
		memmove(l->accounts + i + 1, l->accounts + i,
			(l->n_accounts - i) * sizeof *l->accounts);
		l->accounts[i] = (struct account){.peer = peer};
		l->n_accounts++;
	}
	l->accounts[i].tokens += tokens;
	l->accounts[i].entries++;
	l->tokens += tokens;
}

enum err ledger_append(struct ledger *l, const struct ledger_entry *e, struct why *why)
{
	struct hash hash;
	enum err err = check_place(l, e, why);
	if (!err)
		err = check_list(l, e, why);
	if (err)
		return err;
	err = ledger_entry_hash(e, &hash);
	if (!err)
		err = make_room(l, e->count);
	if (err)
		return err_why(why, err, "no memory for ledger entry %" PRIu64, e->sequence);
	for (uint32_t i = 0; i < e->count; i++)
		credit(l, e->accepted[i].peer, e->accepted[i].tokens);
	l->n_closed = e->round == l->head.round ? l->n_closed + 1 : 1;
	l->shards[e->shard] = (struct standing){e->round, e->state};
	l->head = (struct ledger_head){e->sequence, e->round, hash};
	l->hashes[e->sequence - l->first] = hash;
	if (ledger_closed(l))
		l->parent = hash;
	return ERR_OK;
}

/* ---- asking */

struct ledger_head ledger_at(const struct ledger *l)
{
	return l->head;
}

struct hash ledger_parent(const struct ledger *l)
{
	return l->parent;
}

bool ledger_closed(const struct ledger *l)
{
	return l->n_closed == l->n_shards;
}

uint64_t ledger_round(const struct ledger *l, uint32_t shard)
{
	return l->shards[shard].round;
}

struct hash ledger_state(const struct ledger *l, uint32_t shard)
{
	return l->shards[shard].state;
}

bool ledger_hash_at(const struct ledger *l, uint64_t sequence, struct hash *out)
{
	if (sequence < l->first || sequence > l->head.sequence)
		return false;
	*out = l->hashes[sequence - l->first];
	return true;
}

enum err ledger_check_head(const struct ledger *l, const struct ledger_head *h, struct why *why)
{
	struct hash here;
	if (h->sequence > l->head.sequence)
		return err_why(why, ERR_missing,
			"the head is at ledger entry %" PRIu64
			", known here are those up to %" PRIu64,
			h->sequence, l->head.sequence);
	if (!ledger_hash_at(l, h->sequence, &here))
		return err_why(why, ERR_fork,
			"the head is at ledger entry %" PRIu64 ", before entry %" PRIu64
			" from which the ledger is known here",
			h->sequence, l->first);
	if (!hash_equal(&here, &h->hash))
		return err_why(why, ERR_fork,
			"the head is another ledger entry %" PRIu64 " than the one known here",
			h->sequence);
	return ERR_OK;
}

bool ledger_common(const struct ledger *a, const struct ledger *b, uint64_t *sequence)
{
	uint64_t low = a->first > b->first ? a->first : b->first;
	uint64_t high = a->head.sequence < b->head.sequence ? a->head.sequence : b->head.sequence;
	struct hash x, y;
	if (low > high || !ledger_hash_at(a, low, &x) || !ledger_hash_at(b, low, &y) ||
		!hash_equal(&x, &y))
		return false;
	// They agree at low; where they agree they agree on everything before.
	while (low < high) {
		uint64_t middle = high - (high - low) / 2;
		bool same =
			hash_equal(&a->hashes[middle - a->first], &b->hashes[middle - b->first]);
		if (same)
			low = middle;
		else
			high = middle - 1;
	}
	*sequence = low;
	return true;
}

uint64_t ledger_tokens(const struct ledger *l)
{
	return l->tokens / l->n_shards;
}

uint64_t ledger_peer_tokens(const struct ledger *l, uint32_t peer)
{
	size_t i = account_from(l, peer);
	bool found = i < l->n_accounts && l->accounts[i].peer == peer;
	return found ? l->accounts[i].tokens / l->n_shards : 0;
}

uint32_t ledger_peers(const struct ledger *l)
{
	return (uint32_t)l->n_accounts;
}

struct ledger_account ledger_account(const struct ledger *l, uint32_t i)
{
	const struct account *a = &l->accounts[i];
	return (struct ledger_account){a->peer, a->tokens / l->n_shards, a->entries};
}
