/* The emulator's home router: what passes is changed rightly, checksums included; what nobody asked
 * for does not pass; no packet makes it read or write beyond its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "tests/wan/nat.h"

#define ROUTER 0x0a4d00c8u
#define HOME 0x0a4d0002u
#define WORLD 0x0a4d0001u
#define HEAD 20u

struct bytes {
	uint8_t at[128];
	size_t len;
};

struct ends {
	uint32_t from, to;
	uint16_t from_port, to_port;
};

static void put(uint8_t *at, uint32_t value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)(value >> 8 * (n - 1 - i));
}

static uint32_t get(const uint8_t *at, size_t n)
{
	uint32_t value = 0;
	for (size_t i = 0; i < n; i++)
		value = value << 8 | at[i];
	return value;
}

/* Big-endian words added up, as RFC 1071 has it; 0xffff over what holds its own checksum. */
static uint32_t sum(uint32_t from, const uint8_t *at, size_t n)
{
	for (size_t i = 0; i < n; i += 2)
		from += (uint32_t)at[i] << 8 | (i + 1 < n ? at[i + 1] : 0u);
	while (from >> 16)
		from = (from & 0xffff) + (from >> 16);
	return from;
}

static size_t sum_at(const struct bytes *p)
{
	return HEAD + (p->at[9] == IPPROTO_TCP ? 16 : 6);
}

/* Over the addresses, the protocol, the length, and all behind the head. */
static uint32_t sum_inside(const struct bytes *p)
{
	uint8_t pseudo[12] = {[9] = p->at[9], [11] = (uint8_t)(p->len - HEAD)};
	memcpy(pseudo, p->at + 12, 8);
	return sum(sum(0, pseudo, sizeof pseudo), p->at + HEAD, p->len - HEAD);
}

static struct bytes packet(uint8_t protocol, struct ends e, const char *text)
{
	const size_t ports = protocol == IPPROTO_TCP ? 20 : 8;
	struct bytes p = {.at = {0x45}, .len = HEAD + ports + strlen(text)};
	put(p.at + 2, (uint32_t)p.len, 2);
	p.at[8] = 64;
	p.at[9] = protocol;
	put(p.at + 12, e.from, 4);
	put(p.at + 16, e.to, 4);
	put(p.at + HEAD, e.from_port, 2);
	put(p.at + HEAD + 2, e.to_port, 2);
	put(p.at + HEAD + 4, protocol == IPPROTO_UDP ? (uint32_t)(p.len - HEAD) << 16 : 7, 4);
	memcpy(p.at + HEAD + ports, text, strlen(text));
	put(p.at + 10, ~sum(0, p.at, HEAD) & 0xffff, 2);
	put(p.at + sum_at(&p), ~sum_inside(&p) & 0xffff, 2);
	return p;
}

static struct ends ends_of(const struct bytes *p)
{
	return (struct ends){get(p->at + 12, 4), get(p->at + 16, 4), (uint16_t)get(p->at + HEAD, 2),
		(uint16_t)get(p->at + HEAD + 2, 2)};
}

static void is(const struct bytes *p, struct ends e)
{
	const struct ends got = ends_of(p);
	assert_int_equal(got.from, e.from);
	assert_int_equal(got.to, e.to);
	assert_int_equal(got.from_port, e.from_port);
	assert_int_equal(got.to_port, e.to_port);
	assert_int_equal(sum(0, p->at, HEAD), 0xffff);
	assert_int_equal(sum_inside(p), 0xffff);
}

static struct ends turned(struct ends e)
{
	return (struct ends){e.to, e.from, e.to_port, e.from_port};
}

static struct nat *router(void)
{
	struct nat *n = alloc_must_zero(1, sizeof *n);
	n->address = htonl(ROUTER);
	return n;
}

static bool out(struct nat *n, struct bytes *p)
{
	return nat_out(n, p->at, p->len);
}

static bool in(struct nat *n, struct bytes *p)
{
	return nat_in(n, p->at, p->len);
}

static bool answered(struct nat *n, uint8_t protocol, struct ends e)
{
	struct bytes p = packet(protocol, e, "answer");
	return in(n, &p);
}

static void there_and_back(uint8_t protocol, const char *text)
{
	struct nat *n = router();
	for (uint32_t i = 0; i < 3; i++) {
		const struct ends asked = {HOME + i, WORLD, 40000, 7434};
		struct bytes p = packet(protocol, asked, text);
		assert_true(out(n, &p));
		const struct ends sent = {
			ROUTER, WORLD, (uint16_t)(NAT_FIRST_PORT + i), asked.to_port};
		is(&p, sent);
		p = packet(protocol, turned(sent), text);
		assert_true(in(n, &p));
		is(&p, turned(asked));
		p = packet(protocol, asked, text); /* the same flow leaves from the same port */
		assert_true(out(n, &p));
		is(&p, sent);
	}
	free(n);
}

static void a_flow_goes_there_and_back(void **state)
{
	(void)state;
	there_and_back(IPPROTO_TCP, "even");
	there_and_back(IPPROTO_TCP, "odd");
	there_and_back(IPPROTO_UDP, "");
	there_and_back(IPPROTO_UDP, "an odd one");
}

/* Whatever the sum comes to: in UDP, zero says that there is none. */
static void every_checksum_is_right(void **state)
{
	(void)state;
	struct nat *n = router();
	for (uint32_t i = 0; i < 2 * 65536; i++) {
		const uint8_t protocol = i >> 16 ? IPPROTO_TCP : IPPROTO_UDP;
		const struct ends e = {HOME, WORLD, 40000, (uint16_t)i};
		struct bytes p = packet(protocol, e, "text");
		if (protocol == IPPROTO_UDP && !get(p.at + sum_at(&p), 2))
			put(p.at + sum_at(&p), 0xffff, 2);
		n->flow[0] = (struct nat_flow){0}; /* so that only to_port differs */
		assert_true(out(n, &p));
		assert_int_equal(sum(0, p.at, HEAD), 0xffff);
		assert_int_equal(sum_inside(&p), 0xffff);
		assert_true(protocol == IPPROTO_TCP || get(p.at + sum_at(&p), 2));
	}
	free(n);
}

static void no_checksum_stays_none(void **state)
{
	(void)state;
	struct nat *n = router();
	struct bytes p = packet(IPPROTO_UDP, (struct ends){HOME, WORLD, 40000, 53}, "text");
	put(p.at + sum_at(&p), 0, 2);
	assert_true(out(n, &p));
	assert_int_equal(get(p.at + sum_at(&p), 2), 0);
	free(n);
}

static void who_was_not_asked_does_not_pass(void **state)
{
	(void)state;
	struct nat *n = router();
	struct bytes p = packet(IPPROTO_TCP, (struct ends){HOME, WORLD, 40000, 7434}, "");
	assert_false(answered(n, IPPROTO_TCP, (struct ends){WORLD, ROUTER, 7434, NAT_FIRST_PORT}));
	assert_true(out(n, &p));
	const struct ends back = turned(ends_of(&p));
	assert_true(answered(n, IPPROTO_TCP, back));
	struct ends e = back;
	e.from++; /* another host, */
	assert_false(answered(n, IPPROTO_TCP, e));
	e = back;
	e.from_port++; /* another port of that host, */
	assert_false(answered(n, IPPROTO_TCP, e));
	assert_false(answered(n, IPPROTO_UDP, back));   /* another protocol, */
	for (uint32_t port = 0; port < 65536; port++) { /* another port of the router */
		e = back;
		e.to_port = (uint16_t)port;
		assert_int_equal(answered(n, IPPROTO_TCP, e), port == back.to_port);
	}
	free(n);
}

static void the_flow_that_rested_longest_makes_room(void **state)
{
	(void)state;
	struct nat *n = router();
	struct ends back[3];
	for (uint32_t i = 0; i <= NAT_FLOWS; i++) {
		struct bytes p = packet(
			IPPROTO_UDP, (struct ends){HOME, WORLD, (uint16_t)(1024 + i), 53}, "");
		assert_true(out(n, &p));
		if (i < 2)
			back[i] = turned(ends_of(&p));
		if (i == 1) /* the first is in use again */
			assert_true(answered(n, IPPROTO_UDP, back[0]));
		back[2] = turned(ends_of(&p));
	}
	assert_int_equal(back[2].to_port, back[1].to_port);
	assert_true(answered(n, IPPROTO_UDP, back[0]));
	struct bytes p = packet(IPPROTO_UDP, back[2], "");
	assert_true(in(n, &p));
	is(&p, (struct ends){WORLD, HOME, 53, 1024 + NAT_FLOWS});
	free(n);
}

/* In a block of just its size, for the address sanitizer.  A packet that does not pass stays as it
 * was. */
static bool tried(struct nat *n, const uint8_t *bytes, size_t len, bool from_inside)
{
	uint8_t *exact = alloc_must(len ? len : 1);
	memcpy(exact, bytes, len);
	const bool passed = from_inside ? nat_out(n, exact, len) : nat_in(n, exact, len);
	assert_true(passed || !memcmp(exact, bytes, len));
	free(exact);
	return passed;
}

static void what_is_cut_short_or_no_packet_does_not_pass(void **state)
{
	(void)state;
	struct nat *n = router();
	const struct ends e = {HOME, WORLD, 40000, 7434};
	for (int i = 0; i < 2; i++) {
		const struct bytes p = packet(i ? IPPROTO_TCP : IPPROTO_UDP, e, "");
		for (size_t len = 0; len <= p.len; len++)
			assert_int_equal(tried(n, p.at, len, true), len == p.len);
	}
	static const struct {
		size_t at;
		uint8_t value;
	} wrong[] = {
		{0, 0x65}, {0, 0x44}, {0, 0x4f}, {6, 0x20}, {6, 0x1f}, {7, 1}, {9, 1}, {9, 47}};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct bytes p = packet(IPPROTO_TCP, e, "");
		p.at[wrong[i].at] = wrong[i].value;
		assert_false(tried(n, p.at, p.len, true));
		assert_false(tried(n, p.at, p.len, false));
	}
	free(n);
}

static void no_packet_does_harm(void **state)
{
	(void)state;
	struct nat *n = router();
	uint64_t draws = 0;
	for (uint32_t i = 0; i < 200000; i++) {
		const struct ends e = {HOME, WORLD, (uint16_t)i, 7434};
		struct bytes p = packet(i & 1 ? IPPROTO_TCP : IPPROTO_UDP, e, "some text");
		for (uint64_t k = rng_below(1, 0, i, 4); k; k--, draws++)
			p.at[rng_below(1, 1, draws, HEAD + 4)] = (uint8_t)rng_u32(1, 2, draws);
		(void)tried(n, p.at, rng_below(1, 3, i, p.len + 1), rng_u32(1, 4, i) & 1);
	}
	free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flow_goes_there_and_back),
		cmocka_unit_test(every_checksum_is_right),
		cmocka_unit_test(no_checksum_stays_none),
		cmocka_unit_test(who_was_not_asked_does_not_pass),
		cmocka_unit_test(the_flow_that_rested_longest_makes_room),
		cmocka_unit_test(what_is_cut_short_or_no_packet_does_not_pass),
		cmocka_unit_test(no_packet_does_harm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
