/*
 * The control plane's client (libcurl): calls that block, for worker threads.  One client per
 * thread; every call can be cancelled by a flag and is bounded in bytes and time.  Failures are
 * sentences that name the cause: a name that does not resolve, a closed port, a firewall, another
 * program's port, another key.  An error that the server explains in JSON comes through with its
 * code and sentence.
 */
#ifndef NET_HTTPS_CLIENT_H
#define NET_HTTPS_CLIENT_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "net/joinlink.h"
#include "net/proxy.h"
#include "net/statement.h"
#include "net/traffic.h"

struct https_client;

struct https_client_config {
	const char *host; /* copied; without brackets */
	uint16_t port;
	const atomic_bool *cancel; /* borrowed; NULL: never; true: calls end with ERR_interrupted */
	uint64_t connect_ns;       /* for name, TCP and TLS */
	uint64_t stall_ns;         /* with next to nothing coming (below 500 bytes/s) */
	uint64_t total_ns;         /* a whole call, downloads excepted */
	const char *ca_file;       /* copied; NULL: the system's certificates */
	const struct proxy *proxy; /* borrowed; NULL: as https_proxy says, to other machines */
	struct traffic *traffic;   /* counts both ways; borrowed, may be NULL */
};
/* host and port from the link (borrowed); 10 s, 20 s, 60 s. */
void https_client_config_init(struct https_client_config *c, const struct joinlink *l);

/* libcurl, once for the process; others than this client may need it. */
enum err https_client_start(struct why *why) MUST_CHECK;

/* A client that trusts nobody yet; only https_client_contact may be called. */
enum err https_client_new(const struct https_client_config *config, struct https_client **out,
	struct why *why) MUST_CHECK;
void https_client_free(struct https_client *c); /* NULL-safe */

/* First contact: fetch the statement from whoever answers, check it by the run key of the link, and
 * compare the TLS key of the connection with the one that it names.  From then on every connection
 * must show that key; where a proxy ends TLS, a certificate that the system trusts for the host.
 * ERR_signature when somebody stands in between. */
enum err https_client_contact(struct https_client *c, const struct joinlink *l, uint64_t now_s,
	struct statement *out, struct why *why) MUST_CHECK;
/* The same from a statement that was checked before (a saved one, or another thread's); public_ca
 * as https_client_public said then. */
void https_client_trust(struct https_client *c, const struct statement *s, bool public_ca);
bool https_client_public(const struct https_client *c);

/* path begins with '/'.  The reply has at most most bytes (ERR_toobig).  Caller frees bytes (a NUL
 * follows) or decrefs *out. */
enum err https_client_get(struct https_client *c, const char *path, size_t most, uint8_t **bytes,
	size_t *n, struct why *why) MUST_CHECK;
enum err https_client_get_json(struct https_client *c, const char *path, size_t most, json_t **out,
	struct why *why) MUST_CHECK;
enum err https_client_post_json(struct https_client *c, const char *path, const json_t *body,
	size_t most, json_t **out, struct why *why) MUST_CHECK;

struct https_client_sink {
	void *arg;
	uint64_t have; /* bytes there already: where to go on */
	uint64_t size; /* of the whole; a server that sends another one is refused (ERR_shape) */
	uint64_t stop; /* no byte from here on is wanted; 0: all are */
	/* The next bytes; an error ends the download and is returned. */
	enum err (*put)(void *arg, const void *bytes, size_t n, struct why *why);
	void (*progress)(void *arg, uint64_t have, uint64_t size); /* NULL: none */
};
/* Goes on at sink->have by Range and updates it; what was put stays put when it fails. */
enum err https_client_download(struct https_client *c, const char *path,
	struct https_client_sink *sink, struct why *why) MUST_CHECK;

#endif
