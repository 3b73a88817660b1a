/*
 * What a running peer says of itself, for `shoal-peer status` in another terminal: DIR/status.json,
 * replaced once a second.  Not a saved state: it is not fsynced, and only means something while the
 * process that wrote it lives.
 */
#ifndef PEER_STATUSFILE_H
#define PEER_STATUSFILE_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define STATUSFILE_TEXT 256
#define STATUSFILE_MAX 65536u /* bytes of the file */

struct statusfile {
	int64_t pid;
	uint64_t written_s; /* wall clock */
	char run[65], name[65], state[16], coordinator[128];
	char reason[STATUSFILE_TEXT]; /* why it idles; empty while it works */
	char last_refusal[STATUSFILE_TEXT];
	char rate[STATUSFILE_TEXT]; /* how large contributions get, and why; empty: not varied */
	uint32_t member;
	uint64_t round, steps_done, steps, sequence;
	uint64_t state_round; /* of the replica at sequence, and its hash; empty: there is none */
	char state_hash[65];
	uint64_t tokens; /* trained here and listed by the ledger since this process began */
	double tokens_per_s, loss;
	double delay_s; /* rounds that overlap: from the last cut until its update was joined */
	uint64_t bytes_up, bytes_down; /* of the data plane */
	uint64_t given, taken;         /* bytes to other peers, and from them */
	char quota[STATUSFILE_TEXT];   /* what of it is used; empty: there is none */
};

/* Texts are made printable, numbers that are none become 0. */
enum err statusfile_write(const char *dir, const struct statusfile *s, struct why *why) MUST_CHECK;
/* ERR_missing when no peer has run in this folder. */
enum err statusfile_read(const char *dir, struct statusfile *out, struct why *why) MUST_CHECK;
/* The content of such a file; path is for the sentence.  ERR_syntax, and out is all zero. */
enum err statusfile_parse(const void *bytes, size_t n, const char *path, struct statusfile *out,
	struct why *why) MUST_CHECK;

#endif
