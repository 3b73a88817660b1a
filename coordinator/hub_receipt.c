#include "coordinator/hub_receipt.h"
#include "coordinator/hub_gate.h"
#include "coordinator/hub_link.h"
#include "coordinator/hub_topology.h"

/* Told to whoever is to blame, and counted for it. */
static void refuse(struct hub *h, const struct hub_refused *r, const struct why *why)
{
	hub_refuse(h, r, why);
	if (hub_member(h, r->member)->linked)
		hub_link_refusal(h, r->member, r, why->code, why->text);
}

/* Whether this member takes that shard now, and can have what it says. */
static enum err check_aggregator(
	const struct hub *h, uint32_t number, const struct link_event *e, struct why *why)
{
	const shoal_receipt *r = &e->header.body.receipt;
	if (!h->announced || r->round != h->announced)
		return err_why(why, ERR_wrong_round,
			"a receipt of round %llu came, open is round %llu",
			(unsigned long long)r->round, (unsigned long long)h->announced);
	if (r->shard >= h->run.files.n_shards || hub_topology_aggregator(h, r->shard) != number)
		return err_why(why, ERR_refused,
			"member %u does not take contributions to shard %u in round %llu", number,
			r->shard, (unsigned long long)r->round);
	const size_t most = contribution_bound(&h->run.exchange.codec, h->run.files.n[r->shard]);
	if (r->bytes <= e->payload_len || r->bytes > most)
		return err_why(why, ERR_range,
			"a receipt claims %llu bytes of a contribution that has more than %zu and "
			"at most %zu",
			(unsigned long long)r->bytes, e->payload_len, most);
	return ERR_OK;
}

/* What an honest aggregator never passes on, whoever sent it. */
static enum err check_signed(
	struct hub *h, const struct link_event *e, struct contribution_view *v, struct why *why)
{
	const shoal_receipt *r = &e->header.body.receipt;
	enum err err = contribution_parse_statement(e->payload, e->payload_len, v, why);
	if (err)
		return err;
	const struct store_member *m = members_at(h->run.members, v->says.peer);
	if (!m)
		return err_why(why, ERR_unknown_peer,
			"a receipt names peer %u, who is not on the roster", v->says.peer);
	if (v->says.shard != r->shard || v->says.round != r->round)
		return err_why(why, ERR_shape,
			"a receipt of round %llu shard %u holds a statement on round %llu shard %u",
			(unsigned long long)r->round, r->shard, (unsigned long long)v->says.round,
			v->says.shard);
	return contribution_verify(v, m->sign, why);
}

static struct store_contribution row_of(
	uint32_t via, uint64_t bytes, const struct gate_passed *passed)
{
	const struct contribution *says = &passed->says;
	return (struct store_contribution){.shard = says->shard,
		.peer = says->peer,
		.round = says->round,
		.sequences = span_count(says->spans, says->n_spans),
		.bytes = bytes,
		.id = passed->id,
		.via = via,
		.tokens = says->tokens,
		.planes = says->planes};
}

static enum err take(struct hub *h, uint32_t number, const struct link_event *e,
	const struct contribution_view *v, uint64_t now, struct why *why)
{
	struct span spans[SPAN_MAX];
	struct gate_passed passed;
	enum err err = hub_gate_place(h, &v->says, why);
	if (err)
		return err;
	struct gate_expect expect = hub_gate_expect(h, v, spans);
	expect.assigned = spans;
	err = gate_statement(&expect, e->payload, e->payload_len, &passed, why);
	if (err == ERR_duplicate) /* also where the bytes are here: they stay here */
		return ERR_OK;
	if (err)
		return err;
	const struct store_contribution row = row_of(number, e->header.body.receipt.bytes, &passed);
	return hub_gate_keep(h, &row, now, why);
}

void hub_receipt(struct hub *h, uint32_t number, const struct link_event *e, uint64_t now)
{
	struct hub_refused r = {.what = "receipt",
		.member = number,
		.round = e->header.body.receipt.round,
		.shard = e->header.body.receipt.shard};
	struct contribution_view v;
	struct why why = {0};
	enum err err = check_aggregator(h, number, e, &why);
	if (!err)
		err = check_signed(h, e, &v, &why);
	if (err) {
		refuse(h, &r, &why);
		return;
	}
	if (!take(h, number, e, &v, now, &why))
		return;
	r.what = "contribution";
	r.member = v.says.peer;
	refuse(h, &r, &why);
}
