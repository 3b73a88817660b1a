/* What the fetch thread takes from other peers, and what then is left for the coordinator. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/log.h"
#include "peer/fetch_parts.h"
#include "peer/pieces.h"
#include "round/object.h"

#define WORTH (1u << 20) /* bytes: for less, links to other peers take longer than they save */

/* ---- a blob by its pieces */

struct work {
	struct fetch_jobs *jobs;
	const struct fetch_wanted *wanted;
	const struct hash *hashes;
	struct pieces *pieces;
	/* from the coordinator: the piece that comes */
	size_t at, len;
	uint8_t *bytes;
};

static enum err put_piece(void *arg, size_t piece, const uint8_t *bytes, size_t n, struct why *why)
{
	struct work *k = arg;
	enum err e = pieces_put(k->pieces, piece, bytes, n, why);
	fetch_jobs_progress(k->jobs, k->wanted->job, pieces_have(k->pieces), k->wanted->size);
	return e;
}

static enum err take(
	struct fetch_jobs *j, struct take *t, struct take_outcome *out, struct why *why)
{
	struct roster *roster = NULL;
	fetch_jobs_givers(j);
	if (!j->n_givers)
		return ERR_OK;
	enum err e = fetch_jobs_roster(j, &roster, why);
	if (e)
		return e;
	t->identity = j->identity;
	t->proxy = j->proxy;
	t->traffic = j->traffic;
	t->run = &j->link->run;
	t->roster = roster;
	t->member = j->member;
	t->from = j->givers;
	t->n_from = j->n_givers;
	t->stop = j->stop;
	e = take_run(t, out, why);
	roster_free(roster);
	if (out->used || out->left)
		log_at(peer, 1,
			"%.2f MB came from %u other peers (%u were left); the rest comes from the "
			"coordinator",
			(double)out->bytes / 1e6, out->used, out->left);
	return e;
}

static enum err pieces_from_peers(struct work *k, struct take_outcome *out, struct why *why)
{
	const size_t n = pieces_count(k->pieces);
	struct take_piece *list = alloc_must_zero(n + 1, sizeof *list);
	for (size_t i = 0; i < n; i++)
		list[i] = (struct take_piece){.offset = (uint64_t)i * OBJECT_PIECE,
			.bytes = pieces_bytes(k->pieces, i),
			.here = pieces_here(k->pieces, i)};
	struct take t = {.blobs = &k->wanted->name,
		.n_blobs = 1,
		.pieces = list,
		.n_pieces = n,
		.put = put_piece,
		.arg = k};
	enum err e = take(k->jobs, &t, out, why);
	free(list);
	return e;
}

static enum err sink_put(void *arg, const void *bytes, size_t n, struct why *why)
{
	struct work *k = arg;
	const uint8_t *at = bytes;
	enum err e = ERR_OK;
	while (!e && n) {
		size_t want = (size_t)pieces_bytes(k->pieces, k->at) - k->len;
		want = want < n ? want : n;
		memcpy(k->bytes + k->len, at, want);
		k->len += want;
		at += want;
		n -= want;
		if (k->len < pieces_bytes(k->pieces, k->at))
			break;
		e = put_piece(k, k->at++, k->bytes, k->len, why);
		k->len = 0;
	}
	fetch_jobs_progress(
		k->jobs, k->wanted->job, pieces_have(k->pieces) + k->len, k->wanted->size);
	return e;
}

/* Bytes of this piece that came before the line was cut. */
static size_t partial(const struct work *k, size_t piece)
{
	return hash_equal(&k->jobs->partial_of, &k->hashes[piece]) ? k->jobs->partial_len : 0;
}

/* Each stretch of missing pieces by one request. */
static enum err pieces_from_coordinator(struct work *k, struct why *why)
{
	const size_t n = pieces_count(k->pieces);
	char path[96];
	enum err e = ERR_OK;
	fetch_jobs_blob_url(&k->wanted->name, path);
	if (!k->jobs->partial)
		k->jobs->partial = alloc_must(OBJECT_PIECE);
	k->bytes = k->jobs->partial;
	for (size_t i = 0, end; !e && i < n; i = end + 1) {
		for (end = i; end < n && !pieces_here(k->pieces, end);)
			end++;
		const size_t begun = end > i ? partial(k, i) : 0;
		struct https_client_sink sink = {.arg = k,
			.have = (uint64_t)i * OBJECT_PIECE + begun,
			.size = k->wanted->size,
			.stop = end < n ? (uint64_t)end * OBJECT_PIECE : k->wanted->size,
			.put = sink_put};
		if (end == i)
			continue;
		k->at = i;
		k->len = begun;
		e = https_client_download(k->jobs->client, path, &sink, why);
		k->jobs->partial_len = k->len;
		if (k->len)
			k->jobs->partial_of = k->hashes[k->at];
	}
	return e;
}

/* The whole is looked at once more: its name is what the run goes by. */
static enum err adopt(const struct fetch_wanted *w, const char *path, struct why *why)
{
	struct hash name;
	enum err e = blob_adopt(w->store, path, &name, why);
	if (e || hash_equal(&name, &w->name))
		return e;
	return err_why(why, ERR_hash, "the pieces of a snapshot do not make up that snapshot");
}

enum err fetch_pieces_blob(struct fetch_jobs *j, const struct fetch_wanted *w,
	const struct hash *hashes, const char *path, struct take_outcome *from_peers,
	struct why *why)
{
	struct work k = {.jobs = j, .wanted = w, .hashes = hashes};
	enum err e = fetch_jobs_check_stop(j, why);
	if (e || (blob_has(w->store, &w->name) && !blob_verify(w->store, &w->name, why)))
		return e;
	e = pieces_open(path, w->size, hashes, &k.pieces, why);
	if (e)
		return e;
	if (pieces_have(k.pieces))
		log_at(peer, 1, "%.2f of %.2f MB of the snapshot are here already",
			(double)pieces_have(k.pieces) / 1e6, (double)w->size / 1e6);
	if (w->size - pieces_have(k.pieces) >= WORTH)
		e = pieces_from_peers(&k, from_peers, why);
	if (!e)
		e = pieces_from_coordinator(&k, why);
	pieces_close(k.pieces);
	return e ? e : adopt(w, path, why);
}

/* ---- records */

struct records {
	struct fetch_record *at;
	uint64_t have, size;
	struct fetch_jobs *jobs;
};

static enum err put_record(void *arg, size_t piece, const uint8_t *bytes, size_t n, struct why *why)
{
	struct records *s = arg;
	struct fetch_record *r = &s->at[piece];
	struct hash is = hash_of(bytes, n);
	if (!hash_equal(&is, &r->name))
		return err_why(why, ERR_hash, "a ledger entry's record is not what its name says");
	r->bytes = memcpy(alloc_must(n), bytes, n);
	s->have += n;
	fetch_jobs_progress(s->jobs, FETCH_records, s->have, s->size);
	return ERR_OK;
}

enum err fetch_pieces_records(struct fetch_jobs *j, struct fetch_record *records, size_t n,
	struct take_outcome *from_peers, struct why *why)
{
	struct records s = {.at = records, .jobs = j};
	struct take_piece *list = alloc_must_zero(n + 1, sizeof *list);
	struct hash *names = alloc_must_zero(n + 1, sizeof *names);
	for (size_t i = 0; i < n; i++) {
		names[i] = records[i].name;
		list[i] = (struct take_piece){.blob = (uint32_t)i, .bytes = records[i].size};
		s.size += records[i].size;
	}
	struct take t = {.blobs = names,
		.n_blobs = (uint32_t)n,
		.pieces = list,
		.n_pieces = n,
		.put = put_record,
		.arg = &s};
	enum err e = s.size >= WORTH ? take(j, &t, from_peers, why) : ERR_OK;
	free(list);
	free(names);
	return e;
}
