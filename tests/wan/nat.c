#include "tests/wan/nat.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>

/* Where the fields of a packet are; false: it is no whole TCP or UDP. */
struct where {
	uint8_t *ip, *ports, *sum; /* sum: NULL where there is none */
	uint8_t protocol;
};

static bool find(uint8_t *bytes, size_t len, struct where *w)
{
	const size_t head = len ? (bytes[0] & 15u) * 4u : 0;
	if (len < sizeof(struct iphdr) || bytes[0] >> 4 != 4 || head < sizeof(struct iphdr))
		return false;
	const bool fragment = (bytes[6] & 0x3f) || bytes[7];
	*w = (struct where){.ip = bytes, .ports = bytes + head, .protocol = bytes[9]};
	if (w->protocol == IPPROTO_TCP && len >= head + 20)
		w->sum = w->ports + 16;
	else if (w->protocol == IPPROTO_UDP && len >= head + 8)
		w->sum = w->ports[6] || w->ports[7] ? w->ports + 6 : NULL;
	else
		return false;
	return !fragment;
}

/* RFC 1624: HC' = ~(~HC + ~m + m'). */
static void adjust(uint8_t *sum, const uint8_t *was, const uint8_t *is, size_t n)
{
	uint32_t s = (uint16_t) ~(sum[0] << 8 | sum[1]);
	for (size_t i = 0; i < n; i += 2)
		s += (uint16_t) ~(was[i] << 8 | was[i + 1]) + (uint32_t)(is[i] << 8 | is[i + 1]);
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	s = ~s & 0xffff;
	sum[0] = (uint8_t)(s >> 8);
	sum[1] = (uint8_t)s;
}

/* at: 12 and 0 for the sender, 16 and 2 for the receiver. */
static void rewrite(struct where *w, size_t at, size_t port_at, uint32_t address, uint16_t port)
{
	uint8_t *a = w->ip + at, *p = w->ports + port_at;
	adjust(w->ip + 10, a, (const uint8_t *)&address, sizeof address);
	if (w->sum) {
		adjust(w->sum, a, (const uint8_t *)&address, sizeof address);
		adjust(w->sum, p, (const uint8_t *)&port, sizeof port);
		if (w->protocol == IPPROTO_UDP && !w->sum[0] && !w->sum[1])
			w->sum[0] = w->sum[1] =
				0xff; /* the same sum; zero says that there is none */
	}
	memcpy(a, &address, sizeof address);
	memcpy(p, &port, sizeof port);
}

static struct nat_flow read_flow(const struct where *w, bool out)
{
	struct nat_flow f = {.protocol = w->protocol};
	memcpy(out ? &f.inside : &f.outside, w->ip + 12, 4);
	memcpy(out ? &f.outside : &f.inside, w->ip + 16, 4);
	memcpy(out ? &f.inside_port : &f.outside_port, w->ports, 2);
	memcpy(out ? &f.outside_port : &f.inside_port, w->ports + 2, 2);
	return f;
}

static bool is_same(const struct nat_flow *a, const struct nat_flow *b)
{
	return a->used && a->inside == b->inside && a->outside == b->outside &&
	       a->inside_port == b->inside_port && a->outside_port == b->outside_port &&
	       a->protocol == b->protocol;
}

bool nat_out(struct nat *n, uint8_t *bytes, size_t len)
{
	struct where w;
	uint32_t i = 0, oldest = 0;
	if (!find(bytes, len, &w))
		return false;
	const struct nat_flow f = read_flow(&w, true);
	for (; i < NAT_FLOWS && !is_same(&n->flow[i], &f); i++)
		if (n->flow[i].used < n->flow[oldest].used)
			oldest = i;
	if (i == NAT_FLOWS)
		n->flow[i = oldest] = f;
	n->flow[i].used = ++n->turn;
	rewrite(&w, 12, 0, n->address, htons((uint16_t)(NAT_FIRST_PORT + i)));
	return true;
}

bool nat_in(struct nat *n, uint8_t *bytes, size_t len)
{
	struct where w;
	if (!find(bytes, len, &w))
		return false;
	const struct nat_flow f = read_flow(&w, false);
	const uint32_t i = ntohs(f.inside_port) - (uint32_t)NAT_FIRST_PORT;
	struct nat_flow *to = i < NAT_FLOWS ? &n->flow[i] : NULL;
	if (!to || !to->used || to->outside != f.outside || to->outside_port != f.outside_port ||
		to->protocol != f.protocol)
		return false;
	to->used = ++n->turn;
	rewrite(&w, 16, 2, to->inside, to->inside_port);
	return true;
}
