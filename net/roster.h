/*
 * Who is who: number, signing key, CURVE key and name of every member a run ever had.  A body of a
 * signed document of type "roster", with a version that only grows; numbers are never used again,
 * so that old contributions stay verifiable. Immutable once made; any thread.
 */
#ifndef NET_ROSTER_H
#define NET_ROSTER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/json.h"
#include "net/sign.h"

#define ROSTER_MAX 16384u
#define ROSTER_NAME 65  /* bytes of a name with its NUL; printable */
#define ROSTER_CURVE 32 /* bytes of a CURVE public key */

struct roster_member {
	uint32_t number;
	struct sign_public sign;
	uint8_t curve[ROSTER_CURVE];
	char name[ROSTER_NAME];
	bool removed; /* was put out by the operator: its messages do not count any more, its old
			 signatures do */
};

struct roster;

/* Members in any order; numbers and keys must be unique (ERR_exists).  members is borrowed. */
enum err roster_new(const struct hash *run, uint64_t version, const struct roster_member *members,
	size_t n, struct roster **out, struct why *why) MUST_CHECK;
void roster_free(struct roster *r);          /* NULL-safe */
json_t *roster_json(const struct roster *r); /* the body; caller decrefs */
/* ERR_wrong_run, ERR_syntax with the mistakes. */
enum err roster_parse(const json_t *body, const struct hash *run, struct roster **out,
	struct why *why) MUST_CHECK;

uint64_t roster_version(const struct roster *r);
size_t roster_count(const struct roster *r);
const struct roster_member *roster_at(const struct roster *r, size_t i); /* ascending by number */
const struct roster_member *roster_by_number(
	const struct roster *r, uint32_t number); /* NULL: nobody */
const struct roster_member *roster_by_curve(
	const struct roster *r, const uint8_t curve[static ROSTER_CURVE]);
const struct roster_member *roster_by_sign(
	const struct roster *r, const uint8_t key[static SIGN_PUBLIC]);

/* Whether a text may be a member's name: 1 to 64 printable ASCII characters or UTF-8 without
 * controls. */
bool roster_name_ok(const char *name);

#endif
