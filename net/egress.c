#include "net/egress.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "net/bucket.h"

#define BINS (EGRESS_WINDOW_S + 1) /* whole seconds, and the one that is not over */

struct egress {
	pthread_mutex_t lock; /* of all below */
	uint64_t max_bits_per_s;
	struct bucket bucket;
	uint64_t bytes[2];
	uint64_t bins[BINS][2];
	uint64_t first_s, at_s; /* the second of the first count, and of the newest bin */
};

struct egress *egress_new(uint64_t bits_per_s)
{
	struct egress *e = alloc_must_zero(1, sizeof *e);
	const uint64_t bytes_per_s = bits_per_s / 8 < UINT32_MAX ? bits_per_s / 8 : UINT32_MAX;
	const uint32_t per_s = bytes_per_s ? (uint32_t)bytes_per_s : 1;
	pthread_mutex_init(&e->lock, NULL);
	e->max_bits_per_s = bits_per_s;
	bucket_init(&e->bucket, per_s, (uint32_t)(per_s * EGRESS_BURST_S) + 1);
	return e;
}

void egress_free(struct egress *e)
{
	if (!e)
		return;
	pthread_mutex_destroy(&e->lock);
	free(e);
}

bool egress_is_bounded(const struct egress *e)
{
	return e && e->max_bits_per_s;
}

uint64_t egress_wait_ns(struct egress *e, uint64_t now_ns)
{
	if (!egress_is_bounded(e))
		return 0;
	pthread_mutex_lock(&e->lock);
	const uint64_t wait = bucket_wait_ns(&e->bucket, now_ns);
	pthread_mutex_unlock(&e->lock);
	return wait;
}

/* Seconds in which nothing went are empty bins. */
static void advance(struct egress *e, uint64_t now_ns)
{
	const uint64_t s = now_ns / CLOCK_SECOND;
	if (!e->first_s)
		e->first_s = e->at_s = s;
	if (s > e->at_s + BINS)
		e->at_s = s - BINS;
	while (e->at_s < s)
		memset(e->bins[++e->at_s % BINS], 0, sizeof e->bins[0]);
}

void egress_count(struct egress *e, enum egress_kind kind, size_t bytes, uint64_t now_ns)
{
	if (!e)
		return;
	pthread_mutex_lock(&e->lock);
	advance(e, now_ns);
	e->bytes[kind] += bytes;
	e->bins[e->at_s % BINS][kind] += bytes;
	if (e->max_bits_per_s)
		bucket_spend(&e->bucket, (double)bytes, EGRESS_OWED_S, now_ns);
	pthread_mutex_unlock(&e->lock);
}

size_t egress_piece(const struct egress *e, size_t most)
{
	size_t n = egress_is_bounded(e) ? (size_t)e->bucket.burst : most;
	n = n < EGRESS_PIECE_LEAST ? EGRESS_PIECE_LEAST : n;
	return n < most ? n : most;
}

void egress_figures(struct egress *e, uint64_t now_ns, struct egress_figures *out)
{
	*out = (struct egress_figures){.max_bits_per_s = e->max_bits_per_s};
	pthread_mutex_lock(&e->lock);
	advance(e, now_ns);
	const uint64_t been = e->at_s - e->first_s;
	const uint64_t whole = been < EGRESS_WINDOW_S ? been : EGRESS_WINDOW_S;
	for (int k = 0; k < 2; k++) {
		double sum = 0;
		for (uint64_t s = e->at_s - whole; s < e->at_s; s++)
			sum += (double)e->bins[s % BINS][k];
		out->bytes[k] = e->bytes[k];
		out->bits_per_s[k] = whole ? 8 * sum / (double)whole : 0;
	}
	pthread_mutex_unlock(&e->lock);
}
