/*
 * The ring.  Each bucket is cut into one chunk per rank; in step s rank r sends chunk r - s of
 * every bucket to the next one and receives chunk r - 1 - s, which is what it will send in step s
 * + 1.  So its outgoing stream is its own first chunks, then the incoming stream with its own
 * values added (first half: reduce-scatter) or as it came (second half: all-gather), and each value
 * can leave as soon as it has arrived.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "model/half.h"
#include "tests/help_reduce.h"
#include "tests/help_reduce_in.h"

#define BLOCK ((size_t)1 << 16)
/* The longest that nothing may come: a rank may be looking at the validation loss. */
#define SILENCE (600 * CLOCK_SECOND)

size_t help_reduce_cut(
	float *values, uint64_t n, uint64_t first, uint64_t most, struct help_reduce_bucket *out)
{
	size_t made = 0;
	for (uint64_t left = n, size = first; left > 0; size = most, made++) {
		uint64_t now = left < size ? left : size;
		left -= now;
		if (out)
			out[made] = (struct help_reduce_bucket){values + left, now};
	}
	return made;
}

/* Where a stream is, in values. */
struct cursor {
	unsigned first, step; /* the chunk of step 0 */
	size_t bucket;
	uint64_t at; /* in the chunk */
};

struct job {
	struct help_reduce_ring *ring;
	const struct help_reduce_bucket *buckets;
	size_t n_buckets;
	struct cursor out, in;
	uint64_t ready;      /* values that may be sent and are not in out_bytes yet */
	uint64_t in_missing; /* bytes of the incoming stream that were not received */
	uint8_t out_bytes[BLOCK], in_bytes[BLOCK];
	size_t out_begin, out_len, in_len;
};

static unsigned steps(const struct help_reduce_ring *r)
{
	return 2 * (r->place.world - 1);
}

static size_t width(const struct help_reduce_ring *r)
{
	return r->place.wire == HELP_REDUCE_bf16 ? sizeof(uint16_t) : sizeof(float);
}

/* The next values of the stream, at most so many and all of one chunk; none at its end.  Until the
 * next call the cursor's step is theirs. */
static struct help_reduce_bucket next_run(const struct job *j, struct cursor *c, uint64_t most)
{
	const unsigned world = j->ring->place.world;
	while (c->step < steps(j->ring) && most > 0) {
		const struct help_reduce_bucket *b = &j->buckets[c->bucket];
		unsigned chunk = (c->first + 2 * world - c->step) % world;
		uint64_t begin = b->n * chunk / world + c->at, end = b->n * (chunk + 1) / world;
		if (begin < end) {
			uint64_t n = end - begin < most ? end - begin : most;
			c->at += n;
			return (struct help_reduce_bucket){b->values + begin, n};
		}
		c->at = 0;
		c->bucket = (c->bucket + 1) % j->n_buckets;
		c->step += c->bucket == 0;
	}
	return (struct help_reduce_bucket){NULL, 0};
}

/* Values of the stream up to the end of this step's chunks. */
static uint64_t stream_length(const struct job *j, struct cursor c, unsigned end)
{
	uint64_t sum = 0;
	for (struct help_reduce_bucket b; (b = next_run(j, &c, UINT64_MAX)).n && c.step < end;)
		sum += b.n;
	return sum;
}

/* ---- to the next rank */

static void encode(const struct help_reduce_ring *r, const float *v, uint64_t n, uint8_t *to)
{
	if (r->place.wire == HELP_REDUCE_float32) {
		memcpy(to, v, n * sizeof *v);
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		uint16_t h = half_to_bf16(v[i]);
		memcpy(to + i * sizeof h, &h, sizeof h);
	}
}

static void fill(struct job *j)
{
	if (j->out_begin < j->out_len)
		return;
	j->out_begin = j->out_len = 0;
	for (;;) {
		uint64_t room = (BLOCK - j->out_len) / width(j->ring);
		struct help_reduce_bucket b =
			next_run(j, &j->out, room < j->ready ? room : j->ready);
		if (!b.n)
			return;
		encode(j->ring, b.values, b.n, j->out_bytes + j->out_len);
		j->out_len += b.n * width(j->ring);
		j->ready -= b.n;
	}
}

static enum err broken(const char *who, struct why *why)
{
	return err_why(why, errno == EPIPE || errno == ECONNRESET ? ERR_closed : ERR_network,
		"the connection with the %s rank broke (%s); look at what that one says", who,
		strerror(errno));
}

static enum err push(struct job *j, struct why *why)
{
	ssize_t n = send(j->ring->next, j->out_bytes + j->out_begin, j->out_len - j->out_begin,
		MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? ERR_OK : broken("next", why);
	j->out_begin += (size_t)n;
	j->ring->sent += (uint64_t)n;
	return ERR_OK;
}

/* ---- from the one before */

static float decoded(const struct help_reduce_ring *r, const uint8_t *at)
{
	float f;
	uint16_t h;
	if (r->place.wire == HELP_REDUCE_float32) {
		memcpy(&f, at, sizeof f);
		return f;
	}
	memcpy(&h, at, sizeof h);
	return half_from_bf16(h);
}

static void take(const struct job *j, struct help_reduce_bucket b, const uint8_t *at)
{
	const struct help_reduce_ring *r = j->ring;
	const unsigned last = r->place.world - 2; /* step in which the sums become whole */
	const float share = 1 / (float)r->place.world;
	for (uint64_t i = 0; i < b.n; i++, at += width(r)) {
		float v = decoded(r, at);
		if (j->in.step <= last)
			v += b.values[i];
		if (j->in.step == last)
			v *= share;
		/* What this rank keeps must be what the others will read. */
		if (j->in.step == last && r->place.wire == HELP_REDUCE_bf16)
			v = half_from_bf16(half_to_bf16(v));
		b.values[i] = v;
	}
}

static enum err pull(struct job *j, struct why *why)
{
	size_t room = BLOCK - j->in_len, used = 0;
	ssize_t n = recv(j->ring->prev, j->in_bytes + j->in_len,
		room < j->in_missing ? room : j->in_missing, MSG_DONTWAIT);
	if (n == 0)
		return err_why(why, ERR_closed,
			"the rank before has closed the connection; look at what it says");
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? ERR_OK : broken("previous", why);
	j->in_len += (size_t)n;
	j->in_missing -= (uint64_t)n;
	while (j->in_len - used >= width(j->ring)) {
		struct help_reduce_bucket b =
			next_run(j, &j->in, (j->in_len - used) / width(j->ring));
		take(j, b, j->in_bytes + used);
		used += b.n * width(j->ring);
		j->ready += b.n; /* of the last step too, which the outgoing stream has not */
	}
	j->in_len -= used;
	memmove(j->in_bytes, j->in_bytes + used, j->in_len);
	return ERR_OK;
}

/* ---- both */

static enum err turn(struct job *j, struct why *why)
{
	struct pollfd fds[2] = {
		{.fd = j->out_begin < j->out_len ? j->ring->next : -1, .events = POLLOUT},
		{.fd = j->in_missing ? j->ring->prev : -1, .events = POLLIN}};
	int n = poll(fds, 2, (int)(SILENCE / CLOCK_MS));
	if (n < 0)
		return errno == EINTR ? ERR_OK : broken("next", why);
	if (n == 0)
		return err_why(why, ERR_timeout,
			"nothing moved in the ring for %d minutes; see which rank has stopped",
			(int)(SILENCE / CLOCK_SECOND / 60));
	enum err e = fds[1].revents ? pull(j, why) : ERR_OK;
	return !e && fds[0].revents ? push(j, why) : e;
}

enum err help_reduce_mean(struct help_reduce_ring *r, const struct help_reduce_bucket *buckets,
	size_t n, struct why *why)
{
	struct job *j = alloc_must_zero(1, sizeof *j);
	j->ring = r;
	j->buckets = buckets;
	j->n_buckets = n;
	j->out.first = r->place.rank;
	j->in.first = (r->place.rank + r->place.world - 1) % r->place.world;
	j->ready = stream_length(j, j->out, 1);
	j->in_missing = stream_length(j, j->in, steps(r)) * width(r);
	enum err e = ERR_OK;
	while (!e) {
		fill(j);
		if (j->out_begin == j->out_len && !j->in_missing)
			break;
		e = turn(j, why);
	}
	free(j);
	return e;
}

uint64_t help_reduce_sent(const struct help_reduce_ring *r)
{
	return r->sent;
}
