#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "coordinator/api.h"
#include "coordinator/hub.h"
#include "coordinator/hub_gather.h"
#include "coordinator/hub_restore.h"
#include "coordinator/hub_invite.h"
#include "coordinator/hub_topology.h"
#include "net/address.h"
#include "net/https_server.h"
#include "round/object.h"

#define MESSAGES_PER_S 200 /* of one peer; a round of its has about ten */
#define MESSAGES_BURST 1000

/* ---- the data to train on */

static enum err check_blob(
	const char *data, const struct hash *name, uint64_t bytes, struct why *why)
{
	char hex[HASH_HEX];
	struct stat st;
	hash_hex(name, hex);
	char *path = alloc_must_printf("%s/blobs/%s", data, hex);
	enum err err = ERR_OK;
	if (stat(path, &st))
		err = file_why(why, "read", path, errno);
	else if (bytes && (uint64_t)st.st_size != bytes)
		err = err_why(why, ERR_hash,
			"%s has %llu bytes, the manifest says %llu: prepare "
			"the data again",
			path, (unsigned long long)st.st_size, (unsigned long long)bytes);
	free(path);
	return err;
}

static enum err check_split(const char *data, const struct manifest_split *s, struct why *why)
{
	enum err err = ERR_OK;
	for (size_t i = 0; !err && i < s->n_shards; i++)
		err = check_blob(data, &s->shards[i].hash, s->shards[i].bytes, why);
	return err;
}

static enum err open_data(struct hub *h, const struct spec *spec, struct why *why)
{
	if (hash_is_zero(&spec->manifest))
		return err_why(why, ERR_spec,
			"the spec names no data: shoal-coordinator prepare TEXT --out DIR --spec "
			"SPEC --write-spec RUN fills it in");
	char *path = alloc_must_printf("%s/manifest.json", h->config.data);
	enum err err = manifest_load(path, &h->manifest, why);
	free(path);
	if (err)
		return err;
	if (!hash_equal(&h->manifest->id, &spec->manifest))
		return err_why(why, ERR_spec,
			"the spec is for other data than %s holds: give the folder that prepare "
			"made with this spec",
			h->config.data);
	if (spec->model.image[0])
		return err_why(why, ERR_unsupported,
			"the data is a text, but model.image says that the model reads images");
	if (h->manifest->vocab > spec->model.vocab)
		return err_why(why, ERR_spec, "the data has %u tokens, model.vocab is %u",
			h->manifest->vocab, spec->model.vocab);
	err = check_blob(h->config.data, &h->manifest->id, 0, why);
	if (!err)
		err = check_blob(h->config.data, &h->manifest->tokenizer, 0, why);
	if (!err)
		err = check_split(h->config.data, &h->manifest->train, why);
	if (!err)
		err = check_split(h->config.data, &h->manifest->validation, why);
	return err;
}

static enum err open_run(struct hub *h, const struct spec *spec, struct why *why)
{
	const struct run_config c = {
		.dir = h->config.dir, .spec = spec, .init = h->config.init, .serving = true};
	return run_open(&c, &h->run, why);
}

/* ---- what the process itself needs */

static enum err open_token(struct hub *h, struct why *why)
{
	char *path = alloc_must_printf("%s/keys/operator.token", h->config.dir);
	uint8_t *text = NULL, secret[32];
	size_t n = 0;
	enum err err = file_read(path, 1024, &text, &n, why);
	if (err == ERR_missing) {
		rng_secret(secret, sizeof secret);
		text_hex(secret, sizeof secret, h->token);
		err = file_write(path, h->token, 64, 0600, why);
	} else if (!err && strspn((const char *)text, "0123456789abcdef") < 64) {
		err = err_why(why, ERR_syntax,
			"%s is not a token: remove it, and a new one is made", path);
	} else if (!err) {
		memcpy(h->token, text, 64);
	}
	free(text);
	free(path);
	return err;
}

static void open_desk(struct hub *h)
{
	const struct desk_config c = {.files = h->run.files,
		.blobs = h->run.blobs,
		.exchange = h->run.exchange,
		.spec = h->run.spec->text,
		.dir = h->run.dir,
		.events = h->mail};
	h->desk = desk_new(&c);
}

static size_t largest_contribution(const struct hub *h)
{
	size_t most = 0;
	for (uint32_t i = 0; i < h->run.files.n_shards; i++) {
		size_t one = contribution_bound(&h->run.exchange.codec, h->run.files.n[i]);
		most = one > most ? one : most;
	}
	return most;
}

/* As a bundle; merged it is smaller. */
static uint64_t largest_update(const struct hub *h)
{
	return UPDATE_HEAD + ROUNDS_MEMBERS_MAX * (8 + (uint64_t)largest_contribution(h));
}

/* The sentence does not know by which options the operator chooses where to listen. */
static enum err name_options(enum err err, const char *port, struct why *why)
{
	struct why inner = *why;
	return err_why(why, err, "--address and %s: %s", port, inner.text);
}

static enum err open_link(struct hub *h, struct why *why)
{
	struct link_config c;
	char bind[LINK_ADDRESS];
	size_t most = largest_contribution(h), n;
	link_config_init(&c);
	address_join(h->config.address, h->config.link_port, bind, sizeof bind);
	c.role = LINK_coordinator;
	memcpy(c.public_key, h->run.keys.curve.public_key, LINK_KEY);
	memcpy(c.secret_key, h->run.keys.curve.secret_key, LINK_KEY);
	c.bind = bind;
	c.events = h->mail;
	rng_secret(&c.seed, sizeof c.seed);
	c.heartbeat_ns = h->config.heartbeat_ns;
	c.timeout_ns = h->config.timeout_ns;
	c.connections_most = h->config.connections_most;
	c.receive_most = h->config.memory;
	c.messages_per_s = MESSAGES_PER_S;
	c.messages_burst = MESSAGES_BURST;
	c.egress = h->egress;
	c.transfer.chunk = (uint32_t)egress_piece(h->egress, c.transfer.chunk);
	const uint64_t update =
		h->config.memory < largest_update(h) ? h->config.memory : largest_update(h);
	c.kinds[0] = (struct transfer_kind){OBJECT_contribution, most};
	c.kinds[1] = (struct transfer_kind){OBJECT_update, update};
	c.kinds[2] = (struct transfer_kind){OBJECT_bundle, update};
	c.n_kinds = 3;
	if (h->config.memory < most)
		return err_why(why, ERR_range,
			"--memory is %llu bytes, one contribution may have %zu: give more",
			(unsigned long long)h->config.memory, most);
	enum err err = link_new(&c, &h->link, why);
	if (err)
		return name_options(err, "--link-port", why);
	uint8_t *keys = members_links(h->run.members, &n);
	link_admit(h->link, keys, n);
	free(keys);
	return ERR_OK;
}

static enum err open_https(struct hub *h, struct why *why)
{
	struct https_server_config c;
	char bind[LINK_ADDRESS];
	https_server_config_init(&c);
	address_join(h->config.address, h->config.port, bind, sizeof bind);
	c.bind = bind;
	c.tls = h->run.keys.tls;
	c.routes = api_routes(&c.n_routes);
	c.arg = h;
	c.egress = h->egress;
	enum err err = https_server_new(h->base, &c, &h->https, why);
	return err ? name_options(err, "--port", why) : ERR_OK;
}

enum err hub_open(
	const struct hub_config *config, const struct spec *spec, struct hub *h, struct why *why)
{
	*h = (struct hub){.config = *config, .start_ns = clock_now_ns(), .run.lock = -1};
	h->topology = hub_topology_new();
	h->egress = egress_new(config->max_up);
	enum err err = open_data(h, spec, why);
	if (!err)
		err = open_run(h, spec, why);
	if (!err) {
		h->gather = hub_gather_new(h->run.files.n_shards);
		err = open_token(h, why);
	}
	if (!err)
		err = hub_restore(h, clock_now_ns(), why);
	if (err)
		return err;
	h->mail = mailbox_new();
	h->base = event_base_new();
	if (!h->base)
		return err_why(why, ERR_nomem, "no event loop");
	h->feed = feed_new(h->base, clock_wall_s());
	open_desk(h);
	err = open_link(h, why);
	if (!err)
		err = open_https(h, why);
	if (!err)
		err = hub_invite_file(h, why);
	return err;
}
