/*
 * A proxy that connections of this machine go out by: socks5h://[USER:PASSWORD@]HOST:PORT, which
 * resolves names itself, or http://[USER:PASSWORD@]HOST:PORT, which is asked to CONNECT.  libcurl
 * speaks with it, on both planes (net/tunnel.h for the data plane).  What it refuses has a sentence
 * with the cure; user and password are in none.
 */
#ifndef NET_PROXY_H
#define NET_PROXY_H
#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

#define PROXY_SHOWN 288 /* bytes of "socks5h://host:port" with its NUL */
#define PROXY_WORD 256  /* of user and of password, which SOCKS ends at 255 */

struct proxy {
	bool http;               /* else SOCKS 5 */
	char shown[PROXY_SHOWN]; /* without user and password */
	char user[PROXY_WORD], password[PROXY_WORD];
};

/* ERR_usage; the sentence shows nothing of what stands before the @. */
enum err proxy_parse(const char *text, struct proxy *out, struct why *why) MUST_CHECK;
/* Make this handle go by it, whatever the environment says. */
void proxy_apply(const struct proxy *p, CURL *curl);

struct proxy_fault {
	const struct proxy *proxy;
	CURL *curl;         /* after the failed perform */
	CURLcode code;      /* what it returned */
	const char *detail; /* curl's own words */
	const char *to;     /* host:port behind it */
};
/* Whether it failed at the proxy, and if so why. */
bool proxy_explain(const struct proxy_fault *f, struct why *why);

#endif
