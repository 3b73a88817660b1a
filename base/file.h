/*
 * Files that survive a power cut: written to a temporary name beside the target, fsynced, renamed,
 * the folder fsynced.  Every failure names the path, the cause and the cure in why.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* "cannot WHAT PATH: the system's reason; the cure", with the code of errno_value. */
enum err file_why(struct why *why, const char *what, const char *path, int errno_value);
/* The whole file, at most max bytes (ERR_toobig); a final NUL is added but not counted.  A named
 * pipe that nobody writes into is empty.  Caller frees. */
enum err file_read(
	const char *path, size_t max, uint8_t **bytes, size_t *len, struct why *why) MUST_CHECK;
enum err file_write(
	const char *path, const void *bytes, size_t n, int mode, struct why *why) MUST_CHECK;
enum err file_mkdirs(const char *path, int mode, struct why *why) MUST_CHECK;
bool file_exists(const char *path);
/* Makes a rename in folder survive a power cut.  0 or an errno value. */
int file_sync_folder(const char *folder);
/* Removes what writers that were killed left in folder (names that begin with prefix and end in
 * ".tmp"); for the folder's owner at start, before anybody writes there.  "" only where nobody else
 * keeps files.  A missing folder is no mistake. */
void file_sweep(const char *folder, const char *prefix);
/* Free bytes where path is (or would be). */
enum err file_space(const char *path, uint64_t *bytes) MUST_CHECK;
/* An exclusive lock on path, held until the descriptor is closed; ERR_busy names the holder's pid.
 */
enum err file_lock(const char *path, int *fd, struct why *why) MUST_CHECK;

/* A large file in pieces, under the same promise: nothing appears at path until commit.  A discard
 * (also after a failed put) removes the temporary file.  Both end the object. */
struct file_out;
enum err file_out_open(
	const char *path, int mode, struct file_out **out, struct why *why) MUST_CHECK;
enum err file_out_put(struct file_out *f, const void *bytes, size_t n, struct why *why) MUST_CHECK;
enum err file_out_commit(struct file_out *f, struct why *why) MUST_CHECK;
void file_out_discard(struct file_out *f); /* NULL-safe */

/* A read-only mapping of a whole file (at least 1 byte, else ERR_truncated).  Unmap with
 * file_unmap.  The file must be one that is replaced by renaming, never shortened in place. */
struct file_map {
	const uint8_t *data;
	size_t len;
};
enum err file_map(const char *path, struct file_map *out, struct why *why) MUST_CHECK;
void file_unmap(struct file_map *m); /* NULL-safe, idempotent */

#endif
