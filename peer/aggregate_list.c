#include <inttypes.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "peer/aggregate.h"
#include "round/rule.h"

#define ITEM 36u /* bytes of one */

static enum err check_list(size_t len, struct why *why)
{
	if (len % ITEM)
		return err_why(why, ERR_syntax,
			"a list of contributions has %zu bytes, which is no multiple of %u", len,
			ITEM);
	if (len / ITEM > RULE_PEERS_MAX)
		return err_why(why, ERR_toobig, "a list of %zu contributions is longer than %d",
			len / ITEM, RULE_PEERS_MAX);
	return ERR_OK;
}

enum err aggregate_list(
	const uint8_t *payload, size_t len, struct aggregate_item **out, size_t *n, struct why *why)
{
	*out = NULL;
	*n = 0;
	enum err err = check_list(len, why);
	if (err || !len)
		return err;
	struct aggregate_item *items = alloc_try(len / ITEM, sizeof *items);
	if (!items)
		return err_why(
			why, ERR_nomem, "no memory for a list of %zu contributions", len / ITEM);
	struct rd r;
	rd_init(&r, payload, len);
	for (size_t i = 0; i < len / ITEM; i++) {
		items[i].peer = rd_u32(&r);
		rd_copy(&r, items[i].id.b, sizeof items[i].id.b);
		if (!i || items[i].peer > items[i - 1].peer)
			continue;
		err_why(why, ERR_syntax,
			"a list of contributions has peer %" PRIu32 " after peer %" PRIu32,
			items[i].peer, items[i - 1].peer);
		free(items);
		return ERR_syntax;
	}
	*out = items;
	*n = len / ITEM;
	return ERR_OK;
}
