#include "net/dial.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "net/backoff.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum dial_state { DIAL_waiting, DIAL_reaching, DIAL_shaking, DIAL_standing };

struct dial {
	const struct link_config *config;
	void *context;
	struct tunnel *tunnel; // NULL: no proxy
	uint32_t way;          // of this attempt, through it; 0: none
	char address[LINK_ADDRESS];
	uint8_t key[LINK_KEY];
	struct zsock z;
	enum dial_state state;
	uint64_t due_ns; // of the next attempt, or of giving this one up
	uint32_t attempt;
	struct backoff backoff;
};

struct dial *dial_new(const struct link_config *config, void *context, struct tunnel *tunnel,
	const char *address, const uint8_t key[static LINK_KEY])
{
	struct dial *d = alloc_must_zero(1, sizeof *d);
	d->config = config;
	d->context = context;
	d->tunnel = tunnel;
	snprintf(d->address, sizeof d->address, "%s", address);
	memcpy(d->key, key, LINK_KEY);
	backoff_init(&d->backoff, config->seed, config->retry_least_ns, config->retry_most_ns);
	return d;
}

static void hang_up(struct dial *d, uint64_t linger_ns)
{
	zsock_close(&d->z, linger_ns);
	if (d->way)
		tunnel_leave(d->tunnel, d->way);
	d->way = 0;
}

void dial_free(struct dial *d, uint64_t linger_ns)
{
	if (d)
		hang_up(d, linger_ns);
	free(d);
}

struct zsock *dial_socket(struct dial *d)
{
	return &d->z;
}

uint32_t dial_attempt(const struct dial *d)
{
	return d->attempt;
}

static enum dial_news start(struct dial *d, uint64_t now_ns, struct why *why)
{
	const struct link_config *c = d->config;
	struct zsock_options o = {c->public_key, c->secret_key, c->connect_ns};
	char endpoint[TUNNEL_ENDPOINT];
	struct zsock_target to = {d->address, d->tunnel ? endpoint : NULL, d->key};
	d->attempt++;
	d->due_ns = now_ns + c->connect_ns;
	d->state = DIAL_reaching;
	if (d->tunnel && tunnel_open(d->tunnel, d->address, &d->way, endpoint, why))
		return DIAL_failed;
	return zsock_connect(&d->z, d->context, &o, &to, why) ? DIAL_failed : DIAL_nothing;
}

static enum dial_news give_up(const struct dial *d, struct why *why)
{
	if (d->state == DIAL_reaching)
		err_why(why, ERR_timeout,
			"%s does not answer: it is off, the name or address is wrong, or a "
			"firewall drops the connection; that port must be open there, and from "
			"here",
			d->address);
	else
		err_why(why, ERR_timeout,
			"something listens at %s but does not speak CURVE: is it another program's "
			"port?",
			d->address);
	return DIAL_failed;
}

static enum dial_news ended(
	const struct dial *d, enum zsock_event event, uint64_t now_ns, struct why *why)
{
	// ZeroMQ counts the same time as we do, and may be the first to give up.
	if (d->state == DIAL_reaching && now_ns + d->config->connect_ns / 10 > d->due_ns)
		return give_up(d, why);
	if (event == ZSOCK_refused)
		err_why(why, ERR_unknown_peer,
			"%s does not admit this key: it is not on its roster (any more)",
			d->address);
	else if (d->state == DIAL_standing)
		err_why(why, ERR_network, "the connection to %s ended%s%s", d->address,
			d->way ? ", or that to the proxy " : "",
			d->way ? tunnel_proxy(d->tunnel)->shown : "");
	else if (d->state == DIAL_shaking && d->way)
		err_why(why, ERR_network,
			"the proxy %s opened the connection to %s, which was closed in the "
			"handshake: the proxy may let nothing but HTTPS through, or the port "
			"belongs to another program",
			tunnel_proxy(d->tunnel)->shown, d->address);
	else if (d->state == DIAL_shaking)
		err_why(why, ERR_network,
			"%s accepted the connection and closed it in the handshake: it has another "
			"key, or the port belongs to another program",
			d->address);
	else
		err_why(why, ERR_network,
			"no connection to %s: nothing listens there, the name is unknown, or the "
			"network or a firewall rejects it",
			d->address);
	return DIAL_failed;
}

/* The local end stands at once; the connection does when the proxy has opened it. */
static enum dial_news look_through(struct dial *d, struct why *why)
{
	switch (tunnel_look(d->tunnel, d->way, why)) {
	case TUNNEL_opening: return DIAL_nothing;
	case TUNNEL_failed: return DIAL_failed;
	case TUNNEL_standing:
	case TUNNEL_ended: d->state = DIAL_shaking; break;
	}
	return DIAL_nothing;
}

enum dial_news dial_turn(struct dial *d, uint64_t now_ns, struct why *why)
{
	if (d->state == DIAL_waiting)
		return now_ns < d->due_ns ? DIAL_nothing : start(d, now_ns, why);
	if (d->way && d->state == DIAL_reaching && look_through(d, why) == DIAL_failed)
		return DIAL_failed;
	int value;
	for (enum zsock_event e; (e = zsock_watch(&d->z, &value)) != ZSOCK_none;) {
		switch (e) {
		case ZSOCK_connected: d->state = d->way ? d->state : DIAL_shaking; break;
		case ZSOCK_up: d->state = DIAL_standing; return DIAL_up;
		case ZSOCK_refused:
		case ZSOCK_failed:
		case ZSOCK_gone:
		case ZSOCK_unreachable: return ended(d, e, now_ns, why);
		default: break;
		}
	}
	if (d->state != DIAL_standing && now_ns >= d->due_ns)
		return give_up(d, why);
	return DIAL_nothing;
}

void dial_settled(struct dial *d)
{
	backoff_reset(&d->backoff);
}

uint64_t dial_again(struct dial *d, uint64_t now_ns)
{
	uint64_t wait = backoff_next(&d->backoff);
	hang_up(d, 0);
	d->state = DIAL_waiting;
	d->due_ns = now_ns + wait;
	return wait;
}
