/* The way to the head of the ledger: which records are here, which are asked for, and of whom. */
#include "base/clock.h"
#include "peer/member_parts.h"
#include "round/object.h"

/* A head has come and its records do not: after so long without a sign of them they are fetched. */
#define RECORDS_PATIENCE (10 * CLOCK_SECOND)
#define SOURCES_PATIENCE (3 * CLOCK_SECOND) /* where other members send them, who may be gone */
#define SIGN_BYTES_LEAST 65536u             /* received meanwhile: something large is on its way */
#define PIECE_RECORDS 16u                   /* as many are applied while the rest comes */
#define PIECE_BYTES (64ull << 20)

/* How far the records that are here lead: to the target, or as a large piece of the way there. */
static uint64_t next_stop(const struct member *m)
{
	uint64_t reach = inbox_reaches(&m->inbox, m->head.sequence);
	if (reach >= m->target.sequence)
		return m->target.sequence;
	if (m->inbox.n < PIECE_RECORDS && m->inbox.bytes < PIECE_BYTES)
		return m->head.sequence;
	return reach - (reach - m->head.sequence) % m->spec->model.n_shards;
}

/* Updates and entries come from other members, who may be gone. */
static bool no_source(const struct member *m)
{
	for (uint32_t i = 0; i < MEMBER_MESH; i++)
		if (m->mesh[i].used && m->mesh[i].follow && m->mesh[i].open)
			return false;
	return m->plan.n_sources > 0;
}

/* Only who follows the ledger is sent the records of a round, and as long as something comes they
 * may be on their way; the same for those that were asked for. */
static bool out_of_patience(struct member *m, uint64_t upto, uint64_t now)
{
	struct link_counters c;
	const uint64_t reach = inbox_reaches(&m->inbox, m->head.sequence);
	if (!m->wanted && (upto > reach + m->spec->model.n_shards || !m->target_since_ns))
		return true;
	if (!m->target_since_ns)
		m->target_since_ns = now;
	link_counters(m->link, &c);
	if (c.bytes_in - m->heard_bytes > SIGN_BYTES_LEAST) {
		m->heard_bytes = c.bytes_in;
		m->target_since_ns = now;
	}
	if (m->wanted || !m->plan.n_aggregators)
		return now - m->target_since_ns > RECORDS_PATIENCE;
	return no_source(m) || now - m->target_since_ns > SOURCES_PATIENCE;
}

/* Over the link, which is open, they come in one way and a half; by HTTPS each question costs a
 * round trip, and a connection that has rested begins slowly. */
static void want(struct member *m, uint64_t upto, uint64_t now)
{
	struct link_counters c;
	shoal_header h = {.which_body = MSG_want};
	h.body.want.kind = OBJECT_record;
	h.body.want.offset = inbox_reaches(&m->inbox, m->head.sequence);
	link_counters(m->link, &c);
	m->wanted = upto;
	m->heard_bytes = c.bytes_in;
	m->target_since_ns = now;
	link_send(m->link, m->curve, &h, NULL);
	member_log(m, 3, "asking for the records after ledger entry %llu",
		(unsigned long long)h.body.want.offset);
}

void member_catchup_want(struct member *m, uint64_t upto, uint64_t now)
{
	const uint64_t reach = inbox_reaches(&m->inbox, m->head.sequence);
	if (m->wanted && m->wanted <= reach) {
		m->wanted = 0;
		/* Where rounds do not overlap only who is at the head is sent the next ones. */
		if (!m->spec->round.overlap)
			m->target_since_ns = 0;
	}
	if (m->fetching || m->retry_set || !out_of_patience(m, upto, now))
		return;
	if (!m->wanted) {
		want(m, upto, now);
		return;
	}
	m->wanted = 0; /* they do not come */
	member_fetch(m, FETCH_records);
}

void member_catchup_go(struct member *m, uint64_t now)
{
	struct standing_record *records;
	size_t n;
	if (!member_update_leads(m)) {
		want(m, m->target.sequence, now);
		return;
	}
	if (!inbox_take(&m->inbox, m->head.sequence, next_stop(m), &records, &n)) {
		member_catchup_want(m, m->target.sequence, now);
		return;
	}
	if (!m->spec->round.overlap)
		worker_abandon(m->worker);
	member_send_end(m);
	m->applying = true;
	worker_apply(m->worker, records, n, &m->target, m->roster);
}
