/* The run key in a file that a passphrase protects (scrypt, AES-256-GCM), to be kept elsewhere. */
#ifndef NET_BACKUP_H
#define NET_BACKUP_H
#include "base/err.h"
#include "net/sign.h"

#define BACKUP_PASSPHRASE_LEAST 8 /* characters */

/* ERR_exists: a file is never overwritten. */
enum err backup_write(const char *path, const struct sign_key *run, const char *passphrase,
	struct why *why) MUST_CHECK;
/* ERR_signature: the passphrase is wrong (or the file was altered: the two look the same). */
enum err backup_read(const char *path, const char *passphrase, struct sign_key **out,
	struct why *why) MUST_CHECK;
/* The content of such a file; path is for the sentence. */
enum err backup_open(const char *path, const void *bytes, size_t n, const char *passphrase,
	struct sign_key **out, struct why *why) MUST_CHECK;

#endif
