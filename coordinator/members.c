#include "coordinator/members.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "coordinator/rounds.h"
#include "net/signed.h"

struct members {
	struct store *store;
	struct hash run;
	const struct sign_key *key;
	struct store_member *at; /* by number, those below MEMBERS_FIRST unused */
	uint32_t end, cap;
	uint64_t version;
	struct roster *roster;
	uint32_t listed_end;      /* numbers below it are in the roster */
	struct store_member last; /* that members_add put into the store */
	char *text;
};

static void read_member(void *arg, const struct store_member *one)
{
	struct members *m = arg;
	if (one->number < MEMBERS_FIRST || one->number >= ROUNDS_MEMBERS_MAX)
		return;
	if (one->number >= m->cap) {
		uint32_t cap = one->number + 1 > 2 * m->cap ? one->number + 1 : 2 * m->cap;
		m->at = alloc_must_resize(m->at, cap, sizeof *m->at);
		memset(m->at + m->cap, 0, (cap - m->cap) * sizeof *m->at);
		m->cap = cap;
	}
	m->at[one->number] = *one;
	if (one->number >= m->end)
		m->end = one->number + 1;
}

static enum err make_roster(struct members *m, struct why *why)
{
	struct roster_member *rows = alloc_must_zero(m->end + 1u, sizeof *rows);
	struct roster *roster = NULL;
	size_t n = 0;
	for (uint32_t i = MEMBERS_FIRST; i < m->end; i++) {
		const struct store_member *one = &m->at[i];
		if (!one->number)
			continue;
		struct roster_member *row = &rows[n++];
		row->number = i;
		memcpy(row->sign.b, one->sign, sizeof row->sign.b);
		memcpy(row->curve, one->curve, sizeof row->curve);
		memcpy(row->name, one->name, sizeof row->name);
		row->removed = one->removed;
	}
	enum err err = roster_new(&m->run, m->version, rows, n, &roster, why);
	free(rows);
	if (err)
		return err;
	json_t *body = roster_json(roster);
	free(m->text);
	m->text = signed_make("roster", body, m->key);
	json_decref(body);
	roster_free(m->roster);
	m->roster = roster;
	m->listed_end = m->end;
	return ERR_OK;
}

enum err members_renew(struct members *m, struct why *why)
{
	m->end = 0;
	if (m->cap)
		memset(m->at, 0, m->cap * sizeof *m->at);
	enum err err = store_member_list(m->store, read_member, m, why);
	if (!err)
		err = store_get_number(m->store, "roster_version", 1, &m->version, why);
	if (!err)
		err = make_roster(m, why);
	return err;
}

enum err members_load(struct store *s, const struct hash *run, const struct sign_key *key,
	struct members **out, struct why *why)
{
	struct members *m = alloc_must_zero(1, sizeof *m);
	m->store = s;
	m->run = *run;
	m->key = key;
	enum err err = members_renew(m, why);
	*out = m;
	if (err) {
		members_free(m);
		*out = NULL;
	}
	return err;
}

void members_free(struct members *m)
{
	if (!m)
		return;
	roster_free(m->roster);
	free(m->text);
	free(m->at);
	free(m);
}

/* ---- those that the roster does not list yet: a second's worth of newcomers */

static uint32_t pending_by(const struct members *m, size_t key_at, const uint8_t *key)
{
	for (uint32_t i = m->listed_end; i < m->end; i++)
		if (m->at[i].number && !memcmp((const uint8_t *)&m->at[i] + key_at, key, STORE_KEY))
			return i;
	return MEMBERS_NONE;
}

static uint32_t by_sign(const struct members *m, const uint8_t *key)
{
	const struct roster_member *r = roster_by_sign(m->roster, key);
	return r ? r->number : pending_by(m, offsetof(struct store_member, sign), key);
}

static uint32_t by_curve(const struct members *m, const uint8_t *key)
{
	const struct roster_member *r = roster_by_curve(m->roster, key);
	return r ? r->number : pending_by(m, offsetof(struct store_member, curve), key);
}

bool members_pending(const struct members *m)
{
	return m->end > m->listed_end;
}

void members_take(struct members *m)
{
	read_member(m, &m->last);
}

/* ---- joining */

static enum err already(const struct members *m, uint32_t number, struct why *why)
{
	if (m->at[number].removed)
		return err_why(why, ERR_unknown_peer,
			"member %u (%s) was removed by the operator of this run", number,
			m->at[number].name);
	return ERR_OK;
}

enum err members_find(
	const struct members *m, const struct members_new *n, uint32_t *number, struct why *why)
{
	const uint32_t sign = by_sign(m, n->sign), curve = by_curve(m, n->curve);
	*number = sign;
	if (sign != MEMBERS_NONE && sign == curve)
		return already(m, sign, why);
	if (sign != MEMBERS_NONE || curve != MEMBERS_NONE)
		return err_why(why, ERR_exists,
			"%s key belongs to member %u with another %s key: was only part of a "
			"peer's folder copied?",
			sign != MEMBERS_NONE ? "this signing" : "this link",
			sign != MEMBERS_NONE ? sign : curve,
			sign != MEMBERS_NONE ? "link" : "signing");
	if (!roster_name_ok(n->name))
		return err_why(why, ERR_syntax,
			"a member's name has 1 to %d printable characters: choose another with "
			"--name",
			ROSTER_NAME - 1);
	if ((m->end ? m->end : MEMBERS_FIRST) >= ROUNDS_MEMBERS_MAX)
		return err_why(why, ERR_full, "this run has had %u members, which is its limit",
			ROUNDS_MEMBERS_MAX - MEMBERS_FIRST);
	return ERR_missing;
}

uint32_t members_add(struct members *m, const struct members_new *n)
{
	struct store_member one = {
		.number = m->end > MEMBERS_FIRST ? m->end : MEMBERS_FIRST, .joined_s = n->now_s};
	memcpy(one.sign, n->sign, sizeof one.sign);
	memcpy(one.curve, n->curve, sizeof one.curve);
	memcpy(one.name, n->name, strnlen(n->name, sizeof one.name - 1));
	memcpy(one.version, n->version, strnlen(n->version, sizeof one.version - 1));
	store_member_put(m->store, &one);
	store_put_number(m->store, "roster_version", m->version + 1);
	m->last = one;
	return one.number;
}

enum err members_remove(struct members *m, uint32_t number)
{
	const struct store_member *one = members_at(m, number);
	if (!one)
		return ERR_missing;
	struct store_member changed = *one;
	changed.removed = true;
	store_member_put(m->store, &changed);
	store_put_number(m->store, "roster_version", m->version + 1);
	return ERR_OK;
}

/* ---- asking */

const struct roster *members_roster(const struct members *m)
{
	return m->roster;
}

const char *members_text(const struct members *m)
{
	return m->text;
}

uint32_t members_by_link(const struct members *m, const uint8_t curve[static STORE_KEY])
{
	const uint32_t number = by_curve(m, curve);
	return number != MEMBERS_NONE && !m->at[number].removed ? number : MEMBERS_NONE;
}

const struct store_member *members_at(const struct members *m, uint32_t number)
{
	return number < m->end && m->at[number].number ? &m->at[number] : NULL;
}

size_t members_count(const struct members *m)
{
	size_t n = 0;
	for (uint32_t i = 0; i < m->end; i++)
		n += m->at[i].number && !m->at[i].removed;
	return n;
}

uint32_t members_end(const struct members *m)
{
	return m->end;
}

uint8_t *members_links(const struct members *m, size_t *n)
{
	uint8_t *keys = alloc_must((size_t)(m->end + 1) * STORE_KEY);
	*n = 0;
	for (uint32_t i = 0; i < m->end; i++)
		if (m->at[i].number && !m->at[i].removed)
			memcpy(keys + STORE_KEY * (*n)++, m->at[i].curve, STORE_KEY);
	return keys;
}
