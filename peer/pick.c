#include "peer/pick.h"
#include <math.h>
#include "base/clock.h"

static bool keeps(const struct pick_peer *peer, uint32_t blob)
{
	return peer->open && peer->keeps[blob];
}

static size_t keepers(const struct pick *p, uint32_t blob)
{
	size_t n = 0;
	for (size_t i = 0; i < p->n_peers; i++)
		n += keeps(&p->peers[i], blob);
	return n;
}

/* Seconds until this peer would have sent so much more. */
static double until(const struct pick_peer *peer, uint64_t bytes)
{
	double rtt = clock_seconds(peer->rtt_ns);
	return peer->rate > 0 ? rtt + (double)(peer->asked_bytes + bytes) / peer->rate : rtt;
}

/* Seconds until the others would be through with all that nobody was asked for yet. */
static double others_until(const struct pick *p, size_t without, uint32_t blob, uint64_t missing)
{
	double bytes = (double)missing, rate = 0;
	for (size_t i = 0; i < p->n_peers; i++) {
		const struct pick_peer *other = &p->peers[i];
		if (i == without || !keeps(other, blob) || !(other->rate > 0))
			continue;
		bytes += (double)other->asked_bytes;
		rate += other->rate;
	}
	return rate > 0 ? bytes / rate : HUGE_VAL;
}

/* The peer to ask for this piece; n_peers: none now. */
static size_t nearest(const struct pick *p, const struct pick_piece *piece, uint64_t missing)
{
	size_t best = p->n_peers, soonest = p->n_peers;
	double best_s = HUGE_VAL, soonest_s = HUGE_VAL;
	for (size_t i = 0; i < p->n_peers; i++) {
		const struct pick_peer *peer = &p->peers[i];
		if (!keeps(peer, piece->blob))
			continue;
		double s = until(peer, piece->bytes);
		if (s < soonest_s)
			soonest = i, soonest_s = s;
		if (peer->asked < p->asked_most && s < best_s)
			best = i, best_s = s;
	}
	if (best == soonest || best == p->n_peers)
		return best;
	return best_s <= others_until(p, best, piece->blob, missing) ? best : p->n_peers;
}

bool pick_next(const struct pick *p, struct pick_choice *out)
{
	uint64_t missing = 0;
	size_t fewest = SIZE_MAX;
	for (size_t i = 0; i < p->n_pieces; i++)
		missing += p->pieces[i].taken ? 0 : p->pieces[i].bytes;
	for (size_t i = 0; i < p->n_pieces; i++) {
		const struct pick_piece *piece = &p->pieces[i];
		size_t n = piece->taken ? 0 : keepers(p, piece->blob);
		if (!n || n >= fewest)
			continue;
		size_t peer = nearest(p, piece, missing);
		if (peer == p->n_peers)
			continue;
		fewest = n;
		*out = (struct pick_choice){i, peer};
	}
	return fewest != SIZE_MAX;
}
