/*
 * Files with secrets: "SHOALKEY", version, kind, the bytes, and a check sum that finds a file cut
 * short.  Mode 0600 in a folder that nobody else can write; never overwritten.
 */
#ifndef NET_KEYFILE_H
#define NET_KEYFILE_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define KEYFILE_BYTES 1024 /* at most in one */

/* What the file is, for sentences. */
#define KEYFILE_LIST(X) \
	X(1, run, "run key") \
	X(2, curve, "CURVE key") \
	X(3, peer, "peer's key") \
	X(4, starts, "start counter")

enum keyfile_kind {
#define X(number, name, text) KEYFILE_##name = number,
	KEYFILE_LIST(X)
#undef X
};

/* Make the folder (0700) when it is missing; ERR_permission when others can write in it. */
enum err keyfile_folder(const char *dir, struct why *why) MUST_CHECK;
/* ERR_exists. */
enum err keyfile_make(const char *path, enum keyfile_kind kind, const void *bytes, size_t n,
	struct why *why) MUST_CHECK;
/* As keyfile_make, but takes the place of what is there. */
enum err keyfile_replace(const char *path, enum keyfile_kind kind, const void *bytes, size_t n,
	struct why *why) MUST_CHECK;
/* Exactly n bytes.  ERR_missing, ERR_permission (others can read it), ERR_truncated, ERR_magic,
 * ERR_version, ERR_hash. */
enum err keyfile_read(const char *path, enum keyfile_kind kind, void *bytes, size_t n,
	struct why *why) MUST_CHECK;
/* The content of such a file; path is for the sentence.  Nothing goes to out after a refusal. */
struct keyfile_expected {
	const char *path;
	enum keyfile_kind kind;
	size_t n; /* bytes of the secret */
};
enum err keyfile_parse(const struct keyfile_expected *expected, const void *bytes, size_t size,
	void *out, struct why *why) MUST_CHECK;
/* Another kind of secret file, as text, under the same rule of modes; caller wipes and frees. */
enum err keyfile_text(const char *path, size_t most, char **text, struct why *why) MUST_CHECK;

#endif
