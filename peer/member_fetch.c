#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "peer/member_parts.h"
#include "round/record.h"

void member_fetch(struct member *m, enum fetch_job job)
{
	m->fetching++;
	m->retry_set = false;
	m->fetched[0] = 0;
	switch (job) {
	case FETCH_join: fetch_join(m->fetch); break;
	case FETCH_data: fetch_data(m->fetch); break;
	case FETCH_snapshot: fetch_snapshot(m->fetch); break;
	case FETCH_records:
		fetch_records(m->fetch, inbox_reaches(&m->inbox, m->head.sequence));
		break;
	case FETCH_forget:
	case FETCH_stop: break; /* have no result, and are no business of this file */
	}
}

static void on_joined(struct member *m, struct fetch_result *r)
{
	m->spec = r->spec;
	m->roster = r->roster;
	m->number = r->number;
	memcpy(m->curve, r->curve, sizeof m->curve);
	snprintf(m->address, sizeof m->address, "%s", r->address);
	r->spec = NULL;
	r->roster = NULL;
	m->joined = true;
	const uint32_t n = m->spec->model.n_shards;
	m->pushes = alloc_must_zero(n, sizeof *m->pushes);
	m->sent = alloc_must_zero(n, sizeof *m->sent);
	m->updates = alloc_must_zero(n, sizeof *m->updates);
	m->witness = alloc_must_zero(n, sizeof *m->witness);
	m->status.member = m->number;
	hash_hex(&m->spec->id, m->status.run);
	member_log(
		m, 1, "member %u of run \"%s\" (%.12s)", m->number, m->spec->name, m->status.run);
	member_fetch(m, FETCH_data);
}

/* Asked for again because there was no link: the coordinator may have other keys or another port,
 * which drops what was under way to the old ones; it is handed over again with the plan. */
static void on_found_again(struct member *m, struct fetch_result *r)
{
	member_roster(m, r->roster);
	r->roster = NULL;
	if (!memcmp(m->curve, r->curve, sizeof m->curve) && !strcmp(m->address, r->address))
		return;
	member_log(m, 1, "the coordinator has a new key or port; connecting to %s", r->address);
	member_send_end(m);
	member_mesh_end(m);
	link_forget(m->link, m->curve);
	memcpy(m->curve, r->curve, sizeof m->curve);
	snprintf(m->address, sizeof m->address, "%s", r->address);
	member_hello(m, true);
}

/* The fetch thread has verified what is there: opening it is quick. */
static void on_data(struct member *m)
{
	struct why why;
	enum err e = dataset_open(m->config->dir, m->spec, false, &m->data, &why);
	struct worker_config how = {.spec = m->spec,
		.corpus = m->data.corpus,
		.key = m->config->identity->sign,
		.member = m->number,
		.dir = m->config->dir,
		.backend = m->config->backend,
		.threads = m->config->threads,
		.share = m->config->share,
		.step_ns = m->config->step_ns,
		.memory = m->config->memory,
		.windows = m->config->windows,
		.results = m->mail};
	if (!e)
		e = worker_new(&how, &m->worker, &why);
	if (e) {
		member_fail(m, &why);
		return;
	}
	member_shelf_open(m);
	char device[200];
	worker_describe(m->worker, device, sizeof device);
	member_log(m, 1, "computing on %s", device);
	worker_start(m->worker, NULL, NULL);
}

/* Whole rounds that have come are applied as pieces, so there is always room for the next one. */
static void on_records(struct member *m, struct fetch_result *r, uint64_t now)
{
	const uint64_t before = inbox_reaches(&m->inbox, m->head.sequence);
	bool full = false;
	struct why why;
	member_roster(m, r->roster);
	r->roster = NULL;
	member_target(m, &r->head, now);
	m->ahead = false;
	for (size_t i = 0; i < r->n_records; i++) {
		struct record record;
		uint8_t *bytes = (uint8_t *)(uintptr_t)r->records[i].bytes;
		r->records[i].bytes = NULL;
		if (record_open(bytes, r->records[i].len, &record, &why)) {
			member_warn(m, "a ledger entry was passed over: %s", why.text);
			free(bytes);
			continue;
		}
		member_shelf_record(m, bytes, r->records[i].len);
		uint64_t sequence = record.entry.sequence;
		record_release(&record);
		full |= inbox_put(&m->inbox, sequence, bytes, r->records[i].len,
				m->head.sequence) == ERR_full;
	}
	const uint64_t reach = inbox_reaches(&m->inbox, m->head.sequence);
	m->target_since_ns = reach > before ? 0 : now; /* more may be there: ask at once */
	if (full && !m->applying && reach < m->head.sequence + m->spec->model.n_shards) {
		(void)err_why(&why, ERR_toobig,
			"the records of one round are larger than %llu MB, which is all that this "
			"peer holds: choose a codec that sends less",
			(unsigned long long)(m->inbox.bytes_most >> 20));
		member_fail(m, &why);
	}
}

void member_fetch_later(
	struct member *m, enum fetch_job job, uint64_t wait_ns, const struct why *why)
{
	char text[24];
	clock_text(wait_ns, text);
	m->retry = job;
	m->retry_set = true;
	m->retry_at_ns = clock_now_ns() + wait_ns;
	snprintf(m->retry_why, sizeof m->retry_why, "%.200s%s%s", why->text, MEMBER_NEXT_TRY, text);
}

static void on_failed(struct member *m, const struct fetch_result *r)
{
	if (r->for_good && !(r->job == FETCH_join && m->joined)) { /* a member goes on looking */
		member_fail(m, &r->why);
		return;
	}
	if (r->job == FETCH_records && r->why.code == ERR_missing) {
		member_repair(m, &r->why, false);
		return;
	}
	member_fetch_later(m, r->job, backoff_next(&m->backoff), &r->why);
}

void member_fetch_result(struct member *m, struct fetch_result *r, uint64_t now)
{
	const enum fetch_result_kind kind = (enum fetch_result_kind)r->mail.kind;
	if (kind == FETCH_result_progress) {
		snprintf(m->fetched, sizeof m->fetched, ": %.1f of %.1f MB", (double)r->done / 1e6,
			(double)r->total / 1e6);
		return;
	}
	m->fetching--;
	m->fetched[0] = 0;
	m->taken += r->from_peers.bytes;
	if (kind != FETCH_result_failed) {
		backoff_reset(&m->backoff);
		m->retry_why[0] = 0;
	}
	switch (kind) {
	case FETCH_result_joined: m->joined ? on_found_again(m, r) : on_joined(m, r); break;
	case FETCH_result_data: on_data(m); break;
	case FETCH_result_snapshot: worker_start(m->worker, r->path, &r->head); break;
	case FETCH_result_records: on_records(m, r, now); break;
	case FETCH_result_failed: on_failed(m, r); break;
	case FETCH_result_progress: break;
	}
}
