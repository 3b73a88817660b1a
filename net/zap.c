#include "net/zap.h"
#include "base/alloc.h"
#include "base/hash.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define FRAMES 7 // version, request id, domain, address, identity, mechanism, key
#define FRAME_MOST 255

struct zap {
	void *socket;
	uint8_t *keys; // sorted
	size_t n;
};

struct zap_request {
	struct {
		char data[FRAME_MOST + 1];
		size_t len;
	} frame[FRAMES];
	bool whole; // exactly so many frames, none too long
};

enum err zap_new(void *context, struct zap **out, struct why *why)
{
	struct zap *z = alloc_must_zero(1, sizeof *z);
	int zero = 0;
	*out = NULL;
	z->socket = zmq_socket(context, ZMQ_REP);
	if (!z->socket || zmq_setsockopt(z->socket, ZMQ_LINGER, &zero, sizeof zero) ||
		zmq_bind(z->socket, "inproc://zeromq.zap.01")) {
		enum err err = err_why(why, ERR_network, "the admission of links cannot start: %s",
			zmq_strerror(zmq_errno()));
		zap_free(z);
		return err;
	}
	*out = z;
	return ERR_OK;
}

void zap_free(struct zap *z)
{
	if (!z)
		return;
	if (z->socket)
		zmq_close(z->socket);
	free(z->keys);
	free(z);
}

void *zap_socket(const struct zap *z)
{
	return z->socket;
}

static int by_key(const void *a, const void *b)
{
	return memcmp(a, b, ZAP_KEY);
}

void zap_replace(struct zap *z, const uint8_t *keys, size_t n)
{
	free(z->keys);
	z->keys = NULL;
	z->n = n;
	if (!n)
		return;
	z->keys = memcpy(alloc_must_zero(n, ZAP_KEY), keys, n * ZAP_KEY);
	qsort(z->keys, n, ZAP_KEY, by_key);
}

bool zap_admits(const struct zap *z, const uint8_t key[static ZAP_KEY])
{
	return z->n && bsearch(key, z->keys, z->n, ZAP_KEY, by_key);
}

bool zap_user(const char *user_id, uint8_t key[static ZAP_KEY])
{
	struct hash h;
	if (!user_id || hash_parse(user_id, &h))
		return false;
	memcpy(key, h.b, ZAP_KEY);
	return true;
}

/* false: nothing waits. */
static bool receive(struct zap *z, struct zap_request *r)
{
	int more = 1;
	size_t size = sizeof more;
	*r = (struct zap_request){.whole = true};
	for (size_t i = 0; more; i++) {
		char spare[FRAME_MOST + 1];
		bool wanted = i < FRAMES;
		int n = zmq_recv(
			z->socket, wanted ? r->frame[i].data : spare, FRAME_MOST, ZMQ_DONTWAIT);
		if (n < 0)
			return false;
		if (wanted)
			r->frame[i].len = (size_t)n;
		if (zmq_getsockopt(z->socket, ZMQ_RCVMORE, &more, &size))
			return false;
		if (!wanted || n > FRAME_MOST || (!more && i != FRAMES - 1))
			r->whole = false;
	}
	return true;
}

static bool is(const struct zap_request *r, size_t frame, const char *text)
{
	return r->frame[frame].len == strlen(text) &&
	       memcmp(r->frame[frame].data, text, strlen(text)) == 0;
}

static void reply(struct zap *z, const struct zap_request *r, bool ok)
{
	struct hash h = {{0}};
	char user[HASH_HEX] = "";
	if (ok) {
		memcpy(h.b, r->frame[6].data, ZAP_KEY);
		hash_hex(&h, user);
	}
	// A reply that cannot be sent leaves the handshake to its time-out.
	(void)(zmq_send(z->socket, "1.0", 3, ZMQ_SNDMORE) < 0 ||
		zmq_send(z->socket, r->frame[1].data, r->frame[1].len, ZMQ_SNDMORE) < 0 ||
		zmq_send(z->socket, ok ? "200" : "400", 3, ZMQ_SNDMORE) < 0 ||
		zmq_send(z->socket, ok ? "OK" : "not on the roster", ok ? 2 : 17, ZMQ_SNDMORE) <
			0 ||
		zmq_send(z->socket, user, strlen(user), ZMQ_SNDMORE) < 0 ||
		zmq_send(z->socket, "", 0, 0) < 0);
}

void zap_serve(struct zap *z, uint64_t *admitted, uint64_t *refused)
{
	struct zap_request r;
	while (receive(z, &r)) {
		bool ok = r.whole && is(&r, 0, "1.0") && is(&r, 2, ZAP_DOMAIN) &&
			  is(&r, 5, "CURVE") && r.frame[6].len == ZAP_KEY &&
			  zap_admits(z, (const uint8_t *)r.frame[6].data);
		*(ok ? admitted : refused) += 1;
		reply(z, &r, ok);
	}
}
