#include "coordinator/rebuild.h"
#include <errno.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/signal.h"
#include "coordinator/rebuild_parts.h"
#include "round/object.h"

#define BEAT_MS 200
#define ANSWER_MOST (30 * CLOCK_SECOND) /* for one answer of a peer */
#define IDLE_MOST (3600 * CLOCK_SECOND) /* without anything new from any peer */
#define LOOK_AGAIN CLOCK_SECOND         /* while peers still apply what they received */
#define RETRY (10 * CLOCK_SECOND)       /* when those who could give did not */

/* Why it waits, whenever that is another reason. */
static void PRINTF_LIKE(2, 3) say(struct rebuild *r, const char *fmt, ...)
{
	char text[sizeof r->said];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (!strcmp(text, r->said))
		return;
	memcpy(r->said, text, sizeof text);
	log_at(coord, 1, "rebuilding: %s", text);
}

static void stop(struct rebuild *r, const struct why *why)
{
	if (why)
		r->failed = *why;
	event_base_loopbreak(r->base);
}

/* ---- who is there */

void rebuild_roster(struct rebuild *r, struct roster *roster, char *text)
{
	if (r->roster && roster_version(roster) <= roster_version(r->roster)) {
		roster_free(roster);
		free(text);
		return;
	}
	roster_free(r->roster);
	free(r->roster_text);
	r->roster = roster;
	r->roster_text = text;
	size_t n = roster_count(roster), admitted = 0;
	uint8_t *keys = alloc_must((n + 1) * LINK_KEY);
	for (size_t i = 0; i < n; i++)
		if (!roster_at(roster, i)->removed)
			memcpy(keys + LINK_KEY * admitted++, roster_at(roster, i)->curve, LINK_KEY);
	link_admit(r->link, keys, admitted);
	free(keys);
	log_at(coord, 1, "rebuilding: the roster of version %llu has %zu members",
		(unsigned long long)roster_version(roster), n);
}

static struct rebuild_source *source_of(struct rebuild *r, const uint8_t *key)
{
	for (uint32_t i = 0; i < r->n_sources; i++)
		if (!memcmp(r->sources[i].key, key, LINK_KEY))
			return &r->sources[i];
	return NULL;
}

/* Nobody is asked any more; what came and is true stays. */
static void let_go(struct rebuild *r)
{
	blob_part_close(r->part);
	r->part = NULL;
	r->from = NULL;
	r->asked_ns = 0;
}

/* It is not asked again before it says anew what it keeps. */
static void give_up(struct rebuild *r, struct rebuild_source *s, const char *cause)
{
	log_at(coord, 1, "rebuilding: member %u does not help: %s", s->number, cause);
	s->bad = true;
	if (r->from == s)
		let_go(r);
}

static void want(struct rebuild *r, struct rebuild_source *s, const shoal_want *w)
{
	shoal_header h = {.which_body = MSG_want};
	h.body.want = *w;
	link_send(r->link, s->key, &h, NULL);
}

/* ---- what is next */

static bool all_in(const struct rebuild *r)
{
	uint32_t in = 0, members = 0;
	for (uint32_t i = 0; i < r->n_sources; i++)
		in += r->sources[i].listed;
	for (size_t i = 0; i < roster_count(r->roster); i++)
		members += !roster_at(r->roster, i)->removed;
	return in >= members;
}

/* A peer that was cut off in the middle of a round's end applies the rest once it is linked. */
static bool settled(const struct rebuild *r)
{
	for (uint32_t i = 0; i < r->n_sources; i++)
		if (r->sources[i].linked &&
			(!r->sources[i].listed ||
				r->sources[i].list.next > r->sources[i].list.head.sequence))
			return false;
	return all_in(r);
}

static void look_again(struct rebuild *r, uint64_t now)
{
	if (now - r->looked_ns < (r->settled ? RETRY : LOOK_AGAIN))
		return;
	r->looked_ns = now;
	for (uint32_t i = 0; i < r->n_sources; i++)
		if (r->sources[i].linked)
			want(r, &r->sources[i], &(shoal_want){.kind = OBJECT_shelf});
}

static uint64_t highest(const struct rebuild *r)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < r->n_sources; i++)
		if (r->sources[i].listed && r->sources[i].list.head.sequence > most)
			most = r->sources[i].list.head.sequence;
	return most;
}

static void drop_ledger(struct rebuild *r)
{
	for (size_t i = 0; i < r->n_entries; i++)
		free(r->entries[i].bytes);
	r->n_entries = 0;
	ledger_free(r->ledger);
	r->ledger = ledger_new(&r->config->spec->id, r->run.start, r->run.files.n_shards);
}

/* Only a peer that stands at the highest head will do: from a lower one the run would go on beside
 * what the run key has signed. */
static void pick(struct rebuild *r)
{
	const uint64_t most = highest(r);
	bool tried = false;
	for (uint32_t i = 0; !r->from && i < r->n_sources; i++) {
		struct rebuild_source *s = &r->sources[i];
		if (!s->listed || !s->linked || s->list.head.sequence != most)
			continue;
		tried |= s->bad;
		if (s->bad)
			continue;
		if (!rebuild_list_choose(&s->list, &r->snapshot, &r->first_record))
			give_up(r, s, "it has no snapshot with all records after it");
		else
			r->from = s;
	}
	if (r->from)
		say(r, "entry %llu of the ledger is the head; fetching it from member %u",
			(unsigned long long)most, r->from->number);
	else if (tried)
		say(r, "no peer at ledger entry %llu could give all: waiting for another one",
			(unsigned long long)most);
	else
		say(r, "waiting for a peer that stands at ledger entry %llu",
			(unsigned long long)most);
}

/* The blob that is missing next: the snapshot, then records in order; false: all are there. */
static bool next_blob(const struct rebuild *r, struct rebuild_blob *out)
{
	const struct rebuild_list *l = &r->from->list;
	*out = (struct rebuild_blob){0, r->snapshot.bytes, r->snapshot.blob};
	if (!blob_has(r->run.blobs, &out->name))
		return true;
	const size_t n = (size_t)(l->head.sequence - r->snapshot.sequence);
	for (size_t i = 0; i < n; i++) {
		*out = l->records[r->first_record + i];
		if (!blob_has(r->run.blobs, &out->name))
			return true;
	}
	return false;
}

static void finish(struct rebuild *r)
{
	struct why why = {0};
	say(r, "all is here; computing every state again from the snapshot");
	if (rebuild_write(r, &why)) {
		stop(r, &why);
		return;
	}
	r->done = true;
	stop(r, NULL);
}

static void ask_blob(struct rebuild *r, const struct rebuild_blob *b, uint64_t now)
{
	struct why why = {0};
	shoal_want w = {.kind = OBJECT_piece};
	memcpy(w.name, b->name.b, sizeof w.name);
	if (!r->part && blob_part_open(r->run.blobs, &b->name, b->bytes, &r->part, &why)) {
		stop(r, &why); /* our disk, not the peer */
		return;
	}
	w.offset = blob_part_have(r->part);
	if (w.offset == b->bytes) { /* left whole by an earlier try */
		enum err err = blob_part_commit(r->part, &why);
		r->part = NULL;
		if (err)
			give_up(r, r->from, why.text);
		return;
	}
	want(r, r->from, &w);
	r->asked_ns = now;
}

static void ask(struct rebuild *r, uint64_t now)
{
	const struct ledger_head at = ledger_at(r->ledger), to = r->from->list.head;
	struct hash hash;
	struct rebuild_blob blob;
	if (at.sequence < to.sequence) {
		want(r, r->from, &(shoal_want){.kind = OBJECT_chain, .offset = at.sequence});
		r->asked_ns = now;
		return;
	}
	if (at.sequence != to.sequence || !hash_equal(&at.hash, &to.hash)) {
		give_up(r, r->from, "its entries do not lead to the signed head");
		drop_ledger(r);
	} else if (!ledger_hash_at(r->ledger, r->snapshot.sequence, &hash) ||
		   !hash_equal(&hash, &r->snapshot.head) ||
		   r->snapshot.sequence != r->snapshot.round * r->run.files.n_shards) {
		give_up(r, r->from, "its snapshot is of another ledger");
	} else if (next_blob(r, &blob)) {
		ask_blob(r, &blob, now);
	} else {
		finish(r);
	}
}

static bool idle(const struct rebuild *r, uint64_t now)
{
	return now - r->idle_ns > IDLE_MOST + r->config->wait_ns;
}

static void advance(struct rebuild *r, uint64_t now)
{
	if (r->done || r->failed.code)
		return;
	if (idle(r, now)) {
		struct why why;
		(void)err_why(&why, ERR_timeout,
			"nothing new has come for an hour (%s): is this the address and the port "
			"of "
			"the run's join links, and do its peers run?",
			r->said);
		stop(r, &why);
		return;
	}
	if (r->from && r->asked_ns && now - r->asked_ns > ANSWER_MOST)
		give_up(r, r->from, "it does not answer");
	if (!r->first_ns) {
		say(r, "waiting for a first peer, on port %u", r->config->port);
		return;
	}
	if (!r->settled && !settled(r) && now - r->first_ns < r->config->wait_ns) {
		say(r, "waiting for peers whose ledger may be longer");
		look_again(r, now);
		return;
	}
	r->settled = true;
	if (!r->from)
		pick(r);
	if (!r->from)
		look_again(r, now);
	if (r->from && !r->asked_ns)
		ask(r, now);
}

/* ---- what the peers say */

static void on_hello(struct rebuild *r, const struct link_event *e)
{
	const struct roster_member *m = r->roster ? roster_by_curve(r->roster, e->key) : NULL;
	const shoal_hello *hello = &e->header.body.hello;
	if (!m || m->removed || memcmp(hello->run, r->config->spec->id.b, sizeof hello->run)) {
		shoal_header no = msg_refusal(MSG_hello, ERR_busy,
			"this run is being rebuilt, and this peer is not on the roster known so "
			"far");
		link_send(r->link, e->key, &no, NULL);
		return;
	}
	struct rebuild_source *s = source_of(r, e->key);
	if (!s) {
		ptrdiff_t from = r->from ? r->from - r->sources : -1;
		r->sources = alloc_must_resize(r->sources, r->n_sources + 1, sizeof *r->sources);
		r->from = from < 0 ? NULL : r->sources + from;
		s = &r->sources[r->n_sources++];
		*s = (struct rebuild_source){.number = m->number};
		memcpy(s->key, e->key, sizeof s->key);
	}
	s->linked = true;
	s->bad = false;
	shoal_header yes = {.which_body = MSG_welcome}, park = {.which_body = MSG_park};
	yes.body.welcome.number = m->number;
	snprintf(park.body.park.reason, sizeof park.body.park.reason,
		"the coordinator has lost its folder and rebuilds it from its peers");
	link_send(r->link, e->key, &yes, NULL);
	link_send(r->link, e->key, &park, NULL);
	want(r, s, &(shoal_want){.kind = OBJECT_shelf});
}

static void take_list(
	struct rebuild *r, struct rebuild_source *s, const struct link_event *e, uint64_t now)
{
	struct rebuild_list list;
	struct why why = {0};
	struct sign_public key = sign_public_of(r->config->key);
	if (rebuild_list_parse(
		    e->payload, e->payload_len, &r->config->spec->id, &key, &list, &why)) {
		give_up(r, s, why.text);
		return;
	}
	rebuild_list_release(&s->list);
	s->list = list;
	s->listed = true;
	s->bad = false;
	if (r->from && (r->from == s || /* its rows may have moved */
			       list.head.sequence > r->from->list.head.sequence))
		let_go(r);
	if (!r->first_ns)
		r->first_ns = r->idle_ns = now;
	log_at(coord, 2, "rebuilding: member %u stands at ledger entry %llu, round %llu", s->number,
		(unsigned long long)list.head.sequence, (unsigned long long)list.head.round);
}

static void take_chain(struct rebuild *r, struct rebuild_source *s, const struct link_event *e)
{
	const uint8_t *at = e->payload;
	size_t n = e->payload_len;
	struct why why = {0};
	enum err err = ERR_OK;
	while (!err && n && ledger_at(r->ledger).sequence < s->list.head.sequence) {
		struct ledger_entry entry = {0};
		size_t used = 0;
		err = ledger_entry_decode(at, n, &used, &entry, &why);
		if (!err)
			err = ledger_append(r->ledger, &entry, &why);
		ledger_entry_release(&entry);
		if (err)
			break;
		r->entries = alloc_must_resize(r->entries, r->n_entries + 1, sizeof *r->entries);
		r->entries[r->n_entries] = (struct rebuild_entry){alloc_must(used), used};
		memcpy(r->entries[r->n_entries++].bytes, at, used);
		at += used;
		n -= used;
	}
	if (err) {
		give_up(r, s, why.text);
		drop_ledger(r);
	}
}

static void take_piece(struct rebuild *r, struct rebuild_source *s, const struct link_event *e)
{
	struct rebuild_blob b;
	struct rd meta;
	struct hash name;
	struct why why = {0};
	rd_init(&meta, e->meta, e->meta_len);
	rd_copy(&meta, name.b, sizeof name.b);
	uint64_t offset = rd_u64(&meta);
	if (!r->part || !rd_ok(&meta) || !next_blob(r, &b) || !hash_equal(&name, &b.name) ||
		offset != blob_part_have(r->part))
		return; /* answers what is not asked any more */
	enum err err = blob_part_put(r->part, e->payload, e->payload_len, &why);
	if (!err && blob_part_have(r->part) == b.bytes) {
		err = blob_part_commit(r->part, &why);
		r->part = NULL;
	}
	if (err == ERR_hash || err == ERR_toobig)
		give_up(r, s, why.text);
	else if (err)
		stop(r, &why);
}

static void on_object(struct rebuild *r, const struct link_event *e, uint64_t now)
{
	struct rebuild_source *s = source_of(r, e->key);
	link_answer(r->link, e->key, e->ref, s ? ERR_OK : ERR_unknown_peer, NULL);
	if (!s)
		return;
	if (e->object_kind == OBJECT_shelf) {
		take_list(r, s, e, now);
		return;
	}
	if (r->from != s || !r->asked_ns)
		return;
	r->asked_ns = 0;
	r->idle_ns = now;
	if (e->object_kind == OBJECT_chain)
		take_chain(r, s, e);
	else
		take_piece(r, s, e);
}

static void on_event(struct rebuild *r, const struct link_event *e, uint64_t now)
{
	struct rebuild_source *s = source_of(r, e->key);
	switch ((enum link_event_kind)e->mail.kind) {
	case LINK_connected: on_hello(r, e); break;
	case LINK_object: on_object(r, e, now); break;
	case LINK_lost:
		if (s)
			s->linked = false;
		if (s && r->from == s)
			give_up(r, s, e->why.text);
		break;
	case LINK_message:
		if (s && e->header.which_body == MSG_refusal &&
			e->header.body.refusal.kind == MSG_want)
			give_up(r, s, e->header.body.refusal.text);
		if (s && e->header.which_body == MSG_bye)
			s->linked = false;
		break;
	default: break;
	}
}

static void on_mail(evutil_socket_t fd, short what, void *arg)
{
	struct rebuild *r = arg;
	struct mail *m;
	(void)fd;
	(void)what;
	while (!r->done && !r->failed.code && (m = mailbox_take(r->mail))) {
		on_event(r, link_event_of(m), clock_now_ns());
		m->drop(m);
		advance(r, clock_now_ns());
	}
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	if (signal_asked())
		event_base_loopbreak(((struct rebuild *)arg)->base);
	else
		advance(arg, clock_now_ns());
}

/* ---- life */

static void loop(struct rebuild *r)
{
	const struct timeval beat = {.tv_usec = BEAT_MS * 1000};
	struct event *mail =
		event_new(r->base, mailbox_fd(r->mail), EV_READ | EV_PERSIST, on_mail, r);
	struct event *often = event_new(r->base, -1, EV_PERSIST, on_beat, r);
	event_add(mail, NULL);
	event_add(often, &beat);
	r->idle_ns = clock_now_ns();
	event_base_dispatch(r->base);
	event_free(mail);
	event_free(often);
}

static void release(struct rebuild *r)
{
	link_free(r->link);
	https_server_free(r->https);
	blob_part_close(r->part);
	if (r->base) {
		event_base_loop(r->base, EVLOOP_NONBLOCK);
		event_base_free(r->base);
	}
	if (r->mail)
		mailbox_free(r->mail);
	for (uint32_t i = 0; i < r->n_sources; i++)
		rebuild_list_release(&r->sources[i].list);
	for (size_t i = 0; i < r->n_entries; i++)
		free(r->entries[i].bytes);
	free(r->entries);
	free(r->sources);
	ledger_free(r->ledger);
	roster_free(r->roster);
	free(r->roster_text);
	free(r->statement);
	run_release(&r->run);
	free(r->work);
}

static enum err verdict(struct rebuild *r, struct rebuild_outcome *out, struct why *why)
{
	if (r->failed.code)
		return err_why(why, r->failed.code, "%s", r->failed.text);
	if (!r->done)
		return err_why(why, ERR_interrupted,
			"stopped by its user; what was fetched is kept in %s", r->work);
	*out = (struct rebuild_outcome){.head = run_head(&r->run),
		.state = run_state(&r->run),
		.tokens = ledger_tokens(r->run.ledger),
		.snapshot_round = r->snapshot.round,
		.members = (uint32_t)members_count(r->run.members)};
	store_close(r->run.store); /* its log goes into the file before that is moved */
	r->run.store = NULL;
	if (rename(r->work, r->config->dir))
		return file_why(why, "make", r->config->dir, errno);
	return ERR_OK;
}

enum err rebuild_run(
	const struct rebuild_config *config, struct rebuild_outcome *out, struct why *why)
{
	struct rebuild r = {.config = config, .run.lock = -1};
	size_t n = strlen(config->dir);
	while (n > 1 && config->dir[n - 1] == '/')
		n--;
	r.work = alloc_must_printf("%.*s.rebuilding", (int)n, config->dir);
	enum err err = rebuild_open_work(&r, why);
	if (!err) {
		drop_ledger(&r);
		r.mail = mailbox_new();
		r.base = event_base_new();
		if (!r.base)
			err = err_why(why, ERR_nomem, "no event loop");
	}
	if (!err)
		err = rebuild_open_link(&r, why);
	if (!err)
		err = rebuild_open_https(&r, why);
	if (!err) {
		loop(&r);
		err = verdict(&r, out, why);
	}
	release(&r);
	return err;
}
