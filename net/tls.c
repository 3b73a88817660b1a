#include "net/tls.h"
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "base/alloc.h"
#include "base/rng.h"

#define CHAIN_MOST 8

struct tls_pair {
	EVP_PKEY *key;
	X509 *cert;
	STACK_OF(X509) * chain;
};

/* OpenSSL fails in these places only for lack of memory or for a mistake of ours. */
static void must(bool good)
{
	if (!good)
		abort();
}

static void add_extension(X509 *cert, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
	X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	must(ext && X509_add_ext(cert, ext, -1) == 1);
	X509_EXTENSION_free(ext);
}

static void add_names(X509 *cert, const char *const *names, size_t n)
{
	GENERAL_NAMES *all = GENERAL_NAMES_new();
	for (size_t i = 0; i < n; i++) {
		struct in6_addr address;
		size_t len = inet_pton(AF_INET, names[i], &address) == 1    ? 4
			     : inet_pton(AF_INET6, names[i], &address) == 1 ? 16
									    : 0;
		GENERAL_NAME *name = GENERAL_NAME_new();
		ASN1_STRING *text = len ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
		const void *bytes = len ? (const void *)&address : names[i];
		must(all && name && text);
		must(ASN1_STRING_set(text, bytes, (int)(len ? len : strlen(names[i]))) == 1);
		GENERAL_NAME_set0_value(name, len ? GEN_IPADD : GEN_DNS, text);
		must(sk_GENERAL_NAME_push(all, name) > 0);
	}
	must(X509_add1_ext_i2d(cert, NID_subject_alt_name, all, 0, X509V3_ADD_DEFAULT) == 1);
	GENERAL_NAMES_free(all);
}

static X509 *self_signed(EVP_PKEY *key, const char *const *names, size_t n)
{
	X509 *cert = X509_new();
	BIGNUM *serial = BN_new();
	uint8_t random[16];
	rng_secret(random, sizeof random);
	random[0] &= 0x7f; // serial numbers are positive
	random[0] |= 1;
	must(cert && serial && X509_set_version(cert, X509_VERSION_3) == 1);
	must(BN_bin2bn(random, sizeof random, serial) &&
		BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(cert)));
	BN_free(serial);
	must(ASN1_TIME_set_string(X509_getm_notBefore(cert), "20200101000000Z") == 1);
	must(ASN1_TIME_set_string(X509_getm_notAfter(cert), "21191231235959Z") == 1);
	X509_NAME *subject = X509_get_subject_name(cert);
	// A common name has at most 64 characters; the names that count stand in the extension.
	must(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
		     (const unsigned char *)(strlen(names[0]) <= 64 ? names[0] : "shoal"), -1, -1,
		     0) == 1);
	must(X509_set_issuer_name(cert, subject) == 1 && X509_set_pubkey(cert, key) == 1);
	add_extension(cert, NID_basic_constraints, "critical,CA:FALSE");
	add_extension(cert, NID_key_usage, "critical,digitalSignature");
	add_extension(cert, NID_ext_key_usage, "serverAuth");
	add_names(cert, names, n);
	must(X509_sign(cert, key, EVP_sha256()) > 0);
	return cert;
}

struct tls_pair *tls_make(const char *const *names, size_t n_names)
{
	struct tls_pair *t = alloc_must_zero(1, sizeof *t);
	t->key = EVP_EC_gen("P-256");
	must(t->key);
	t->cert = self_signed(t->key, names, n_names);
	return t;
}

static bool use(const struct tls_pair *t, SSL_CTX *ctx)
{
	bool good = SSL_CTX_use_certificate(ctx, t->cert) == 1 &&
		    SSL_CTX_use_PrivateKey(ctx, t->key) == 1;
	for (int i = 0; good && t->chain && i < sk_X509_num(t->chain); i++)
		good = SSL_CTX_add1_chain_cert(ctx, sk_X509_value(t->chain, i)) == 1;
	return good;
}

/* Files that nobody can type a passphrase for. */
static int no_passphrase(char *out, int room, int writing, void *arg)
{
	(void)out, (void)room, (void)writing, (void)arg;
	return -1;
}

/* Whether a server may use it: the system's policy refuses short keys and old hashes. */
static enum err check_strength(const struct tls_pair *t, struct why *why)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	must(ctx);
	bool good = use(t, ctx);
	SSL_CTX_free(ctx);
	ERR_clear_error();
	if (good)
		return ERR_OK;
	return err_why(why, ERR_unsupported,
		"the TLS certificate or its key is too weak for this system's policy; make one "
		"with ECDSA P-256 or with RSA of at least 2048 bits");
}

static enum err load(struct tls_pair *t, const char *key_pem, const char *cert_pem, struct why *why)
{
	BIO *key = BIO_new_mem_buf(key_pem, -1), *cert = BIO_new_mem_buf(cert_pem, -1);
	must(key && cert && t->chain);
	t->key = PEM_read_bio_PrivateKey(key, NULL, no_passphrase, NULL);
	t->cert = PEM_read_bio_X509(cert, NULL, no_passphrase, NULL);
	for (int i = 0; t->cert && i < CHAIN_MOST; i++) {
		X509 *more = PEM_read_bio_X509(cert, NULL, no_passphrase, NULL);
		if (!more)
			break;
		must(sk_X509_push(t->chain, more) > 0);
	}
	BIO_free(key);
	BIO_free(cert);
	ERR_clear_error();
	if (!t->key)
		return err_why(why, ERR_syntax,
			"the TLS key is no secret key in PEM without a passphrase; put the right "
			"file back, or remove it to have a new one made");
	if (!t->cert)
		return err_why(why, ERR_syntax,
			"the TLS certificate is no certificate in PEM; put the right file back, or "
			"remove it and the TLS key to have new ones made");
	if (X509_check_private_key(t->cert, t->key) != 1) {
		ERR_clear_error();
		return err_why(why, ERR_hash,
			"the TLS certificate belongs to another key; put the matching files back, "
			"or remove both to have new ones made");
	}
	return check_strength(t, why);
}

enum err tls_load(const char *key_pem, const char *cert_pem, struct tls_pair **out, struct why *why)
{
	struct tls_pair *t = alloc_must_zero(1, sizeof *t);
	t->chain = sk_X509_new_null();
	enum err e = load(t, key_pem, cert_pem, why);
	if (e) {
		tls_free(t);
		t = NULL;
	}
	*out = t;
	return e;
}

void tls_free(struct tls_pair *t)
{
	if (!t)
		return;
	EVP_PKEY_free(t->key);
	X509_free(t->cert);
	sk_X509_pop_free(t->chain, X509_free);
	free(t);
}

static char *text_of(BIO *bio)
{
	char *data;
	long n = BIO_get_mem_data(bio, &data);
	must(n > 0);
	char *out = alloc_must((size_t)n + 1);
	memcpy(out, data, (size_t)n);
	out[n] = 0;
	BIO_free(bio);
	return out;
}

char *tls_key_pem(const struct tls_pair *t)
{
	BIO *bio = BIO_new(BIO_s_secmem());
	must(bio && PEM_write_bio_PrivateKey(bio, t->key, NULL, NULL, 0, NULL, NULL) == 1);
	return text_of(bio);
}

char *tls_cert_pem(const struct tls_pair *t)
{
	BIO *bio = BIO_new(BIO_s_mem());
	must(bio && PEM_write_bio_X509(bio, t->cert) == 1);
	return text_of(bio);
}

static struct hash spki_of(const X509 *cert)
{
	unsigned char *der = NULL;
	int n = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(cert), &der);
	must(n > 0);
	struct hash h = hash_of(der, (size_t)n);
	OPENSSL_free(der);
	return h;
}

struct hash tls_spki(const struct tls_pair *t)
{
	return spki_of(t->cert);
}

enum err tls_spki_pem(const char *cert_pem, struct hash *out)
{
	BIO *bio = BIO_new_mem_buf(cert_pem, -1);
	must(bio);
	X509 *cert = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
	BIO_free(bio);
	ERR_clear_error();
	if (!cert)
		return ERR_syntax;
	*out = spki_of(cert);
	X509_free(cert);
	return ERR_OK;
}

struct ssl_ctx_st *tls_server(const struct tls_pair *t)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	must(ctx && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1);
	must(use(t, ctx)); // as it was when the pair was made or loaded
	// Lengths are part of HTTP, so a connection that is cut short cannot pass for a whole one.
	SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	return ctx;
}
