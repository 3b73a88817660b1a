#include "net/backup.h"
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/rng.h"

#define MAGIC "SHOALBAK"
#define VERSION 1
#define SALT 16
#define NONCE 12
#define TAG 16
#define HEAD (8 + 2 + 1 + 1 + 1 + SALT + NONCE) /* magic, version, log2 N, r, p, salt, nonce */
#define BYTES (HEAD + SIGN_SECRET + TAG)
#define LOG_N 17 /* 128 MiB and about half a second, for whoever guesses as well */
#define LOG_N_MOST 20
#define R 8
#define P 1
#define MEMORY ((uint64_t)256 << 20)

static enum err make_key(const char *passphrase, const uint8_t head[static HEAD],
	uint8_t key[static 32], struct why *why)
{
	unsigned log_n = head[10], r = head[11], p = head[12];
	if (log_n < 10 || log_n > LOG_N_MOST || r == 0 || r > 16 || p == 0 || p > 4)
		return err_why(why, ERR_range, "the backup asks for settings that none has");
	// r and log_n are bounded, so this cannot ask for more than 2 GiB.
	uint64_t memory = MEMORY + ((uint64_t)128 * r << log_n);
	if (EVP_PBE_scrypt(passphrase, strlen(passphrase), head + 13, SALT, (uint64_t)1 << log_n, r,
		    p, memory, key, 32) == 1)
		return ERR_OK;
	ERR_clear_error();
	return err_why(why, ERR_nomem,
		"there is not enough memory to turn the passphrase into a key (about %u MiB are "
		"needed)",
		(unsigned)(memory >> 20));
}

/* AES-256-GCM over the secret, with the head as what is also authenticated. */
static bool seal(const uint8_t key[static 32], uint8_t file[static BYTES],
	const uint8_t secret[static SIGN_SECRET])
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	int n;
	bool good =
		ctx &&
		EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, file + 13 + SALT) == 1 &&
		EVP_EncryptUpdate(ctx, NULL, &n, file, HEAD) == 1 &&
		EVP_EncryptUpdate(ctx, file + HEAD, &n, secret, SIGN_SECRET) == 1 &&
		EVP_EncryptFinal_ex(ctx, file + HEAD + n, &n) == 1 &&
		EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG, file + HEAD + SIGN_SECRET) == 1;
	EVP_CIPHER_CTX_free(ctx);
	return good;
}

static bool unseal(const uint8_t key[static 32], const uint8_t file[static BYTES],
	uint8_t secret[static SIGN_SECRET])
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	uint8_t tag[TAG]; /* the call takes no const */
	memcpy(tag, file + HEAD + SIGN_SECRET, TAG);
	int n;
	bool good = ctx &&
		    EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, file + 13 + SALT) == 1 &&
		    EVP_DecryptUpdate(ctx, NULL, &n, file, HEAD) == 1 &&
		    EVP_DecryptUpdate(ctx, secret, &n, file + HEAD, SIGN_SECRET) == 1 &&
		    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG, tag) == 1 &&
		    EVP_DecryptFinal_ex(ctx, secret + n, &n) == 1;
	EVP_CIPHER_CTX_free(ctx);
	ERR_clear_error();
	return good;
}

enum err backup_write(
	const char *path, const struct sign_key *run, const char *passphrase, struct why *why)
{
	uint8_t file[BYTES] = MAGIC, key[32], secret[SIGN_SECRET];
	if (strlen(passphrase) < BACKUP_PASSPHRASE_LEAST)
		return err_why(why, ERR_usage,
			"the passphrase has fewer than %d characters; several words are good",
			BACKUP_PASSPHRASE_LEAST);
	if (file_exists(path))
		return err_why(why, ERR_exists,
			"%s is there already; a backup never overwrites anything, choose another "
			"name",
			path);
	file[8] = VERSION;
	file[10] = LOG_N;
	file[11] = R;
	file[12] = P;
	rng_secret(file + 13, SALT + NONCE);
	enum err e = make_key(passphrase, file, key, why);
	if (e)
		return e;
	sign_store(run, secret);
	e = seal(key, file, secret) ? file_write(path, file, sizeof file, 0600, why)
				    : err_why(why, ERR_nomem, "out of memory");
	explicit_bzero(secret, sizeof secret);
	explicit_bzero(key, sizeof key);
	return e;
}

static enum err check_form(const char *path, const uint8_t *bytes, size_t n, struct why *why)
{
	if (n < 10 || memcmp(bytes, MAGIC, 8) != 0)
		return err_why(why, ERR_magic, "%s is not a backup of a run key", path);
	if (bytes[8] != VERSION || bytes[9] != 0)
		return err_why(why, ERR_version,
			"%s is a backup of version %u, this program knows version %d", path,
			bytes[8], VERSION);
	if (n != BYTES)
		return err_why(why, ERR_truncated,
			"%s has %zu bytes instead of %d: it is cut short or damaged; use another "
			"copy",
			path, n, BYTES);
	return ERR_OK;
}

static enum err open_file(
	const uint8_t *file, const char *passphrase, struct sign_key **out, struct why *why)
{
	uint8_t key[32], secret[SIGN_SECRET];
	enum err e = make_key(passphrase, file, key, why);
	if (e)
		return e;
	if (!unseal(key, file, secret))
		e = err_why(why, ERR_signature,
			"the passphrase does not open this backup (or the file was altered)");
	else if (sign_load(secret, out) != ERR_OK)
		e = err_why(why, ERR_syntax, "the backup holds no key");
	explicit_bzero(secret, sizeof secret);
	explicit_bzero(key, sizeof key);
	return e;
}

enum err backup_open(const char *path, const void *bytes, size_t n, const char *passphrase,
	struct sign_key **out, struct why *why)
{
	*out = NULL;
	enum err e = check_form(path, bytes, n, why);
	return e ? e : open_file(bytes, passphrase, out, why);
}

enum err backup_read(
	const char *path, const char *passphrase, struct sign_key **out, struct why *why)
{
	uint8_t *bytes;
	size_t n;
	*out = NULL;
	enum err e = file_read(path, 4096, &bytes, &n, why);
	if (!e)
		e = backup_open(path, bytes, n, passphrase, out, why);
	free(bytes);
	return e;
}
