#include "net/visitor.h"
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"

#define CHAINS 1024u
#define VISITORS_MOST 8192u

struct visitors {
	struct visitor *chain[CHAINS];
	struct visitor others; // all that the table has no room for
	uint64_t seed;         // so that nobody can choose addresses of one chain
	uint64_t forget_ns;
	uint32_t per_s, burst, count;
};

struct visitors *visitor_table(uint32_t per_s, uint32_t burst)
{
	struct visitors *t = alloc_must_zero(1, sizeof *t);
	t->per_s = per_s;
	t->burst = burst;
	t->forget_ns = (burst / per_s + 60) * CLOCK_SECOND;
	rng_secret(&t->seed, sizeof t->seed);
	bucket_init(&t->others.bucket, per_s, burst);
	return t;
}

void visitor_free(struct visitors *t)
{
	for (uint32_t i = 0; t && i < CHAINS; i++)
		for (struct visitor *v = t->chain[i], *next; v; v = next) {
			next = v->next;
			free(v);
		}
	free(t);
}

static void key_of(const struct sockaddr *address, uint8_t key[static 16])
{
	memset(key, 0, 16);
	if (address->sa_family == AF_INET) {
		struct sockaddr_in in;
		memcpy(&in, address, sizeof in);
		key[10] = key[11] = 0xff;
		memcpy(key + 12, &in.sin_addr, 4);
	} else if (address->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;
		memcpy(&in6, address, sizeof in6);
		// An IPv4 address in IPv6 form counts whole.
		memcpy(key, &in6.sin6_addr, IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) ? 16 : 8);
	}
}

struct visitor *visitor_find(struct visitors *t, const struct sockaddr *address, uint64_t now_ns)
{
	uint8_t key[16];
	uint64_t half[2];
	key_of(address, key);
	memcpy(half, key, sizeof half);
	struct visitor **chain = &t->chain[rng_u32(t->seed, half[0], half[1]) % CHAINS];
	struct visitor *v = *chain;
	while (v && memcmp(v->key, key, sizeof key) != 0)
		v = v->next;
	if (!v && t->count >= VISITORS_MOST)
		return &t->others;
	if (!v) {
		v = alloc_must_zero(1, sizeof *v);
		memcpy(v->key, key, sizeof key);
		bucket_init(&v->bucket, t->per_s, t->burst);
		v->next = *chain;
		*chain = v;
		t->count++;
	}
	v->seen_ns = now_ns;
	return v;
}

void visitor_tick(struct visitors *t, uint64_t now_ns)
{
	for (uint32_t i = 0; i < CHAINS; i++)
		for (struct visitor **at = &t->chain[i]; *at;) {
			struct visitor *v = *at;
			if (v->connections > 0 || now_ns - v->seen_ns < t->forget_ns) {
				at = &v->next;
				continue;
			}
			*at = v->next;
			free(v);
			t->count--;
		}
}
