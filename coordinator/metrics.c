#include "coordinator/metrics.h"
#include "base/clock.h"
#include "base/version.h"
#include "coordinator/feed.h"
#include "net/https_server.h"

#define NUMBER(v) ((double)(v))

#define WORD(name, moves) " " #name
#define STATES ROUNDS_LIST(WORD)

/* One row each: name, kind, help, value. */
#define METRICS_LIST(X) \
	X(ledger_tokens_total, counter, "tokens trained and accepted", \
		NUMBER(ledger_tokens(h->run.ledger))) \
	X(run_tokens, gauge, "tokens of the whole run", NUMBER(h->run.spec->train.total_tokens)) \
	X(rounds_closed_total, counter, "rounds closed", NUMBER(run_head(&h->run).round)) \
	X(ledger_entries_total, counter, "ledger entries", NUMBER(run_head(&h->run).sequence)) \
	X(state, gauge, "of the round machine, from 0:" STATES, \
		NUMBER(rounds_ask_state(h->rounds))) \
	X(paused, gauge, "1 while the operator holds the run", \
		NUMBER(rounds_ask_paused(h->rounds))) \
	X(round_seconds, gauge, "how long the open round has been open", \
		rounds_ask_state(h->rounds) == ROUNDS_open && \
				now > rounds_ask_opened_ns(h->rounds) \
			? clock_seconds(now - rounds_ask_opened_ns(h->rounds)) \
			: 0.0) \
	X(contribution_bytes_total, counter, "bytes of accepted contributions", \
		NUMBER(h->sum.bytes_up)) \
	X(record_bytes_total, counter, "bytes of records", NUMBER(h->sum.bytes_down)) \
	X(updates_merged_total, counter, "updates of a shard that went out as one merged vector", \
		NUMBER(h->sum.merged)) \
	X(refusals_total, counter, "what was refused", NUMBER(h->refusals)) \
	X(diverged_total, counter, "reports of another state than the ledger's", \
		NUMBER(h->diverged)) \
	X(pages, gauge, "pages that listen", NUMBER(feed_clients(h->feed))) \
	X(uptime_seconds, gauge, "since the process began", clock_seconds(now - h->start_ns))

static void head(struct buf *out, const char *name, const char *kind, const char *help)
{
	buf_printf(out, "# HELP shoal_%s %s\n# TYPE shoal_%s %s\n", name, help, name, kind);
}

static void one(struct buf *out, const char *name, const char *kind, const char *help, double v)
{
	head(out, name, kind, help);
	buf_printf(out, "shoal_%s %.17g\n", name, v);
}

static void print_members(const struct hub *h, struct buf *out)
{
	head(out, "members", "gauge", "members by state");
	for (int i = 0; i < MEMBER_STATES; i++)
		buf_printf(out, "shoal_members{state=\"%s\"} %u\n",
			memberstate_text((enum member_state)i),
			rounds_ask_count(h->rounds, (enum member_state)i));
	head(out, "member_tokens_total", "counter", "tokens accepted of a member");
	for (uint32_t i = 0; i < ledger_peers(h->run.ledger); i++) {
		struct ledger_account a = ledger_account(h->run.ledger, i);
		buf_printf(out, "shoal_member_tokens_total{member=\"%u\"} %llu\n", a.peer,
			(unsigned long long)a.tokens);
	}
	head(out, "member_tokens_per_second", "gauge", "speed of a member while it computes");
	for (uint32_t i = 0; i < rounds_ask_members(h->rounds); i++) {
		const struct rounds_member *m = rounds_ask_member(h->rounds, i);
		if (m && m->speed > 0)
			buf_printf(out, "shoal_member_tokens_per_second{member=\"%u\"} %.9g\n", i,
				m->speed);
	}
}

static void print_losses(const struct hub *h, struct buf *out)
{
	if (!h->have_loss)
		return;
	one(out, "validation_loss_nats_per_byte", "gauge", "newest validation loss",
		h->last_loss.nats_per_byte);
	one(out, "validation_round", "gauge", "round of the state it was measured on",
		NUMBER(h->last_loss.round));
}

static void print_egress(const struct hub *h, uint64_t now, struct buf *out)
{
	static const char *const kinds[] = {[EGRESS_control] = "control", [EGRESS_bulk] = "bulk"};
	struct egress_figures e;
	egress_figures(h->egress, now, &e);
	one(out, "egress_max_bits_per_second", "gauge", "as --max-up says; 0: no limit",
		NUMBER(e.max_bits_per_s));
	head(out, "egress_bits_per_second", "gauge", "sent over the last 10 s");
	for (int k = 0; k < 2; k++)
		buf_printf(out, "shoal_egress_bits_per_second{kind=\"%s\"} %.9g\n", kinds[k],
			e.bits_per_s[k]);
	head(out, "egress_bytes_total", "counter", "sent by links and HTTPS");
	for (int k = 0; k < 2; k++)
		buf_printf(out, "shoal_egress_bytes_total{kind=\"%s\"} %llu\n", kinds[k],
			(unsigned long long)e.bytes[k]);
}

/* Some grow and some do not: untyped, as the lists do not say which. */
static void print_planes(const struct hub *h, struct buf *out)
{
	struct link_counters l;
	struct https_server_counters s;
	link_counters(h->link, &l);
	https_server_counters(h->https, &s);
#define X(name, text) one(out, "link_" #name, "untyped", text, NUMBER(l.name));
	LINK_COUNTER_LIST(X)
#undef X
#define X(name, text) one(out, "https_" #name, "untyped", text, NUMBER(s.name));
	HTTPS_SERVER_COUNTER_LIST(X)
#undef X
}

void metrics_print(const struct hub *h, uint64_t now, struct buf *out)
{
	buf_printf(out,
		"# HELP shoal_build_info which build this is\n# TYPE shoal_build_info gauge\n"
		"shoal_build_info{version=\"%s\"} 1\n",
		version_text());
#define X(name, kind, help, value) one(out, #name, #kind, help, value);
	METRICS_LIST(X)
#undef X
	print_losses(h, out);
	print_members(h, out);
	print_egress(h, now, out);
	print_planes(h, out);
}
