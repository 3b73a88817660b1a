/*
 * Join links, shoal://host:port/RUN#KEY.INVITE: all that a volunteer needs.  RUN is the run's id in
 * hex, KEY the run key in base64url, INVITE as invite.h writes it.  An IPv6 address stands in
 * brackets.  Every mistake has a sentence of its own.
 */
#ifndef NET_JOINLINK_H
#define NET_JOINLINK_H
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "net/invite.h"
#include "net/sign.h"

#define JOINLINK_HOST 254
#define JOINLINK_MAX 768 /* bytes of a link with its NUL */

struct joinlink {
	char host[JOINLINK_HOST]; /* without brackets */
	uint16_t port;
	struct hash run;
	struct sign_public key;
	char invite[INVITE_TEXT];
};

/* ERR_syntax. */
enum err joinlink_parse(const char *text, struct joinlink *out, struct why *why) MUST_CHECK;
void joinlink_format(const struct joinlink *l, char out[static JOINLINK_MAX]);
/* "host:port", brackets where they are needed. */
void joinlink_authority(const struct joinlink *l, char out[static JOINLINK_HOST + 8]);

/* What stood on the command line: the link itself, whose characters are wiped from the argument, so
 * that no list of processes shows it; "-" for standard input; or the name of a file. */
enum err joinlink_read(char *argument, struct joinlink *out, struct why *why) MUST_CHECK;

#endif
