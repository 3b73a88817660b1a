#include "coordinator/invites.h"
#include <string.h>
#include "base/clock.h"
#include "base/hash.h"

enum err invites_make(const struct invites *in, const struct invites_wish *wish,
	char link[static JOINLINK_MAX], struct why *why)
{
	struct invite i;
	struct joinlink l = {.port = wish->port, .run = *in->run, .key = sign_public_of(in->key)};
	struct store_invite row = {
		.created_s = clock_wall_s(), .expires_s = wish->expires_s, .uses = wish->uses};
	invite_make(wish->expires_s, wish->uses, &i);
	invite_text(&i, in->run, in->key, l.invite);
	memcpy(l.host, wish->host, strnlen(wish->host, sizeof l.host - 1));
	memcpy(row.id, i.id, sizeof i.id);
	store_begin(in->store);
	store_invite_add(in->store, &row);
	enum err err = store_commit(in->store, why);
	if (!err)
		joinlink_format(&l, link);
	return err;
}

enum err invites_check(const struct invites *in, const char *text,
	const uint8_t joiner[static SIGN_PUBLIC], char id[static INVITE_ID], struct why *why)
{
	struct invite i;
	struct store_invite row;
	struct sign_public run_key = sign_public_of(in->key);
	bool bound = false;
	enum err err = invite_open(text, in->run, &run_key, clock_wall_s(), &i, why);
	if (!err)
		err = store_invite_find(in->store, i.id, &row, why);
	if (err == ERR_missing)
		return err_why(why, ERR_invite,
			"this invite was made, but the coordinator does not remember it: ask for a "
			"new one");
	if (!err)
		err = store_invite_bound(in->store, i.id, joiner, &bound, why);
	if (err)
		return err;
	memcpy(id, i.id, INVITE_ID);
	if (row.revoked)
		return err_why(why, ERR_invite,
			"this invite was revoked by the operator: ask for a new one");
	if (!bound && row.uses && row.used >= row.uses)
		return err_why(why, ERR_invite,
			"this invite has been used up by %u other peer%s: ask for a new one",
			row.used, row.used == 1 ? "" : "s");
	return ERR_OK;
}
