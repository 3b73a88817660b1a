#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "coordinator/rebuild_parts.h"
#include "net/address.h"
#include "net/statement.h"
#include "round/object.h"

#define RECEIVE_MOST ((uint64_t)64 << 20)
#define MESSAGES_PER_S 200

static bool holds_something(const char *dir)
{
	bool found = false;
	DIR *d = opendir(dir);
	for (struct dirent *e; d && !found && (e = readdir(d));)
		found = strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	if (d)
		closedir(d);
	return found;
}

/* The run as it was at round 0: what the spec and its seed say, in a folder that serve does not
 * know, so that nobody signs a second ledger from there. */
enum err rebuild_open_work(struct rebuild *r, struct why *why)
{
	const struct rebuild_config *c = r->config;
	const struct run_config how = {
		.dir = r->work, .spec = c->spec, .init = c->init, .serving = true};
	struct sign_public want_key = sign_public_of(c->key), have;
	char *keys = alloc_must_printf("%s/keys", r->work);
	enum err err = ERR_OK;
	if (holds_something(c->dir))
		err = err_why(why, ERR_exists,
			"%s holds something: rebuild makes a folder that is not there yet", c->dir);
	if (!err && !identity_coordinator_exists(keys))
		err = identity_coordinator_make(keys, c->key, why);
	if (!err)
		err = run_open(&how, &r->run, why);
	if (!err) {
		have = sign_public_of(r->run.keys.run);
		if (memcmp(have.b, want_key.b, sizeof have.b) || run_head(&r->run).sequence)
			err = err_why(why, ERR_exists,
				"%s is of another try, with another key or finished: move it away",
				r->work);
	}
	free(keys);
	return err;
}

enum err rebuild_open_link(struct rebuild *r, struct why *why)
{
	struct link_config c;
	char bind[LINK_ADDRESS];
	link_config_init(&c);
	address_join(r->config->address, r->config->link_port, bind, sizeof bind);
	c.role = LINK_coordinator;
	memcpy(c.public_key, r->run.keys.curve.public_key, LINK_KEY);
	memcpy(c.secret_key, r->run.keys.curve.secret_key, LINK_KEY);
	c.bind = bind;
	c.events = r->mail;
	rng_secret(&c.seed, sizeof c.seed);
	c.connections_most = ROSTER_MAX;
	c.receive_most = RECEIVE_MOST;
	c.messages_per_s = MESSAGES_PER_S;
	c.messages_burst = 5 * MESSAGES_PER_S;
	c.kinds[0] = (struct transfer_kind){OBJECT_shelf, OBJECT_SHELF_MAX};
	c.kinds[1] = (struct transfer_kind){OBJECT_piece, OBJECT_PIECE};
	c.kinds[2] = (struct transfer_kind){OBJECT_chain, OBJECT_PIECE};
	c.n_kinds = 3;
	return link_new(&c, &r->link, why);
}

enum err rebuild_open_https(struct rebuild *r, struct why *why)
{
	struct https_server_config c;
	char bind[LINK_ADDRESS];
	struct statement s = {.run = r->config->spec->id,
		.spki = tls_spki(r->run.keys.tls),
		.from_s = clock_wall_s(),
		.to_s = clock_wall_s() + STATEMENT_VALID_S};
	memcpy(s.curve, r->run.keys.curve.public_key, sizeof s.curve);
	r->statement = statement_make(&s, r->run.keys.run);
	https_server_config_init(&c);
	address_join(r->config->address, r->config->port, bind, sizeof bind);
	c.bind = bind;
	c.tls = r->run.keys.tls;
	c.routes = rebuild_api_routes(&c.n_routes);
	c.arg = r;
	return https_server_new(r->base, &c, &r->https, why);
}
