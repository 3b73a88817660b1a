#include "net/link.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "net/plane.h"
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND_LIST(X) \
	X(admit) X(connect) X(hello) X(status) X(forget) X(send) X(push) X(cancel) X(answer) X(stop)

enum command_kind {
#define X(name) COMMAND_##name,
	COMMAND_LIST(X)
#undef X
};

/* A call on its way to the thread.  Each kind uses what it needs. */
struct command {
	struct mail mail;
	uint8_t key[LINK_KEY];
	char address[LINK_ADDRESS];
	shoal_header header;  // send; of hello and status the body
	struct shared *bytes; // send, push: a reference; admit: the keys
	uint32_t object_kind;
	uint8_t meta[TRANSFER_META];
	size_t meta_len;
	uint64_t ref;
	struct why why; // answer
};

struct link {
	struct link_config config;
	char bind[LINK_ADDRESS];
	struct plane *plane; // the thread's once it runs
	uint16_t port;
	struct mailbox *commands;
	pthread_t thread;
	pthread_mutex_t lock;
	struct link_counters counters; // a copy, under lock
};

void link_config_init(struct link_config *c)
{
	*c = (struct link_config){
		.heartbeat_ns = CLOCK_SECOND,
		.timeout_ns = 6 * CLOCK_SECOND,
		.connect_ns = 10 * CLOCK_SECOND,
		.retry_least_ns = CLOCK_SECOND / 2,
		.retry_most_ns = 30 * CLOCK_SECOND,
		.linger_ns = CLOCK_SECOND / 2,
		.messages_per_s = 50,
		.messages_burst = 500,
		.connections_most = 10000,
		.receive_most = 512ull << 20,
	};
	transfer_limits_init(&c->transfer);
}

static void drop_command(struct mail *m)
{
	struct command *c = (struct command *)m; // mail is the first member
	shared_drop(c->bytes);
	free(c);
}

static struct command *command_new(enum command_kind kind, const uint8_t *key)
{
	struct command *c = alloc_must_zero(1, sizeof *c);
	c->mail.kind = (int)kind;
	c->mail.drop = drop_command;
	if (key)
		memcpy(c->key, key, LINK_KEY);
	return c;
}

static void put(struct link *l, struct command *c)
{
	mailbox_put(l->commands, &c->mail);
}

/* ---- in the thread */

static void do_push(struct plane *p, const struct command *c)
{
	struct link_object o = {c->object_kind, c->bytes, c->meta, c->meta_len};
	plane_push(p, c->key, &o);
}

/* false: stop. */
static bool do_command(struct plane *p, const struct command *c)
{
	switch ((enum command_kind)c->mail.kind) {
	case COMMAND_admit:
		plane_admit(p, shared_data(c->bytes), shared_len(c->bytes) / LINK_KEY);
		break;
	case COMMAND_connect: plane_connect(p, c->key, c->address, &c->header.body.hello); break;
	case COMMAND_hello: plane_hello(p, c->key, &c->header.body.hello); break;
	case COMMAND_status: plane_status(p, &c->header.body.heartbeat); break;
	case COMMAND_forget: plane_forget(p, c->key); break;
	case COMMAND_send: plane_send(p, c->key, &c->header, c->bytes); break;
	case COMMAND_push: do_push(p, c); break;
	case COMMAND_cancel: plane_cancel(p, c->key, c->ref); break;
	case COMMAND_answer: plane_answer(p, c->key, c->ref, &c->why); break;
	case COMMAND_stop: return false;
	}
	return true;
}

static bool do_commands(struct link *l)
{
	bool go_on = true;
	for (struct mail *m; go_on && (m = mailbox_take(l->commands));) {
		go_on = do_command(l->plane, (struct command *)m);
		m->drop(m);
	}
	return go_on;
}

static void *run(void *arg)
{
	struct link *l = arg;
	do {
		plane_turn(l->plane);
		pthread_mutex_lock(&l->lock);
		plane_counters(l->plane, &l->counters);
		pthread_mutex_unlock(&l->lock);
		plane_wait(l->plane, mailbox_fd(l->commands));
	} while (do_commands(l));
	plane_turn(l->plane); // what the last calls asked for
	plane_free(l->plane);
	return NULL;
}

/* ---- in any thread */

static enum err check(const struct link_config *c, struct why *why)
{
	const struct transfer_limits *t = &c->transfer;
	if (!c->events || (c->role != LINK_coordinator && c->role != LINK_peer) ||
		(c->role == LINK_coordinator) != (c->bind != NULL))
		return err_why(why, ERR_usage,
			"a link needs a role, a mailbox and, as coordinator "
			"only, an address to bind");
	if (c->bind && strlen(c->bind) >= LINK_ADDRESS)
		return err_why(why, ERR_toobig, "the address to bind is too long");
	if (!c->heartbeat_ns || c->timeout_ns < 2 * c->heartbeat_ns || !c->connect_ns ||
		!c->retry_least_ns || c->retry_most_ns < c->retry_least_ns)
		return err_why(why, ERR_range,
			"the times of a link do not fit each other: at least "
			"two heartbeats make a time-out");
	if (t->chunk < TRANSFER_CHUNK_LEAST || t->chunk > TRANSFER_CHUNK_MOST ||
		t->window < TRANSFER_CHUNK_MOST || t->eager > t->window || !t->objects ||
		t->objects > TRANSFER_OBJECTS || c->n_kinds > TRANSFER_KINDS ||
		!c->messages_per_s || !c->messages_burst)
		return err_why(why, ERR_range, "the limits of a link are out of range");
	return ERR_OK;
}

static void release(struct link *l)
{
	mailbox_free(l->commands);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

enum err link_new(const struct link_config *config, struct link **out, struct why *why)
{
	*out = NULL;
	enum err err = check(config, why);
	if (err)
		return err;
	struct link *l = alloc_must_zero(1, sizeof *l);
	l->config = *config;
	l->config.transfer.push = config->seed;
	if (config->bind) {
		snprintf(l->bind, sizeof l->bind, "%s", config->bind);
		l->config.bind = l->bind;
	}
	l->commands = mailbox_new();
	pthread_mutex_init(&l->lock, NULL);
	err = plane_new(&l->config, &l->plane, why);
	if (err) {
		release(l);
		return err;
	}
	l->port = plane_port(l->plane);
	// Signals are for the control loop.
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&l->thread, NULL, run, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		plane_free(l->plane);
		release(l);
		return err_why(why, ERR_nomem, "no thread for the links: %s", strerror(rc));
	}
	*out = l;
	return ERR_OK;
}

void link_free(struct link *l)
{
	if (!l)
		return;
	put(l, command_new(COMMAND_stop, NULL));
	pthread_join(l->thread, NULL);
	release(l);
}

uint16_t link_port(const struct link *l)
{
	return l->port;
}

void link_admit(struct link *l, const uint8_t *keys, size_t n)
{
	struct command *c = command_new(COMMAND_admit, NULL);
	c->bytes = shared_copy(keys, n * LINK_KEY);
	put(l, c);
}

void link_connect(struct link *l, const uint8_t key[static LINK_KEY], const char *address,
	const shoal_hello *hello)
{
	struct command *c = command_new(COMMAND_connect, key);
	snprintf(c->address, sizeof c->address, "%s", address);
	c->header.body.hello = *hello;
	put(l, c);
}

void link_hello(struct link *l, const uint8_t key[static LINK_KEY], const shoal_hello *hello)
{
	struct command *c = command_new(COMMAND_hello, key);
	c->header.body.hello = *hello;
	put(l, c);
}

void link_status(struct link *l, const shoal_heartbeat *status)
{
	struct command *c = command_new(COMMAND_status, NULL);
	c->header.body.heartbeat = *status;
	put(l, c);
}

void link_forget(struct link *l, const uint8_t key[static LINK_KEY])
{
	put(l, command_new(COMMAND_forget, key));
}

void link_send(struct link *l, const uint8_t key[static LINK_KEY], const shoal_header *header,
	struct shared *payload)
{
	const struct msg_row *row = msg_row(header->which_body);
	assert(row && (payload != NULL) == (row->payload_max > 0));
	struct command *c = command_new(COMMAND_send, key);
	c->header = *header;
	c->bytes = payload ? shared_hold(payload) : NULL;
	put(l, c);
}

uint64_t link_push(
	struct link *l, const uint8_t key[static LINK_KEY], const struct link_object *object)
{
	assert(object->meta_len <= TRANSFER_META && shared_len(object->bytes) > 0);
	struct command *c = command_new(COMMAND_push, key);
	c->object_kind = object->kind;
	c->bytes = shared_hold(object->bytes);
	c->meta_len = object->meta_len;
	if (object->meta_len)
		memcpy(c->meta, object->meta, object->meta_len);
	uint64_t ref = transfer_ref(
		object->kind, shared_name(object->bytes), object->meta, object->meta_len);
	put(l, c);
	return ref;
}

void link_cancel(struct link *l, const uint8_t key[static LINK_KEY], uint64_t ref)
{
	struct command *c = command_new(COMMAND_cancel, key);
	c->ref = ref;
	put(l, c);
}

void link_answer(struct link *l, const uint8_t key[static LINK_KEY], uint64_t ref, enum err code,
	const char *text)
{
	struct command *c = command_new(COMMAND_answer, key);
	c->ref = ref;
	if (code)
		err_why(&c->why, code, "%s", text ? text : err_text(code));
	put(l, c);
}

void link_counters(const struct link *l, struct link_counters *out)
{
	struct link *shared = (struct link *)(uintptr_t)l; // the lock is no part of what is asked
	pthread_mutex_lock(&shared->lock);
	*out = l->counters;
	pthread_mutex_unlock(&shared->lock);
}
