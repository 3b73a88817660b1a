/* TLS pairs: PEM and back, what does not belong together, and the key that a certificate shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net/tls.h"

static const char *const names[] = {"train.example.org", "192.0.2.7", "2001:db8::1"};

static void test_round_trip(void **state)
{
	struct tls_pair *a = tls_make(names, 3), *b;
	char *key = tls_key_pem(a), *cert = tls_cert_pem(a);
	struct hash h = tls_spki(a), again;
	struct why why;
	(void)state;
	assert_int_equal(tls_load(key, cert, &b, &why), ERR_OK);
	again = tls_spki(b);
	assert_true(hash_equal(&h, &again));
	assert_int_equal(tls_spki_pem(cert, &again), ERR_OK);
	assert_true(hash_equal(&h, &again));
	assert_int_equal(tls_spki_pem("-----BEGIN CERTIFICATE-----\nAAAA\n", &again), ERR_syntax);
	char *same = tls_key_pem(b);
	assert_string_equal(key, same);
	free(same);
	free(key);
	free(cert);
	tls_free(b);
	tls_free(a);
	tls_free(NULL);
}

/* As some devices and old scripts make them. */
static void test_too_weak_to_be_used(void **state)
{
	EVP_PKEY *key = EVP_RSA_gen(512);
	X509 *cert = X509_new();
	BIO *out = BIO_new(BIO_s_mem());
	struct tls_pair *t;
	struct why why = {0};
	char pem[4096] = "", *at;
	(void)state;
	assert_non_null(key);
	assert_int_equal(X509_set_version(cert, X509_VERSION_3), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), -1000);
	X509_gmtime_adj(X509_getm_notAfter(cert), 1000000);
	assert_int_equal(X509_set_pubkey(cert, key), 1);
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	assert_int_equal(PEM_write_bio_X509(out, cert), 1);
	size_t n = (size_t)BIO_get_mem_data(out, &at);
	memcpy(pem, at, n);
	pem[n] = 0;
	assert_int_equal(PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL), 1);
	size_t both = (size_t)BIO_get_mem_data(out, &at);
	char *key_pem = strndup(at + n, both - n);
	assert_int_equal(tls_load(key_pem, pem, &t, &why), ERR_unsupported);
	assert_non_null(strstr(why.text, "too weak"));
	assert_null(t);
	free(key_pem);
	BIO_free(out);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static void test_the_certificate(void **state)
{
	struct tls_pair *a = tls_make(names, 3);
	char *pem = tls_cert_pem(a);
	BIO *bio = BIO_new_mem_buf(pem, -1);
	X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	(void)state;
	assert_int_equal(X509_verify(cert, X509_get0_pubkey(cert)), 1);
	assert_int_equal(X509_check_host(cert, "train.example.org", 0, 0, NULL), 1);
	assert_int_equal(X509_check_host(cert, "example.org", 0, 0, NULL), 0);
	assert_int_equal(X509_check_ip_asc(cert, "192.0.2.7", 0), 1);
	assert_int_equal(X509_check_ip_asc(cert, "2001:db8::1", 0), 1);
	assert_int_equal(X509_check_ip_asc(cert, "192.0.2.8", 0), 0);
	assert_int_equal(X509_cmp_current_time(X509_get0_notBefore(cert)), -1);
	assert_int_equal(X509_cmp_current_time(X509_get0_notAfter(cert)), 1);
	X509_free(cert);
	BIO_free(bio);
	free(pem);
	tls_free(a);
}

static void test_a_long_name(void **state)
{
	char name[240];
	const char *const list[] = {name};
	(void)state;
	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = 0;
	tls_free(tls_make(list, 1));
}

static void refuse(const char *key, const char *cert, enum err code, const char *says)
{
	struct tls_pair *out;
	struct why why = {0};
	assert_int_equal(tls_load(key, cert, &out, &why), code);
	assert_null(out);
	if (!strstr(why.text, says))
		fail_msg("%s", why.text);
}

static void test_what_does_not_load(void **state)
{
	struct tls_pair *a = tls_make(names, 3), *b = tls_make(names, 3);
	char *key = tls_key_pem(a), *cert = tls_cert_pem(a), *other = tls_cert_pem(b);
	(void)state;
	refuse(key, other, ERR_hash, "belongs to another key");
	refuse(cert, cert, ERR_syntax, "TLS key");
	refuse(key, key, ERR_syntax, "TLS certificate");
	refuse("", "", ERR_syntax, "TLS key");
	key[strlen(key) / 2] = 0;
	refuse(key, cert, ERR_syntax, "TLS key");
	free(key);
	free(cert);
	free(other);
	tls_free(a);
	tls_free(b);
}

static void test_a_chain_may_follow(void **state)
{
	struct tls_pair *a = tls_make(names, 3), *b = tls_make(names, 3), *out;
	char *key = tls_key_pem(a), *cert = tls_cert_pem(a), *more = tls_cert_pem(b);
	size_t n = strlen(cert) + strlen(more) + 1;
	char *both = malloc(n);
	struct why why;
	(void)state;
	snprintf(both, n, "%s%s", cert, more);
	assert_int_equal(tls_load(key, both, &out, &why), ERR_OK);
	struct hash x = tls_spki(a), y = tls_spki(out);
	assert_true(hash_equal(&x, &y));
	SSL_CTX *ctx = tls_server(out);
	assert_non_null(ctx);
	SSL_CTX_free(ctx);
	free(key);
	free(cert);
	free(more);
	free(both);
	tls_free(out);
	tls_free(a);
	tls_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_too_weak_to_be_used),
		cmocka_unit_test(test_the_certificate),
		cmocka_unit_test(test_a_long_name),
		cmocka_unit_test(test_what_does_not_load),
		cmocka_unit_test(test_a_chain_may_follow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
