/*
 * TLS as both programs use it: a key (ECDSA P-256) with a certificate signed by itself, known by
 * the SHA-256 of its public key (SubjectPublicKeyInfo), and the server's settings (TLS 1.3 only).
 * Any thread; a pair is immutable once made.
 */
#ifndef NET_TLS_H
#define NET_TLS_H
#include <stddef.h>
#include "base/err.h"
#include "base/hash.h"

struct ssl_ctx_st;
struct tls_pair; /* a secret key and its certificate */

/* names (DNS names and addresses; the first is the common name; at least one) stand in the
 * certificate, whose dates are so wide that no clock matters. */
struct tls_pair *tls_make(const char *const *names, size_t n_names);
/* From PEM texts; a chain may follow the certificate.  ERR_syntax, ERR_hash when the certificate
 * is another key's, ERR_unsupported when it is too weak to be used. */
enum err tls_load(const char *key_pem, const char *cert_pem, struct tls_pair **out,
	struct why *why) MUST_CHECK;
void tls_free(struct tls_pair *t);            /* NULL-safe */
char *tls_key_pem(const struct tls_pair *t);  /* secret; caller wipes and frees */
char *tls_cert_pem(const struct tls_pair *t); /* caller frees */
struct hash tls_spki(const struct tls_pair *t);
/* The same of a certificate in PEM; ERR_syntax. */
enum err tls_spki_pem(const char *cert_pem, struct hash *out) MUST_CHECK;
/* A server's context; caller frees with SSL_CTX_free. */
struct ssl_ctx_st *tls_server(const struct tls_pair *t);

#endif
