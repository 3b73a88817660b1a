/* What this peer keeps for others: filled as the ledger goes on, given to who asks. */
#include <string.h>
#include "peer/member_parts.h"
#include "peer/shelf.h"

static void ask_router(struct member *m)
{
	struct why why;
	struct portmap_config how;
	portmap_config_init(&how);
	how.results = m->mail;
	how.port = give_port(m->give);
	if (portmap_new(&how, &m->portmap, &why))
		member_warn(m, "%s", why.text);
}

/* Those that are staged are not on the shelf's chain yet, so strays would go with them: the shelf
 * is opened before anything comes in. */
void member_shelf_open(struct member *m)
{
	struct why why;
	if (shelf_open(m->config->dir, m->spec, &m->shelf, &why))
		member_warn(m, "this peer keeps nothing for others: %s", why.text);
	if (!m->config->listen)
		return;
	const struct give_config how = {.identity = m->config->identity,
		.traffic = m->config->traffic,
		.run = m->spec->id,
		.member = m->number,
		.address = m->config->listen,
		.later = m->config->upnp,
		.rate = m->config->give,
		.contribution_most = member_aggregate_most(m),
		.owner = m,
		.contribution = member_aggregate_contribution,
		.bundle = member_aggregate_bundle};
	if (give_open(&how, &m->give, &why)) {
		member_fail(m, &why);
		return;
	}
	give_roster(m->give, m->roster);
	const char *address = give_address(m->give);
	member_log(m, 1, "giving to other peers at %s%s, at most %.1f MB/s", address,
		*address ? "" : "an address that the router is asked for", (double)how.rate / 1e6);
	if (m->config->upnp)
		ask_router(m);
}

/* Said anew on a connection of its own: the coordinator hears of addresses by hellos alone. */
static void announce(struct member *m, const char *address)
{
	give_announce(m->give, address);
	m->alone_ns = 0;
	m->alone_said = false;
	if (m->link)
		member_hello(m, true);
}

void member_shelf_reach(struct member *m, const struct portmap_result *r)
{
	const char *before = give_address(m->give);
	if (r->mapped) {
		member_log(m, 1, "the router passes connections to %s on to this peer", r->address);
		if (strcmp(before, r->address) != 0)
			announce(m, r->address);
		m->reached_by_router = true;
		return;
	}
	member_warn(m, "%s; training goes on without it", r->why.text);
	if (m->reached_by_router)
		announce(m, NULL);
	m->reached_by_router = false;
}

void member_shelf_document(
	struct member *m, const struct link_event *e, const struct ledger_head *head)
{
	if (!m->shelf)
		return;
	if (head)
		shelf_head(m->shelf, head, e->payload, e->payload_len);
	else
		shelf_roster(m->shelf, e->payload, e->payload_len);
}

void member_shelf_record(struct member *m, const void *bytes, size_t n)
{
	if (m->shelf)
		shelf_record(m->shelf, bytes, n);
}

static void ask_chain(struct member *m)
{
	shoal_header h = {.which_body = MSG_want};
	h.body.want.kind = OBJECT_chain;
	if (m->link && m->linked && shelf_gap(m->shelf, &h.body.want.offset))
		link_send(m->link, m->curve, &h, NULL);
}

void member_shelf_reached(struct member *m)
{
	if (!m->shelf)
		return;
	for (uint32_t i = 0; i < m->plan.n_spans; i++)
		shelf_taken(m->shelf, m->plan.spans[i].last);
	shelf_reached(m->shelf, &m->head);
	ask_chain(m);
}

void member_shelf_chain(struct member *m, const struct link_event *e)
{
	link_answer(m->link, e->key, e->ref, ERR_OK, NULL);
	if (!m->shelf)
		return;
	uint64_t before = 0, after = 0;
	(void)shelf_gap(m->shelf, &before);
	shelf_chain(m->shelf, e->payload, e->payload_len);
	if (shelf_gap(m->shelf, &after) && after > before)
		ask_chain(m);
}

void member_shelf_want(struct member *m, const struct link_event *e)
{
	struct shelf_object o = {0};
	struct why why = {0};
	enum err err = m->shelf ? shelf_give(m->shelf, &e->header.body.want, &o, &why)
				: err_why(&why, ERR_missing, "this peer keeps nothing for others");
	if (err) {
		shoal_header h = msg_refusal(MSG_want, err, why.text);
		link_send(m->link, e->key, &h, NULL);
		return;
	}
	const struct link_object object = {.kind = e->header.body.want.kind,
		.bytes = o.bytes,
		.meta = o.meta,
		.meta_len = o.meta_len};
	(void)link_push(m->link, e->key, &object);
	shared_drop(o.bytes);
}
