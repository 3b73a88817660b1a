#include "net/identity.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "net/keyfile.h"

#define PEM_MOST 65536
#define Z85 41 /* characters of 32 bytes, with the NUL */

void identity_curve_make(struct identity_curve *out)
{
	char public_text[Z85], secret_text[Z85];
	if (zmq_curve_keypair(public_text, secret_text) != 0 ||
		!zmq_z85_decode(out->public_key, public_text) ||
		!zmq_z85_decode(out->secret_key, secret_text))
		abort(); // a libzmq without CURVE, which nothing here can do without
	explicit_bzero(secret_text, sizeof secret_text);
}

static char *in(const char *dir, const char *name)
{
	return alloc_must_printf("%s/%s", dir, name);
}

static bool has(const char *dir, const char *name)
{
	char *path = in(dir, name);
	bool there = file_exists(path);
	free(path);
	return there;
}

bool identity_coordinator_exists(const char *dir)
{
	return has(dir, "run.key");
}

enum err identity_coordinator_make(const char *dir, const struct sign_key *run, struct why *why)
{
	uint8_t secret[SIGN_SECRET];
	struct sign_key *fresh = run ? NULL : sign_make();
	enum err e = keyfile_folder(dir, why);
	char *path = in(dir, "run.key");
	sign_store(run ? run : fresh, secret);
	if (!e)
		e = keyfile_make(path, KEYFILE_run, secret, sizeof secret, why);
	explicit_bzero(secret, sizeof secret);
	sign_free(fresh);
	free(path);
	return e;
}

static enum err open_run(const char *dir, struct sign_key **out, struct why *why)
{
	uint8_t secret[SIGN_SECRET];
	char *path = in(dir, "run.key");
	enum err e = file_exists(path) ? keyfile_read(path, KEYFILE_run, secret, sizeof secret, why)
				       : err_why(why, ERR_missing,
						 "there is no run key in %s: put it back from its "
						 "backup (shoal-coordinator restore); only the "
						 "first serve of a new run makes one",
						 dir);
	if (!e && sign_load(secret, out) != ERR_OK)
		e = err_why(why, ERR_syntax, "%s holds no key", path);
	explicit_bzero(secret, sizeof secret);
	free(path);
	return e;
}

static enum err open_curve(const char *dir, struct identity_curve *out, struct why *why)
{
	char *path = in(dir, "curve.key");
	enum err e;
	if (file_exists(path)) {
		e = keyfile_read(path, KEYFILE_curve, out, sizeof *out, why);
	} else {
		identity_curve_make(out);
		e = keyfile_make(path, KEYFILE_curve, out, sizeof *out, why);
	}
	free(path);
	return e;
}

/* The certificate is written first: a key beside it means that both are whole. */
static enum err make_tls(
	const char *key_path, const char *cert_path, struct tls_pair **out, struct why *why)
{
	char host[256] = "";
	if (gethostname(host, sizeof host - 1) != 0 || !host[0])
		snprintf(host, sizeof host, "shoal");
	const char *names[] = {host, "localhost", "127.0.0.1", "::1"};
	*out = tls_make(names, 4);
	char *key = tls_key_pem(*out), *cert = tls_cert_pem(*out);
	enum err e = file_write(cert_path, cert, strlen(cert), 0644, why);
	if (!e)
		e = file_write(key_path, key, strlen(key), 0600, why);
	explicit_bzero(key, strlen(key));
	free(key);
	free(cert);
	return e;
}

static enum err load_tls(
	const char *key_path, const char *cert_path, struct tls_pair **out, struct why *why)
{
	uint8_t *cert = NULL;
	size_t n;
	char *key;
	enum err e = keyfile_text(key_path, PEM_MOST, &key, why);
	if (!e)
		e = file_read(cert_path, PEM_MOST, &cert, &n, why);
	if (!e)
		e = tls_load(key, (const char *)cert, out, why);
	if (key)
		explicit_bzero(key, strlen(key));
	free(key);
	free(cert);
	return e;
}

static enum err open_tls(const char *dir, struct tls_pair **out, struct why *why)
{
	char *key = in(dir, "tls.key"), *cert = in(dir, "tls.crt");
	enum err e =
		file_exists(key) ? load_tls(key, cert, out, why) : make_tls(key, cert, out, why);
	free(key);
	free(cert);
	return e;
}

enum err identity_coordinator_open(
	const char *dir, struct identity_coordinator *out, struct why *why)
{
	*out = (struct identity_coordinator){0};
	enum err e = open_run(dir, &out->run, why);
	if (!e)
		e = keyfile_folder(dir, why);
	if (!e)
		e = open_curve(dir, &out->curve, why);
	if (!e)
		e = open_tls(dir, &out->tls, why);
	if (e)
		identity_coordinator_release(out);
	return e;
}

void identity_coordinator_release(struct identity_coordinator *c)
{
	if (!c)
		return;
	sign_free(c->run);
	tls_free(c->tls);
	explicit_bzero(c, sizeof *c);
}

/* What the file holds, in this order. */
struct peer_secret {
	uint8_t sign[SIGN_SECRET];
	struct identity_curve curve;
};

static enum err open_peer_keys(const char *path, struct identity_peer *out, struct why *why)
{
	struct peer_secret s;
	enum err e;
	if (file_exists(path)) {
		e = keyfile_read(path, KEYFILE_peer, &s, sizeof s, why);
		if (!e && sign_load(s.sign, &out->sign) != ERR_OK)
			e = err_why(why, ERR_syntax, "%s holds no key", path);
	} else {
		out->sign = sign_make();
		sign_store(out->sign, s.sign);
		identity_curve_make(&s.curve);
		e = keyfile_make(path, KEYFILE_peer, &s, sizeof s, why);
	}
	if (!e)
		out->curve = s.curve;
	explicit_bzero(&s, sizeof s);
	return e;
}

static enum err count_start(const char *path, uint64_t *instance, struct why *why)
{
	uint8_t bytes[4] = {0};
	uint32_t starts, chance;
	enum err e = file_exists(path)
			     ? keyfile_read(path, KEYFILE_starts, bytes, sizeof bytes, why)
			     : ERR_OK;
	if (e)
		return e;
	starts = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
		 (uint32_t)bytes[3] << 24;
	starts++;
	for (int i = 0; i < 4; i++)
		bytes[i] = (uint8_t)(starts >> 8 * i);
	rng_secret(&chance, sizeof chance);
	*instance = (uint64_t)starts << 32 | chance;
	return keyfile_replace(path, KEYFILE_starts, bytes, sizeof bytes, why);
}

enum err identity_peer_open(const char *dir, struct identity_peer *out, struct why *why)
{
	char *key = in(dir, "peer.key"), *starts = in(dir, "starts");
	*out = (struct identity_peer){0};
	enum err e = keyfile_folder(dir, why);
	if (!e)
		e = open_peer_keys(key, out, why);
	if (!e)
		e = count_start(starts, &out->instance, why);
	free(key);
	free(starts);
	if (e)
		identity_peer_release(out);
	return e;
}

void identity_peer_release(struct identity_peer *p)
{
	if (!p)
		return;
	sign_free(p->sign);
	explicit_bzero(p, sizeof *p);
}
