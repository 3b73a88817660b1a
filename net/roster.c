#include "net/roster.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/text.h"

struct roster {
	struct hash run;
	uint64_t version;
	struct roster_member *members; /* ascending by number */
	uint32_t *by_curve, *by_sign;  /* places in members, ascending by key */
	size_t n;
};

static int number_order(const void *a, const void *b)
{
	const struct roster_member *x = a, *y = b;
	return x->number < y->number ? -1 : x->number > y->number;
}

static int curve_order(const void *a, const void *b, void *members)
{
	const struct roster_member *m = members;
	return memcmp(m[*(const uint32_t *)a].curve, m[*(const uint32_t *)b].curve, ROSTER_CURVE);
}

static int sign_order(const void *a, const void *b, void *members)
{
	const struct roster_member *m = members;
	return memcmp(m[*(const uint32_t *)a].sign.b, m[*(const uint32_t *)b].sign.b, SIGN_PUBLIC);
}

static enum err unique(const struct roster *r, struct why *why)
{
	for (size_t i = 1; i < r->n; i++) {
		const struct roster_member *m = r->members;
		if (m[i].number == m[i - 1].number)
			return err_why(
				why, ERR_exists, "two members have the number %u", m[i].number);
		if (!memcmp(m[r->by_curve[i]].curve, m[r->by_curve[i - 1]].curve, ROSTER_CURVE) ||
			!memcmp(m[r->by_sign[i]].sign.b, m[r->by_sign[i - 1]].sign.b, SIGN_PUBLIC))
			return err_why(why, ERR_exists, "two members have the same key");
	}
	return ERR_OK;
}

enum err roster_new(const struct hash *run, uint64_t version, const struct roster_member *members,
	size_t n, struct roster **out, struct why *why)
{
	if (n > ROSTER_MAX)
		return err_why(
			why, ERR_toobig, "%zu members; a roster holds at most %u", n, ROSTER_MAX);
	struct roster *r = alloc_must_zero(1, sizeof *r);
	r->run = *run;
	r->version = version;
	r->n = n;
	r->members = alloc_try(n + 1, sizeof *r->members);
	r->by_curve = alloc_try(n + 1, sizeof *r->by_curve);
	r->by_sign = alloc_try(n + 1, sizeof *r->by_sign);
	if (!r->members || !r->by_curve || !r->by_sign) {
		roster_free(r);
		return err_why(why, ERR_nomem, "no memory for a roster of %zu members", n);
	}
	for (size_t i = 0; i < n; i++) {
		r->members[i] = members[i];
		r->by_curve[i] = r->by_sign[i] = (uint32_t)i;
	}
	qsort(r->members, n, sizeof *r->members, number_order);
	qsort_r(r->by_curve, n, sizeof *r->by_curve, curve_order, r->members);
	qsort_r(r->by_sign, n, sizeof *r->by_sign, sign_order, r->members);
	enum err e = unique(r, why);
	if (e) {
		roster_free(r);
		return e;
	}
	*out = r;
	return ERR_OK;
}

void roster_free(struct roster *r)
{
	if (!r)
		return;
	free(r->members);
	free(r->by_curve);
	free(r->by_sign);
	free(r);
}

json_t *roster_json(const struct roster *r)
{
	char run[HASH_HEX];
	hash_hex(&r->run, run);
	json_t *list = json_array();
	for (size_t i = 0; i < r->n; i++) {
		const struct roster_member *m = &r->members[i];
		char sign[2 * SIGN_PUBLIC + 1], curve[2 * ROSTER_CURVE + 1];
		text_hex(m->sign.b, SIGN_PUBLIC, sign);
		text_hex(m->curve, ROSTER_CURVE, curve);
		json_array_append_new(list, json_pack("{s:I, s:s, s:s, s:s, s:b}", "number",
						    (json_int_t)m->number, "sign", sign, "curve",
						    curve, "name", m->name, "removed", m->removed));
	}
	return json_pack(
		"{s:s, s:I, s:o}", "run", run, "version", (json_int_t)r->version, "members", list);
}

bool roster_name_ok(const char *name)
{
	size_t n = strlen(name);
	if (!n || n >= ROSTER_NAME)
		return false;
	char clean[ROSTER_NAME];
	memcpy(clean, name, n + 1);
	text_clean(clean);
	return !strcmp(clean, name);
}

static void read_member(const json_t *item, size_t i, struct roster_member *m, struct buf *mistakes)
{
	char path[32];
	struct json_in in;
	snprintf(path, sizeof path, "members.%zu", i);
	if (!json_is_object(item)) {
		buf_printf(mistakes, "%s: must be an object\n", path);
		return;
	}
	json_in_init(&in, item, path, mistakes);
	m->number = (uint32_t)json_get_int(&in, "number", 0, UINT32_MAX - 1, NULL);
	m->removed = json_get_flag(&in, "removed", NULL);
	if (text_unhex(json_get_text(&in, "sign", 2 * SIGN_PUBLIC, NULL), m->sign.b, SIGN_PUBLIC))
		json_mistake(&in, "sign", "must be %d hex digits", 2 * SIGN_PUBLIC);
	if (text_unhex(json_get_text(&in, "curve", 2 * ROSTER_CURVE, NULL), m->curve, ROSTER_CURVE))
		json_mistake(&in, "curve", "must be %d hex digits", 2 * ROSTER_CURVE);
	const char *name = json_get_text(&in, "name", ROSTER_NAME - 1, NULL);
	if (roster_name_ok(name))
		memcpy(m->name, name, strlen(name) + 1);
	else
		json_mistake(&in, "name", "must be 1 to %d printable characters", ROSTER_NAME - 1);
	json_in_finish(&in);
}

enum err roster_parse(
	const json_t *body, const struct hash *run, struct roster **out, struct why *why)
{
	struct buf mistakes;
	struct json_in in;
	buf_init(&mistakes, 4096);
	json_in_init(&in, body, "", &mistakes);
	struct hash of = json_get_hash(&in, "run", true);
	uint64_t version = (uint64_t)json_get_int(&in, "version", 0, INT64_MAX, NULL);
	const json_t *list = json_get_array(&in, "members", ROSTER_MAX, true);
	json_in_finish(&in);
	size_t n = list ? json_array_size(list) : 0;
	n = n > ROSTER_MAX ? 0 : n; /* noted as a mistake above */
	struct roster_member *members = alloc_try(n + 1, sizeof *members);
	for (size_t i = 0; members && i < n && buf_ok(&mistakes); i++)
		read_member(json_array_get(list, i), i, &members[i], &mistakes);
	enum err e = json_verdict(&mistakes, "the roster is malformed", why);
	if (!e && !hash_equal(&of, run))
		e = err_why(why, ERR_wrong_run, "the roster is of another run");
	if (!e && !members)
		e = err_why(why, ERR_nomem, "no memory for a roster of %zu members", n);
	if (!e)
		e = roster_new(run, version, members, n, out, why);
	free(members);
	buf_release(&mistakes);
	return e;
}

uint64_t roster_version(const struct roster *r)
{
	return r->version;
}

size_t roster_count(const struct roster *r)
{
	return r->n;
}

const struct roster_member *roster_at(const struct roster *r, size_t i)
{
	return i < r->n ? &r->members[i] : NULL;
}

const struct roster_member *roster_by_number(const struct roster *r, uint32_t number)
{
	struct roster_member key = {.number = number};
	return r->n ? bsearch(&key, r->members, r->n, sizeof key, number_order) : NULL;
}

/* Binary search in an index of keys, which are size bytes at offset in a member. */
static const struct roster_member *by_key(
	const struct roster *r, const uint32_t *index, size_t offset, const uint8_t *key)
{
	size_t low = 0, high = r->n;
	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct roster_member *m = &r->members[index[mid]];
		int order = memcmp((const uint8_t *)m + offset, key, SIGN_PUBLIC);
		if (!order)
			return m;
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

const struct roster_member *roster_by_curve(
	const struct roster *r, const uint8_t curve[static ROSTER_CURVE])
{
	_Static_assert(ROSTER_CURVE == SIGN_PUBLIC, "by_key compares keys of one length");
	return by_key(r, r->by_curve, offsetof(struct roster_member, curve), curve);
}

const struct roster_member *roster_by_sign(
	const struct roster *r, const uint8_t key[static SIGN_PUBLIC])
{
	return by_key(r, r->by_sign, offsetof(struct roster_member, sign), key);
}
